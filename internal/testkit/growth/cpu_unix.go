//go:build unix

package growth

import (
	"syscall"
	"time"
)

// cpu returns the processor time of the process so far: what others do on the machine
// is not in it.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
