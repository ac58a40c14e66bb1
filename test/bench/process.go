package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// Usage is the resource usage of a command, as the system counts it.
type Usage struct {
	Wall   time.Duration
	User   time.Duration // of all its threads
	CPU    time.Duration // User, and the system's time for it
	Memory int64         // peak, in bytes
}

func (u Usage) String() string {
	return fmt.Sprintf("wall %.1f s, CPU %.1f s, peak RSS %.0f MB", u.Wall.Seconds(), u.CPU.Seconds(), float64(u.Memory)/1e6)
}

// RunCommand runs a command to its end and discards its output.
func RunCommand(name string, args ...string) (Usage, error) {
	cmd := exec.Command(name, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return Usage{}, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return Usage{}, errors.New("the system does not say what a command used")
	}
	user := cmd.ProcessState.UserTime()
	return Usage{time.Since(began), user, user + cmd.ProcessState.SystemTime(), used.Maxrss * 1000}, nil
}

// BuildCommand builds the command trainspan in the folder benchmarks of dir,
// and returns its path. flags are further flags of go build.
func BuildCommand(dir string, flags ...string) (string, error) {
	path := filepath.Join(dir, "trainspan")
	build := exec.Command("go", slices.Concat([]string{"build", "-o", path}, flags, []string{"github.com/trainspan/trainspan/cmd/trainspan"})...)
	build.Dir, build.Stderr = "../..", os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build the command (run this in test/bench/): %w", err)
	}
	return path, nil
}

// ReadBare reads the events of all traces below a path and discards them.
func ReadBare(path string) error {
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		r, err := dftracer.OpenReader(path, nil)
		if err != nil {
			return err
		}
		for err == nil {
			_, err = r.Next()
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return errors.Join(err, r.Close())
	})
}
