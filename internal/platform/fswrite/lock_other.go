//go:build !unix || solaris || aix

package fswrite

import "os"

// Lock locks nothing where the system has no such locks.
func Lock(*os.File) bool { return true }
