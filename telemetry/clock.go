package telemetry

import "time"

// systemClock is the wall clock of the moment it was made, carried on by the
// monotonic clock: a wall clock that is set while the job runs moves no span.
type systemClock struct{ base time.Time }

func newSystemClock() systemClock { return systemClock{time.Now()} }

func (c systemClock) Now() time.Time { return c.base.Add(time.Since(c.base)) }

// nanoseconds returns what tells the time of a clock in nanoseconds since the
// Unix epoch.
func nanoseconds(clock Clock) func() int64 {
	c, ok := clock.(systemClock)
	if !ok {
		return func() int64 { return clock.Now().UnixNano() }
	}
	base, wall := c.base, c.base.UnixNano()
	return func() int64 { return wall + int64(time.Since(base)) }
}
