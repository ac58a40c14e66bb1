//go:build unix

package launch

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Exit statuses of a command that could not be started, as shells give them.
const (
	StatusNotExecutable = 126
	StatusNotFound      = 127
)

// signalBase is what a shell adds to the number of the signal that ended a command.
const signalBase = 128

// Status is how a command ended.
type Status struct {
	Code   int            `json:"code"`             // its exit status; meaningless after a signal
	Signal syscall.Signal `json:"signal,omitempty"` // that ended it, 0 for none
	Core   bool           `json:"core,omitempty"`   // the system wrote a core file
	User   time.Duration  `json:"user"`             // processor time of the command and the children it waited for
	System time.Duration  `json:"system"`
	MaxRSS int64          `json:"max_rss"` // bytes of the largest process among these
}

// ExitCode is the status that tells the same: that of the command, or 128 and
// the number of the signal.
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

// Find looks a program up as execvp does. Of a program that cannot be run the
// status says why: [StatusNotFound] or [StatusNotExecutable].
func Find(name string) (path string, status int, err error) {
	path, err = exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return path, 0, nil
	case errors.Is(err, fs.ErrPermission):
		return "", StatusNotExecutable, &os.PathError{Op: "run", Path: name, Err: fs.ErrPermission}
	}
	return "", StatusNotFound, &os.PathError{Op: "run", Path: name, Err: fs.ErrNotExist}
}
