//go:build !unix || solaris || aix

package fswrite

import "os"

// Lock does nothing on systems without such locks.
func Lock(*os.File) bool { return true }

// Locked returns false on systems without such locks.
func Locked(*os.File) bool { return false }
