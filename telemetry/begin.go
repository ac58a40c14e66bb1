package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/record/spantree"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/trace"
)

// begin starts a span. It does not hold the lock while OpenTelemetry works, so
// that span processors may use telemetry: first the span's name is reserved,
// then the OpenTelemetry span is started, then the record is written. The
// returned context carries the span; it is ctx if nothing was started.
func (r *Recorder) begin(ctx context.Context, p *startParams) (context.Context, *Span, error) {
	if r == nil {
		return ctx, nil, errNotConfigured
	}
	ctx = orBackground(ctx)
	if r.idle(p.name) {
		return ctx, nil, r.why()
	}
	c := call{now: r.time.now()}
	s, err := r.reserve(ctx, &c, p)
	if err != nil {
		if errors.Is(err, errDisabled) || errors.Is(err, ErrClosed) {
			r.late(p.name)
			return ctx, nil, err
		}
		if p.index == phase.Application {
			r.locked(func() { r.refusedApp = true })
		}
		r.out.deliver(&c)
		err = r.fail(phase.CallsOf(p.index).Start, err)
		return ctx, &Span{rec: r, index: -1, state: spanRefused, rare: &rare{problem: err}}, err
	}
	if cause := r.otel.start(s.base, s, p); cause != nil {
		r.out.warn(warnStart, "the OpenTelemetry SDK could not start a span", "span", p.name, "panic", cause)
	}
	var first []outputs.Event
	if p.index == phase.Application {
		first, err = r.firstEvents(s.data.Start, c.now, r.repairs.clean)
	}
	r.opened(&c, s, first)
	r.out.deliver(&c)
	if err != nil {
		err = r.fail(phase.CallsOf(p.index).Start, err)
	}
	return s.carrying(), s, err
}

// scope starts the scope of a standard span.
func (r *Recorder) scope(ctx context.Context, name string, options []StartOption) (context.Context, *Span) {
	if r.idle(name) {
		return ctx, nil
	}
	var p startParams
	if err := p.standard(r, name, options); err != nil {
		err = r.fail(phase.Call{Record: "start", Text: "Start"}, err)
		return ctx, &Span{rec: r, index: -1, state: spanRefused, rare: &rare{problem: err}}
	}
	p.scoped = true
	ctx, s, _ := r.begin(ctx, &p)
	return ctx, s
}

// span starts a span of any name, any number of times concurrently. A standard
// name keeps its meaning in the trace file, but does not change the training
// state. anyTime lifts the window of explicit times.
func (r *Recorder) span(ctx context.Context, name string, start SpanStart, anyTime bool) (context.Context, *Span) {
	if r.idle(name) {
		return ctx, nil
	}
	ctx, s, _ := r.begin(ctx, &startParams{
		name: name, index: -1, scoped: true, at: start.Time, parent: start.Parent, anyTime: anyTime,
		attrs: r.repairs.cleanCopy(start.Attributes), starts: r.repairs.cleanCopy(start.StartAttributes),
	})
	return ctx, s
}

