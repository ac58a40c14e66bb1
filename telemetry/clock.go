package telemetry

import (
	"math"
	"time"
)

// Clock tells the time. Implementations are safe for concurrent use.
type Clock interface {
	Now() time.Time
}

// ClockFunc makes a function a [Clock].
type ClockFunc func() time.Time

// Now calls f.
func (f ClockFunc) Now() time.Time { return f() }

// systemClock is the wall clock of the moment it was made, carried on by the
// monotonic clock: a wall clock that is set while the job runs moves no span.
type systemClock struct{ base time.Time }

func newSystemClock() systemClock { return systemClock{time.Now()} }

func (c systemClock) Now() time.Time { return c.base.Add(time.Since(c.base)) }

// nanoseconds gives a function for Now in nanoseconds since the Unix epoch.
func (c systemClock) nanoseconds() func() int64 {
	base, wall := c.base, c.base.UnixNano()
	return func() int64 { return wall + int64(time.Since(base)) }
}

// seconds gives nanoseconds since the epoch as seconds. Whole milliseconds
// come out as the nearest double of the decimal fraction, as a division of the
// milliseconds by 1000 would give it.
func seconds(ns int64) float64 {
	if ns%int64(time.Millisecond) == 0 {
		return float64(ns/int64(time.Millisecond)) / 1000
	}
	whole, frac := ns/int64(time.Second), ns%int64(time.Second)
	return float64(whole) + float64(frac)/float64(time.Second)
}

// window counts the runs of one kind of span and adds up their time.
type window struct {
	count    int64 // runs started, failed ones not counted
	total    int64 // nanoseconds
	last     int64 // nanoseconds
	min, max int64 // nanoseconds
	timed    bool  // whether min is set
}

func (w *window) start() { w.count++ }

// drop forgets a run that failed.
func (w *window) drop() { w.count-- }

func (w *window) stop(d int64) {
	if !w.timed {
		w.min, w.timed = d, true
	}
	w.last = d
	w.min = min(w.min, d)
	w.max = max(w.max, d)
	w.total = saturate(w.total, d)
}

func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// avg is the mean in seconds over the runs started, as the reference has it.
func (w *window) avg() float64 {
	if w.count == 0 {
		return 0
	}
	return seconds(w.total) / float64(w.count)
}
