//go:build unix

package torch_test

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time that this process has used, in user and
// system mode, on all cores.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
