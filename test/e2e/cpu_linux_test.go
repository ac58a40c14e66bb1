package e2e

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// processTime returns the processor time of the whole process.
func processTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// timesTaken returns how often the system took the processor from this thread to
// give it to another program.
func timesTaken() int64 {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		return 0
	}
	return r.Nivcsw
}

// setNice returns this thread another priority; lower than zero needs a
// privilege.
func setNice(n int) error { return unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), n) }
