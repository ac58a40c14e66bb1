//go:build !linux

package pyring

// locate returns the id by which this process knows another one.
func locate(pid int64, _, _ uint64) int64 { return pid }
