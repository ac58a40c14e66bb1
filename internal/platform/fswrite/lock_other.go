//go:build !unix || solaris || aix

package fswrite

import "os"

// Lock does nothing on systems without such locks.
func Lock(*os.File) bool { return true }
