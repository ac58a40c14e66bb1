//go:build unix && !solaris && !aix

package fswrite

import (
	"errors"
	"os"
	"syscall"
)

// Lock takes the lock of a file until it is closed, also by the end of the
// process. It reports false if somebody else has it. A file that cannot be
// locked, or a file system without locks, counts as locked.
func Lock(f *os.File) bool {
	return !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
