//go:build !unix

package file

import "os"

// claim does nothing where files cannot be locked: give each process its own
// path there.
func claim(*os.File) bool { return true }
