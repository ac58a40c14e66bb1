//go:build !unix

package file_test

// child plays no part where the tests of processes do not run.
func child(string, string) int { return 2 }
