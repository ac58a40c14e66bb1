//go:build !linux

package python

import (
	"errors"
	"os"
	"syscall"
)

// locate gives the number by which this process knows another one.
func locate(pid int64, _, _ uint64) int64 { return pid }

// alive reports whether a process of that number runs.
func alive(pid int64, _ uint64) bool {
	p, err := os.FindProcess(int(pid))
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}
