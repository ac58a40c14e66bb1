package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/telemetry/internal/books"
)

// Start describes the start of a span. The zero value starts it now.
type Start struct {
	Time time.Time // zero: now
	// Attributes are set on the span when it starts.
	Attributes []attributes.Attr
}

// End describes the end of a span. The zero value ends it now, well.
type End struct {
	Time time.Time // zero: now
	Err  error     // why it failed; nil: it did not

	anyTime bool // the window of explicit times does not hold
	again   bool // a second end is as good as none
}

// Epoch is the number of an epoch, from zero, at its start.
type Epoch int

// LoopStart describes a training loop.
type LoopStart struct {
	Time time.Time // zero: now
	// IterationsStart is the number of iterations that earlier runs of the
	// job completed: the number of the first iteration of this loop.
	IterationsStart int
	// SamplesStart is the number of samples that earlier runs consumed.
	// Unset: IterationsStart times the global batch size.
	SamplesStart config.Var[int]
	// IterationsTarget and SamplesTarget are where the job is to end. Unset:
	// what the training configuration says.
	IterationsTarget config.Var[int]
	SamplesTarget    config.Var[int]
}

// IterationEnd describes the end of a training iteration.
type IterationEnd struct {
	Time time.Time // zero: now
	// Err says why the iteration failed. A failed iteration is not counted as
	// completed, productive or part of a throughput.
	Err error
	// Loss is reported with the next metrics update.
	Loss attributes.Opt[float64]
	// Samples and Tokens are what this iteration really consumed over all
	// ranks, for jobs whose batches vary. Unset: the global batch size, and
	// samples times the sequence length.
	Samples attributes.Opt[int64]
	Tokens  attributes.Opt[int64]
}

// SaveStart describes the start of a checkpoint save.
type SaveStart struct {
	Time       time.Time // zero: now
	GlobalStep int       // the step that is saved
}

// SaveSuccess reports a checkpoint that is safely stored.
type SaveSuccess struct {
	Time       time.Time // zero: now
	GlobalStep int       // the step that was saved
	Size       attributes.Opt[int64]
	Directory  string
}

// SaveFailure reports a checkpoint that could not be stored.
type SaveFailure struct {
	Time       time.Time // zero: now
	GlobalStep int       // the step that was to be saved
	Err        error
}

// Finalization describes the background part of an asynchronous save.
type Finalization struct {
	Time       time.Time // zero: now
	GlobalStep int       // the step that is saved
	Err        error     // at the end: why it failed
}

// SpanStart describes a span that is no phase of the training.
type SpanStart struct {
	Time time.Time // zero: now
	// Parent is the parent; nil: the innermost open span of the context or,
	// failing that, of the recorder.
	Parent          *Span
	Attributes      []attributes.Attr
	StartAttributes []attributes.Attr // of the start event
}

// startParams are what begin needs to know of a span.
type startParams struct {
	name    string
	index   int
	at      time.Time
	parent  *Span
	ambient bool
	scoped  bool // by a scope
	byHand  bool // through Start of the recorder
	anyTime bool // the time window does not hold
	root    bool // it has no parent, whatever the context says
	attrs   []attributes.Attr
	starts  []attributes.Attr
	loop    books.LoopStart // of a training loop
	step    int             // of a checkpoint or epoch
	values  books.Values    // of a training loop or save
	options []trace.SpanStartOption
	tracer  trace.Tracer // nil: the recorder's own
}
