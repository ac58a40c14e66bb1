//go:build !linux

package bench

import "time"

var begin = time.Now()

// threadTime and processTime return the wall time, because the CPU time is
// unknown on this system.
func threadTime() time.Duration { return time.Since(begin) }

func processTime() time.Duration { return time.Since(begin) }
