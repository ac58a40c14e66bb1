package recorder

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

type spanState uint8

const (
	spanStarting spanState = iota
	spanOpen
	spanEnded
)

// Span is a span of the training run: the handle of a scope, and what the
// recorder's Start gives. A nil Span does nothing. All methods are safe for
// concurrent use.
//
// End ends it. For an error there are two ways: defer sp.EndErr(&err) ends the
// span with the error that the function returns, and sp.Fail(err) records an
// error and leaves the span open.
//
// Every Span is an OpenTelemetry span too. The context that a start function
// returns carries it, so that spans made with the plain OpenTelemetry API
// below nest under it, and trace.SpanFromContext reaches it.
type Span struct {
	embedded.Span // of the view of this span as a trace.Span, see contextSpan

	rec     *Recorder
	otel    trace.Span
	parent  *Span
	index   int          // spans.Index of the name it was started with
	mask    uint64       // the outputs that get its records
	outside trace.SpanID // its parent, if that is no span of the recorder

	base, carrying context.Context // it was started with, and that one with the span; see below

	// The options of its start and its end in OpenTelemetry, which are not kept
	// there: here they need no memory of their own.
	startOptions [1]trace.SpanStartOption
	endOptions   [1]trace.SpanEndOption

	// Guarded by the recorder's lock.
	data       outputs.SpanData
	state      spanState
	ambient    bool  // it is a parent for callbacks, without a context
	scoped     bool  // it belongs to a scope
	errored    bool  // an error was recorded
	repaired   bool  // its end lay before its start
	inner      error // the latest error with which a span below ended
	prev, next *Span
	iteration  consumed // of a training iteration, set before its end
	step       int64    // of a checkpoint save
	problem    error
}

// Name is the name of the span.
func (s *Span) Name() string {
	if s == nil || s.rec == nil {
		return ""
	}
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	return s.data.Name
}

// Parent is the parent among the telemetry spans, or nil.
func (s *Span) Parent() *Span {
	if s == nil {
		return nil
	}
	return s.parent
}

// Active reports whether the span is open.
func (s *Span) Active() bool {
	if s == nil || s.rec == nil {
		return false
	}
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	return s.state == spanOpen
}

// SpanContext identifies the span in OpenTelemetry.
func (s *Span) SpanContext() trace.SpanContext {
	if s == nil || s.otel == nil {
		return trace.SpanContext{}
	}
	return s.otel.SpanContext()
}

// ID is the span's identity in the compatible JSON-lines file: a UUID made of
// the trace and span ids.
func (s *Span) ID() string {
	if s == nil {
		return ""
	}
	return s.data.UUID()
}

// Err is what went wrong with the span in telemetry: a start that was refused
// because a span of that name is open, say. It is nil while all is well, and
// has nothing to do with an error of the program.
func (s *Span) Err() error {
	if s == nil || s.rec == nil {
		return nil
	}
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	return s.problem
}

// End ends the span now. Called by defer, it also records a panic, and passes
// it on. Ending a span twice is harmless.
func (s *Span) End() {
	if r := recover(); r != nil {
		defer panic(r)
		s.finish(End{Err: panicError{r}})
		return
	}
	s.finish(End{})
}

// EndErr ends the span now, with the error that err points to when it is
// called: defer sp.EndErr(&err). An error is recorded as an error event and as
// the span's status. A nil pointer is no error. A panic is recorded as with
// End.
func (s *Span) EndErr(err *error) {
	var failed error
	if err != nil {
		failed = *err
	}
	if r := recover(); r != nil {
		defer panic(r)
		failed = errors.Join(failed, panicError{r})
	}
	s.finish(End{Err: failed})
}

// EndWith ends the span with everything that can be said of an end.
func (s *Span) EndWith(e End) {
	if r := recover(); r != nil {
		defer panic(r)
		e.Err = errors.Join(e.Err, panicError{r})
	}
	s.finish(e)
}

// Fail records an error of the span and sets its status; the span goes on. A
// nil err is ignored.
func (s *Span) Fail(err error) {
	if s == nil || s.rec == nil || err == nil {
		return
	}
	s.RecordError(err)
	if s.otel != nil {
		s.otel.SetStatus(codes.Error, errorText(err))
	}
}

