package pfw

import "github.com/trainspan/trainspan/dftracer"

// Options configures a [Processor] or an [Exporter], which copies it. The zero
// value and nil are the defaults.
type Options struct {
	// Trace configures the writer that Create and New make. It is not looked
	// at when a writer is given.
	Trace *dftracer.Options

	// NoBegin leaves out the records that say that a long span has begun. With
	// them a reader sees what was going on when the process was killed.
	NoBegin bool

	// TraceIDs adds the arguments trace_id and span_id, by which a span is
	// found in an OpenTelemetry backend. They cost 30 bytes an event on disk.
	TraceIDs bool

	// OwnWriter makes Shutdown close the writer that was given. A writer made
	// by Create or New is always closed.
	OwnWriter bool

	// Lookahead is how many ended spans an [Exporter] holds back to sort them,
	// and how many parents that have not ended yet it remembers; 0 means
	// DefaultLookahead. A Processor has no use for it.
	Lookahead int
}

// DefaultLookahead is the Lookahead of the zero Options.
const DefaultLookahead = 1 << 16

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Lookahead <= 0 {
		opts.Lookahead = DefaultLookahead
	}
	return opts
}
