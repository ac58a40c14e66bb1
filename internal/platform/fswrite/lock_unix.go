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

// Locked reports whether a process has locked a file with [Lock]. Looking does not make
// it locked for others that look.
func Locked(f *os.File) bool {
	if errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return true
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing the file would do it later
	return false
}
