//go:build !linux

package proc

import (
	"errors"
	"os"
	"syscall"
)

// Alive reports whether a process with this id runs.
func Alive(pid int, _ uint64) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}
