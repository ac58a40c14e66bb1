//go:build unix

package growth

import (
	"syscall"
	"time"
)

// cpu returns the CPU time of the process so far, which excludes other
// processes.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