// reserve checks the start and reserves the name.
func (r *Recorder) reserve(ctx context.Context, c *call, p *startParams) (*Span, error) {
	t, wrong := r.time.instant(p.at, c.now, p.anyTime)
	s := &Span{rec: r, index: p.index, scoped: p.scoped, ambient: p.ambient, hook: p.hook, step: int64(p.step), base: ctx}
	s.data.Name = p.name
	s.data.Start = t
	s.data.StartAttributes = p.starts
	if s.to = p.to; !p.chosen {
		s.to = r.out.hub.Filter.Span(p.index, p.name)
	}
	carried := trace.SpanFromContext(ctx)
	err := r.while(func() (err error) {
		if wrong != nil {
			return wrong
		}
		if !p.root {
			var ended *Span
			if s.parent, ended = r.tree.parentOf(r, carried, p); ended != nil {
				c.warn(warnEndedParent, "a span was started with the context of an ended span; its parent is the nearest open span",
					"span", p.name, "ended", ended.data.Name)
				if s.parent != nil {
					s.base = r.tree.withoutEnded(ctx, r)
				}
			}
			if _, ours := carried.(*contextSpan); !ours && s.parent == nil {
				s.outside = carried.SpanContext().SpanID()
			}
		}
		if p.index >= 0 {
			err = r.prepare(c, s, p, t)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.data.Attributes == nil {
		s.data.Attributes = p.attrs
		return s, nil
	}
	for _, a := range p.attrs {
		s.data.Attributes = upsert(s.data.Attributes, a)
	}
	return s, nil
}

// idle reports whether nothing is recorded any more, and warns about a start after the
// end. It needs no memory.
func (r *Recorder) idle(span string) bool {
	if !r.off.Load() {
		return false
	}
	r.late(span)
	return true
}

// late warns about a start after the end. A program that switched telemetry off
// gets no warning.
func (r *Recorder) late(span string) {
	if r == nil || r.out.logged.kinds.Load()&warnAfterEnd != 0 {
		return
	}
	if errors.Is(r.why(), ErrClosed) {
		r.out.warn(warnAfterEnd, "a span was started after the end of the application or after Shutdown; it is not recorded", "span", span)
	}
}

// Start describes the start of a span. The zero value starts it now.
type Start struct {
	Time time.Time // zero means now
	// Attributes are set on the span when it starts.
	Attributes []attributes.Attr
}

// End describes the end of a span. The zero value ends it now, without an error.
type End struct {
	Time time.Time // zero means now
	Err  error     // why it failed, or nil

	anyTime bool // the window of explicit times is not checked
	again   bool // a second end does nothing
}

// Epoch is the number of an epoch, from zero, at its start.
type Epoch int

// LoopStart describes a training loop.
type LoopStart struct {
	Time time.Time // zero means now
	// IterationsStart is the number of iterations that earlier runs of the job
	// completed, which is the number of the first iteration of this loop.
	IterationsStart int
	// SamplesStart is the number of samples that earlier runs consumed. If unset,
	// it is IterationsStart times the global batch size.
	SamplesStart config.Var[int]
	// IterationsTarget and SamplesTarget are where the job should end. If unset,
	// they are the targets of the training configuration.
	IterationsTarget config.Var[int]
	SamplesTarget    config.Var[int]
}

// IterationEnd describes the end of a training iteration.
type IterationEnd struct {
	Time time.Time // zero means now
	// Err is why the iteration failed, or nil. A failed iteration does not count as
	// completed or productive, nor for the throughput.
	Err error
	// Loss is reported with the next metrics update.
	Loss attributes.Opt[float64]
	// Samples and Tokens are what this iteration consumed over all ranks, for jobs
	// whose batches vary. If unset, they are the global batch size, and samples
	// times the sequence length.
	Samples attributes.Opt[int64]
	Tokens  attributes.Opt[int64]
}

// SaveStart describes the start of a checkpoint save.
type SaveStart struct {
	Time       time.Time // zero means now
	GlobalStep int       // the step of the checkpoint
}

// SaveSuccess reports a checkpoint that is safely stored.
type SaveSuccess struct {
	Time       time.Time // zero means now
	GlobalStep int       // the step of the checkpoint
	Size       attributes.Opt[int64]
	Directory  string
}

// SaveFailure reports a checkpoint that could not be stored.
type SaveFailure struct {
	Time       time.Time // zero means now
	GlobalStep int       // the step of the checkpoint
	Err        error
}

// Finalization describes the background part of an asynchronous save.
type Finalization struct {
	Time       time.Time // zero means now
	GlobalStep int       // the step of the checkpoint
	Err        error     // at the end: why it failed, or nil
}

// SpanStart describes the start of a span with a name of the program's own. The
// zero value starts it now, below the innermost open span.
type SpanStart struct {
	Time time.Time // zero means now
	// Parent is the parent; nil means the innermost open span of the context or, if
	// it has none, of the recorder.
	Parent          *Span
	Attributes      []attributes.Attr
	StartAttributes []attributes.Attr // of the start event
}

// startParams is what begin needs to know about a span.
type startParams struct {
	name    string
	index   int
	at      time.Time
	parent  *Span
	ambient bool
	scoped  bool       // started as a scope
	byHand  bool       // started through Start of the recorder
	anyTime bool       // the time window is not checked
	root    bool       // it has no parent, whatever the context has
	hook    bool       // it represents an ambient scope of package ai
	chosen  bool       // to is set
	to      filter.Set // the outputs that get it
	attrs   []attributes.Attr
	starts  []attributes.Attr
	loop    spantree.LoopStart // of a training loop
	step    int                // of a checkpoint or epoch
	values  spantree.Values    // of a training loop or save
	options []trace.SpanStartOption
	tracer  trace.Tracer // nil means the recorder's own
}
