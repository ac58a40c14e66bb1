package proc

import (
	"errors"
	"io/fs"
	"syscall"
)

// Alive reports whether a process runs: one of that number that was started then, in
// clock ticks since boot where that is not 0, and that has not ended. Where that
// cannot be found out, as without a free file descriptor or where /proc hides the
// processes of others, it does: what it records from then on would be lost.
func Alive(pid int, started uint64) bool {
	if pid <= 0 {
		return false
	}
	s, err := Read("/proc", pid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.Is(syscall.Kill(pid, 0), syscall.EPERM)
	case errors.Is(err, errFormat), errors.Is(err, syscall.ESRCH):
		return false
	case err != nil:
		return true
	}
	return !s.Ended() && (started == 0 || s.Started == started)
}
