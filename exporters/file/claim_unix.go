//go:build unix

package file

import (
	"os"
	"syscall"
)

// claim takes the file for this exporter alone, as long as it is open. A file
// that cannot be locked at all (a pipe, a file system without locks) counts as
// claimed.
func claim(f *os.File) bool {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return err != syscall.EWOULDBLOCK
}
