//go:build !linux

package bench

import "time"

var begin = time.Now()

// threadTime and processTime return the time by the clock: what was used is not
// known here.
func threadTime() time.Duration { return time.Since(begin) }

func processTime() time.Duration { return time.Since(begin) }
