//go:build unix && !solaris && !aix

package otlp

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock of a file until it is closed, also by the end of the
// process. It reports false if somebody else has it. A file system without
// locks locks nothing.
func lockFile(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil, errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK):
		return true, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	}
	return false, err
}
