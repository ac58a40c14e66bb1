//go:build !unix

package file_test

// child does nothing on systems where the process tests do not run.
func child(string, string) int { return 2 }
