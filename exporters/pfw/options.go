package pfw

import (
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// Options configures a [Processor] or an [Exporter]. They copy it. The zero value and
// nil mean the defaults.
type Options struct {
	// Writer, if set, is used instead of a new file. The path and Trace are then
	// ignored.
	Writer *dftracer.Writer

	// Trace configures the writer of the file that Create and New create. If its OnError
	// and OnPath are nil, write errors and changed paths are logged with package
	// log/slog.
	Trace *dftracer.Options

	// NoBegin omits begin records. They show readers which spans were open when the
	// process was killed.
	NoBegin bool

	// BeginAfter is the time after which the begin record of an open span or scope is
	// written; 0 means DefaultBeginAfter. The long spans of package spans get theirs at
	// once.
	BeginAfter time.Duration

	// TraceIDs adds the arguments trace_id and span_id, which identify a span in an
	// OpenTelemetry backend. They cost 30 bytes per event on disk.
	TraceIDs bool

	// OwnWriter makes Shutdown close Writer; otherwise Shutdown only flushes it. A file
	// that Create or New created is always closed.
	OwnWriter bool

	// Cores are the processor cores that the process may run on. They are written to the
	// trace's metadata; empty omits them.
	Cores []int

	// Files selects which file calls made through package integrations/iofs are
	// recorded.
	Files FileOptions

	// MaxParents bounds the memory for spans whose start was not seen, such as those of
	// an [Exporter]. It is the number of parents that have not arrived, and the number
	// of finished spans, that are remembered to find the parents of others; 0 means
	// DefaultMaxParents.
	MaxParents int
}

// DefaultMaxParents is the default of Options.MaxParents.
const DefaultMaxParents = 1 << 16

// DefaultBeginAfter is the default of Options.BeginAfter.
const DefaultBeginAfter = time.Second

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.MaxParents <= 0 {
		opts.MaxParents = DefaultMaxParents
	}
	if opts.BeginAfter <= 0 {
		opts.BeginAfter = DefaultBeginAfter
	}
	return opts
}

// clock derives the wall-clock time from the monotonic clock, so that it never goes
// back, or uses the clock that is bound to it.
type clock struct {
	bound atomic.Pointer[func() int64]
	base  time.Time
	wall  int64 // nanoseconds
}

// set initializes the clock with the best of several readings: Go reads the wall clock
// before the monotonic one, and a pause between the two would shift every time.
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

// nanoseconds returns the time in nanoseconds since the Unix epoch.
func (c *clock) nanoseconds() int64 {
	if now := c.bound.Load(); now != nil {
		return (*now)()
	}
	return c.wall + int64(time.Since(c.base))
}

// now returns the time in microseconds since the Unix epoch.
func (c *clock) now() int64 { return c.nanoseconds() / 1000 }

// slack is the largest difference, in microseconds, between the clocks of a parent and
// its child.
const slack = place.Slack

// latest returns the latest plausible end of a child, in microseconds since the Unix
// epoch.
func (c *clock) latest() int64 { return c.now() + slack }
