package pfw

import (
	"sync/atomic"
	"time"
)

// clock tells wall-clock time by the monotonic clock, so that time never goes
// back, or is somebody else's.
type clock struct {
	bound atomic.Pointer[func() int64]
	base  time.Time
	wall  int64 // nanoseconds
}

// set takes the best of some readings: Go reads the wall clock before the
// monotonic one, and a pause between the two would shift every time.
func (c *clock) set() {
	first := time.Now()
	best, ahead := first, time.Duration(0)
	for range 8 {
		t := time.Now()
		if d := t.Round(0).Sub(first.Round(0)) - t.Sub(first); d > ahead {
			best, ahead = t, d
		}
	}
	c.base, c.wall = best, best.UnixNano()
}

// nanoseconds is the time since the Unix epoch.
func (c *clock) nanoseconds() int64 {
	if now := c.bound.Load(); now != nil {
		return (*now)()
	}
	return c.wall + int64(time.Since(c.base))
}

// now is the time in microseconds since the Unix epoch.
func (c *clock) now() int64 { return c.nanoseconds() / 1000 }

// slack is how far, in microseconds, the clocks behind the times of parent and
// child may disagree. Such times are repaired; larger differences are taken for
// explicit times and left as they are.
const slack = 10_000

// latest is the latest end of a child that is believed.
func (c *clock) latest() int64 { return c.now() + slack }
