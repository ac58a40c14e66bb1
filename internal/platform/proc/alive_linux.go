package proc

import (
	"errors"
	"io/fs"
	"syscall"
)

// Alive reports whether a process with this id runs. If started is not 0, it
// must have started then, in clock ticks since boot. If this cannot be
// determined, for example without a free file descriptor or if /proc hides
// foreign processes, it returns true, because the records of a running process
// would otherwise be lost.
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
