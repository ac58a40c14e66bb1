//go:build !unix

package main

import "time"

// cpuTime returns 0 on this system.
func cpuTime() time.Duration { return 0 }