func (s *Span) finish(e End) {
	if s == nil || s.rec == nil {
		return
	}
	if s.scoped && (s.index == indexSaveSync || s.index == indexFinalize) && e.Err == nil && s.rec.savePending(s.step) {
		// A scope around a save that ends well is a success, as with the
		// reference's context manager.
		if err := s.rec.CheckpointSucceeded(SaveSuccess{Time: e.Time, GlobalStep: int(s.step)}); err != nil {
			s.note(err)
		}
	}
	s.note(s.rec.finish(s, e, consumed{}))
}

// note keeps a problem for Err.
func (s *Span) note(err error) {
	if err != nil && !errors.Is(err, ErrClosed) {
		s.rec.mu.Lock()
		defer s.rec.mu.Unlock()
		s.problem = errors.Join(s.problem, err)
	}
}

// SetLoss gives the loss of a training iteration before its end.
func (s *Span) SetLoss(loss float64) {
	s.setIteration(consumed{loss: attributes.Some(loss)})
}

// SetSamples says how many samples a training iteration really consumed over
// all ranks, before its end.
func (s *Span) SetSamples(n int64) {
	s.setIteration(consumed{samples: attributes.Some(n)})
}

// SetTokens says how many tokens a training iteration really consumed over
// all ranks, before its end.
func (s *Span) SetTokens(n int64) {
	s.setIteration(consumed{tokens: attributes.Some(n)})
}

func (s *Span) setIteration(e consumed) {
	if s == nil || s.rec == nil || s.index != indexIteration {
		return
	}
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	s.iteration.add(e)
}

// consumed is what a training iteration says of itself.
type consumed struct {
	loss            attributes.Opt[float64]
	samples, tokens attributes.Opt[int64]
}

// add sets what more says and leaves the rest.
func (e *consumed) add(more consumed) {
	if more.loss.IsSet() {
		e.loss = more.loss
	}
	if more.samples.IsSet() {
		e.samples = more.samples
	}
	if more.tokens.IsSet() {
		e.tokens = more.tokens
	}
}

// SetAttributes sets attributes of the span. A known key keeps its place. A
// span keeps 512 attributes; more are counted and left out.
func (s *Span) SetAttributes(kvs ...attribute.KeyValue) {
	if s == nil || s.rec == nil || len(kvs) == 0 {
		return
	}
	s.SetAttrs(attributes.From(kvs...)...)
}

// SetAttrs is SetAttributes for values that OpenTelemetry cannot hold.
func (s *Span) SetAttrs(attrs ...attributes.Attr) {
	if s == nil || s.rec == nil || len(attrs) == 0 {
		return
	}
	attrs = s.rec.clean(attrs)
	var c call
	if !s.setAttrs(&c, attrs) {
		return
	}
	s.rec.deliver(&c)
	s.otel.SetAttributes(attributes.AppendOTel(nil, attrs)...)
}

func (s *Span) setAttrs(c *call, attrs []attributes.Attr) bool {
	r := s.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.state != spanOpen {
		return false
	}
	for _, a := range attrs {
		if len(s.data.Attributes) >= maxAttributes && !has(s.data.Attributes, a.Key) {
			r.repairedValues.Add(1)
			c.warn(warnAttributes, "a span has too many attributes; the rest is left out", "span", s.data.Name, "limit", maxAttributes)
			continue
		}
		s.data.Attributes = upsert(s.data.Attributes, a)
	}
	if s.mask != 0 {
		r.export(c, s, &outputs.Record{Kind: outputs.KindUpdate})
	}
	return true
}

func has(attrs []attributes.Attr, key attribute.Key) bool {
	for i := range attrs {
		if attrs[i].Key == key {
			return true
		}
	}
	return false
}

// AddEvent records an event of the span, now. It reaches the outputs at once;
// nothing waits for the end of the span. After the end it does nothing.
func (s *Span) AddEvent(name string, kvs ...attribute.KeyValue) {
	if s == nil || s.rec == nil {
		return
	}
	s.rec.addEvent(s, name, attributes.From(kvs...), time.Time{})
}

// RecordError records an error of the span, which goes on. A nil err is
// ignored. After the end it does nothing.
func (s *Span) RecordError(err error) {
	if s == nil || s.rec == nil || err == nil {
		return
	}
	s.rec.recordError(s, "Error in "+s.Name()+": ", err, time.Time{}, nil)
}

// FromContext returns the telemetry span that ctx carries, or nil.
func FromContext(ctx context.Context) *Span {
	if view, ok := trace.SpanFromContext(ctx).(*contextSpan); ok {
		return view.owner()
	}
	return nil
}
