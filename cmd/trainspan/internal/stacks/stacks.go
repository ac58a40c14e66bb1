//go:build unix

// Package stacks gets the stacks of a Python process's threads without stopping
// it: from py-spy if it is installed, otherwise from the faulthandler that the
// client has set up in the process.
package stacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
)

const (
	maxText = 1 << 20 // of the stacks of one process
	look    = 50 * time.Millisecond
	pySpy   = "py-spy"
)

// ErrNone means that a process gives no stacks, or is not known to handle the
// signal.
var ErrNone = errors.New("cannot get stacks")

// Take returns the stacks of a process, as py-spy or faulthandler print them.
// folders are where the client may have left the file of the process. Each way
// has the time limit each.
func Take(ctx context.Context, pid int, each time.Duration, folders ...string) ([]byte, error) {
	if path, err := exec.LookPath(pySpy); err == nil {
		if text, err := spy(ctx, path, pid, each); err == nil {
			return text, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	for _, dir := range folders {
		found, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("stack-%d-*%s", pid, ring.SideExt))) // of a pattern in dir: nothing is found
		for _, path := range found {
			var sig int
			if _, err := fmt.Sscanf(strings.TrimPrefix(filepath.Base(path), fmt.Sprintf("stack-%d-", pid)), "%d"+ring.SideExt, &sig); err != nil {
				continue
			}
			if err := ready(pid, sig, path); err != nil {
				return nil, err
			}
			return handler(ctx, pid, syscall.Signal(sig), path)
		}
	}
	return nil, ErrNone
}

// commandLine matches py-spy's line with the arguments of the process, which
// may have secrets.
var commandLine = regexp.MustCompile(`(?m)^(Process \d+: ).*$`)

func spy(ctx context.Context, path string, pid int, most time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "dump", "--pid", strconv.Itoa(pid), "--nonblocking", "--full-filenames")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pySpy, err)
	}
	if len(out) > maxText || !bytes.Contains(out, []byte("\nThread ")) {
		return nil, fmt.Errorf("%s: %w", pySpy, ErrNone)
	}
	return commandLine.ReplaceAll(out, []byte("${1}python")), nil
}

// ready reports whether a process handles a signal as the client has set it up:
// its main thread handles the signal and does not block it, and the process
// still has the file open. The client deletes the file if a program takes the
// signal for itself.
func ready(pid, sig int, path string) error {
	root := filepath.Join("/proc", strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(root, "status"))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNone, err)
	}
	if sig < 1 || sig > 64 || !inMask(text, "SigCgt", sig) || inMask(text, "SigBlk", sig) {
		return fmt.Errorf("%w: the process does not handle signal %d", ErrNone, sig)
	}
	file, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNone, err)
	}
	open, err := os.ReadDir(filepath.Join(root, "fd"))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNone, err)
	}
	for _, e := range open {
		if f, err := os.Stat(filepath.Join(root, "fd", e.Name())); err == nil && os.SameFile(f, file) {
			return nil
		}
	}
	return fmt.Errorf("%w: the process has closed %s", ErrNone, path)
}

// inMask reports whether a mask of /proc/PID/status has a signal.
func inMask(status []byte, name string, sig int) bool {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			return err == nil && mask>>(sig-1)&1 == 1
		}
	}
	return false
}

// handler sends the signal and returns the contents of the file, once it does
// not grow any more.
func handler(ctx context.Context, pid int, sig syscall.Signal, path string) ([]byte, error) {
	before, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for last := len(before); ; {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrNone, ctx.Err())
		case <-ticker.C:
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNone, err)
		}
		if len(text) > len(before) && len(text) == last {
			return text[len(before):min(len(text), len(before)+maxText)], nil
		}
		last = len(text)
	}
}
