package pfw

import (
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// Options configures a [Processor] or an [Exporter], which copies it. The zero
// value and nil are the defaults.
type Options struct {
	// Writer is a writer to use instead of a new file. The path and Trace are then
	// ignored.
	Writer *dftracer.Writer

	// Trace configures the writer of the file that Create and New make. If its OnError
	// and OnPath are nil, outages and other file names are logged with package log/slog.
	Trace *dftracer.Options

	// NoBegin leaves out the records of spans that have begun. With them a reader sees
	// which spans were open when the process was killed.
	NoBegin bool

	// BeginAfter is how long other spans and scopes than the long ones are open
	// before their record is written; 0 means DefaultBeginAfter. The long ones
	// of package spans get theirs at once.
	BeginAfter time.Duration

	// TraceIDs adds the arguments trace_id and span_id, by which a span is
	// found in an OpenTelemetry backend. They cost 30 bytes an event on disk.
	TraceIDs bool

	// OwnWriter makes Shutdown close Writer, which it otherwise flushes. A file of
	// Create or New is always closed.
	OwnWriter bool

	// Cores are the processor cores that the process may run on, for the
	// trace's metadata; empty leaves them out.
	Cores []int

	// Files chooses which of the calls on files that go through package
	// integrations/iofs are recorded.
	Files FileOptions

	// MaxParents bounds the memory of spans whose start was not seen, as those of an
	// [Exporter]: how many parents that have not ended yet, and how many spans that
	// have, are remembered to find the parents of others; 0 means DefaultMaxParents.
	MaxParents int
}

// DefaultMaxParents is the MaxParents of the zero Options.
const DefaultMaxParents = 1 << 16

// DefaultBeginAfter is the BeginAfter of the zero Options.
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

// slack is how far the clocks behind the times of parent and child may disagree.
const slack = place.Slack

// latest is the latest end of a child that is believed.
func (c *clock) latest() int64 { return c.now() + slack }
