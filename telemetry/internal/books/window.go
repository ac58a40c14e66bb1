package books

import (
	"math"
	"time"

	"github.com/trainspan/trainspan/attributes"
)

const tera = 1e12

// Seconds returns nanoseconds since the epoch as seconds. Whole milliseconds
// come out as the nearest double of the decimal fraction, as a division of the
// milliseconds by 1000 would give it.
func Seconds(ns int64) float64 {
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
	return Seconds(w.total) / float64(w.count)
}

// average is the mean in seconds of a window in which something was timed.
func (w *window) average() attributes.Opt[float64] {
	if !w.timed || w.count == 0 {
		return attributes.Opt[float64]{}
	}
	return attributes.Some(w.avg())
}

// extremes are the last, smallest and largest of some values.
type extremes struct {
	last, min, max float64
	known          bool
}

func (e *extremes) add(x float64) {
	if !e.known {
		*e = extremes{x, x, x, true}
		return
	}
	e.last, e.min, e.max = x, min(e.min, x), max(e.max, x)
}
