//go:build unix

package launch

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Exit statuses of a command that could not be started, as in shells.
const (
	StatusNotExecutable = 126
	StatusNotFound      = 127
)

// signalBase is the number that a shell adds to the number of the signal that
// ended a command.
const signalBase = 128

// Status is how a command ended.
type Status struct {
	Code   int            `json:"code"`             // its exit status; meaningless after a signal
	Signal syscall.Signal `json:"signal,omitempty"` // the signal that ended it, or 0
	Core   bool           `json:"core,omitempty"`   // the system wrote a core file
	User   time.Duration  `json:"user"`             // processor time of the command and of the children it waited for
	System time.Duration  `json:"system"`
	MaxRSS int64          `json:"max_rss"` // bytes of the largest process among these
}

// ExitCode returns the exit status: that of the command, or 128 plus the number
// of the signal.
func (s *Status) ExitCode() int {
	if s.Signal != 0 {
		return signalBase + int(s.Signal)
	}
	return s.Code
}

func newStatus(ws syscall.WaitStatus, ru *syscall.Rusage) Status {
	s := Status{
		User: time.Duration(ru.Utime.Nano()), System: time.Duration(ru.Stime.Nano()),
		MaxRSS: ru.Maxrss << 10,
	}
	if ws.Signaled() {
		s.Signal, s.Core = ws.Signal(), ws.CoreDump()
	} else {
		s.Code = ws.ExitStatus()
	}
	return s
}

// Find looks up a program as shells do. It returns its path, or if it cannot be
// run the status [StatusNotFound] or [StatusNotExecutable].
func Find(name string) (path string, status int, err error) {
	path, err = exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, 0, nil
	}
	why := error(fs.ErrNotExist)
	switch {
	case errors.Is(err, fs.ErrPermission):
		why = fs.ErrPermission
	case errors.Is(err, syscall.EISDIR):
		why = syscall.EISDIR
	case !strings.ContainsRune(name, filepath.Separator):
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if info, err := os.Stat(filepath.Join(dir, name)); name != "" && err == nil && !info.IsDir() {
				why, path = fs.ErrPermission, filepath.Join(dir, name)
				break
			}
		}
	}
	status = StatusNotFound
	if why != fs.ErrNotExist { //nolint:errorlint // it was set above
		status = StatusNotExecutable
	}
	if path == "" {
		if path = name; name == "" {
			path = `""`
		}
	}
	return "", status, &os.PathError{Op: "run", Path: path, Err: why}
}

// shell runs a script that does not name its interpreter, as in execvp.
const shell = "/bin/sh"

// firstLine is the number of bytes that shells read from a file to distinguish
// a script from a program for another machine.
const firstLine = 80

// Script returns the program and the arguments that run a file which the system
// refuses with ENOEXEC, as env, nohup and shells do. It returns false for a
// file that is not text.
func Script(path string, args []string) (string, []string, bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, false
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, firstLine)
	n, _ := io.ReadFull(f, head)
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	if bytes.IndexByte(line, 0) >= 0 {
		return "", nil, false
	}
	return shell, append([]string{"sh", path}, args[1:]...), true
}
