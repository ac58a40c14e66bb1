package outputs

import (
	"context"
	"log/slog"
	"time"

	"github.com/trainspan/trainspan/config"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Output is a destination of telemetry. The provider calls Open once, before
// everything else, then Write, and Shutdown once at the end. An output gets the
// spans that its filter selects. Embed [None] for methods that do nothing.
//
// No method is called while telemetry holds a lock, so an output may use
// telemetry. A panic of a method is recovered and counts as a failure.
type Output interface {
	// Open opens the output. The provider's functions are in t; the pointer and its
	// fields may be kept. An error makes ConfigureProvider fail. An output of a
	// rank that is switched off is never opened, but its Shutdown is called.
	Open(ctx context.Context, t *Telemetry) (Traits, error)

	// Write gets records when they happen, as the [Traits] ask for them. The slice
	// is reused after the call and must not be changed. What a record points to
	// never changes and may be kept, except for its Snapshot before KindStop, which
	// shows the current state of the span.
	Write(records []Record) error

	// ForceFlush writes or sends what the output holds in memory, until ctx is done.
	ForceFlush(ctx context.Context) error

	// Shutdown writes or sends what the output holds in memory, closes the output,
	// and returns by the deadline of ctx. Afterwards Stats does not change. Remote
	// outputs are shut down first, concurrently; then the local ones. Later calls
	// do nothing.
	Shutdown(ctx context.Context) error

	// Stats returns the counts so far. It may be called concurrently with the other
	// methods.
	Stats() Stats
}

// Traits describe an output to the provider.
type Traits struct {
	// Ordered asks for the records of the recorder, with their Span: one Write at a
	// time, in order. The parent that a record names may be a span that the output does
	// not get. After five failed calls without a single success the output gets no more
	// of them.
	Ordered bool

	// Inline promises that an ordered Write returns at once or within a bound,
	// whatever the output's disk or network does. Write is then called on the
	// recording goroutine, so the output has a record when the call that recorded
	// it returns. Other outputs are called on their own goroutine behind a bounded
	// queue.
	Inline bool

	// Snapshots asks for spans as the OpenTelemetry SDK has them: a record with a
	// Snapshot when a span starts, has an event, and ends, on the goroutines that
	// do this, concurrently for different spans. The start and the end of a span
	// may come from different goroutines. The parent of a span is its nearest
	// ancestor that the output gets too.
	Snapshots bool

	// Remote marks an output that sends its data over a network: it is shut down
	// before the local ones, and gets no report of losses.
	Remote bool

	// Metrics marks the output that sends metrics: it is shut down after the other
	// remote outputs, so that it can send their final counts.
	Metrics bool

	// All asks for all spans if the program sets no filter. Without it an output
	// gets what the export customization of the provider selects.
	All bool
}

// Telemetry is what a provider offers to an output.
type Telemetry struct {
	Identity Identity
	Clock    func() time.Time // safe for concurrent use
	Now      func() int64     // the time of Clock in nanoseconds since the Unix epoch, faster
	Logger   *slog.Logger

	// Progress is the current epoch and step.
	Progress *Progress

	// Metrics is where an output creates its own instruments, nil if the program
	// has no metrics.
	Metrics metric.MeterProvider

	// Current returns the span under which a callback without a context would start
	// its span, or the nearest ancestor of it that the output gets: the parent of a
	// scope whose context has no span. The result is invalid if no such span is
	// open.
	Current func() trace.SpanContext

	// Segment returns the current segment of an open long span for span exporters:
	// the parent of spans that start below it. The result is zero for a span
	// without segments. Segment is nil if no exporter has segments.
	Segment func(trace.SpanID) trace.SpanContext

	// Lost reports data that is lost permanently: the kind and the cause, in a word
	// or two, the number, and the last error.
	Lost func(what, cause string, n int64, err error)
}

// None is an output that asks for nothing and does nothing. Embed it.
type None struct{ nothing }

var _ Output = None{}

type nothing struct{}

func (nothing) Open(context.Context, *Telemetry) (Traits, error) { return Traits{}, nil }
func (nothing) Write([]Record) error                             { return nil }
func (nothing) ForceFlush(context.Context) error                 { return nil }
func (nothing) Shutdown(context.Context) error                   { return nil }
func (nothing) Stats() Stats                                     { return Stats{} }

// Identity identifies the writing process and its place in the job.
// ConfigureProvider fills zero fields in from the operating system, the
// launcher's environment variables and the configuration.
type Identity struct {
	Host    string // host name
	PID     int    // process id
	Version string // version of the telemetry library

	// Ranks is the process's place in the job.
	config.Ranks
	// RankKnown is true if the program or the launcher set Rank. Otherwise Rank is
	// 0, and file names do not depend on the rank.
	RankKnown bool

	SessionTag      string // of the configuration
	ApplicationName string // of the configuration
}
