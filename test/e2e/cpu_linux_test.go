package e2e

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the CPU time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// processTime returns the CPU time of the whole process.
func processTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// timesTaken returns how often the system preempted this thread.
func timesTaken() int64 {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		return 0
	}
	return r.Nivcsw
}

// setNice sets the priority of this thread; below zero needs a privilege.
func setNice(n int) error { return unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), n) }
