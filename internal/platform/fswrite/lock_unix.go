//go:build unix && !solaris && !aix

package fswrite

import (
	"errors"
	"os"
	"syscall"
)

// Lock locks a file until it is closed, also by the end of the process. It
// returns false if another process has the lock. A file that cannot be locked,
// or a file system without locks, counts as locked.
func Lock(f *os.File) bool {
	return !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
