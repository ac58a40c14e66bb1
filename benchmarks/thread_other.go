//go:build !linux

package benchmarks

import "time"

var begin = time.Now()

// threadTime returns the time by the clock: what a thread used is not known here.
func threadTime() time.Duration { return time.Since(begin) }
