package telemetry

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
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
// Every Span is an OpenTelemetry span too. The context that a start function
// returns carries it, so that spans made with the plain OpenTelemetry API
// below nest under it, and trace.SpanFromContext reaches it.
type Span struct {
	embedded.Span // of the view of this span as a trace.Span, see contextSpan

	rec    *Recorder
	otel   trace.Span
	parent *Span
	index  int        // spans.Index of the name it was started with
	trace  *tracePart // its trace, nil if that is not one of the run's

	// Guarded by the recorder's lock.
	data       SpanData
	state      spanState
	native     bool // native exporters get it
	ambient    bool // it is a parent for callbacks, without a context
	scoped     bool // it belongs to a scope
	errored    bool // an error was recorded
	repaired   bool // its end lay before its start
	prev, next *Span
	iteration  IterationEnd // of a training iteration, set before its end
	step       int64        // of a checkpoint save
	problem    error
}

// Name is the name of the span.
func (s *Span) Name() string {
	if s == nil {
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

// Active tells whether the span is open.
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

// UUID is the span's identity as the reference spells identities: a version 4
// UUID. It holds all bits of the span id, so that spans of a process differ.
func (d *SpanData) UUID() string { return string(d.AppendUUID(nil)) }

// AppendUUID appends [SpanData.UUID] to dst.
func (d *SpanData) AppendUUID(dst []byte) []byte {
	var b [16]byte
	copy(b[:6], d.SpanID[:6])
	b[6] = 0x40 | d.TraceID[6]&0x0f
	b[7] = d.SpanID[6]
	b[8] = 0x80 | d.TraceID[8]&0x3f
	b[9] = d.SpanID[7]
	copy(b[10:], d.TraceID[10:])
	var s [36]byte
	hex.Encode(s[0:8], b[0:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:36], b[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return append(dst, s[:]...)
}

// Err is what went wrong with the span in telemetry: a start that was refused
// because a span of that name is open, say. It is nil while all is well, and
// has nothing to do with the error given to End.
func (s *Span) Err() error {
	if s == nil || s.rec == nil {
		return nil
	}
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	return s.problem
}

// End ends the span now. An err that is not nil is recorded: as an error
// event, and as the span's status. Called by defer, End also records a panic,
// and passes it on. Ending a span twice is harmless.
func (s *Span) End(err error) {
	if r := recover(); r != nil {
		defer panic(r)
		err = errors.Join(err, panicError{r})
	}
	s.finish(End{Err: err})
}

// EndAt ends the span at a given time, now if it is zero.
func (s *Span) EndAt(t time.Time, err error) {
	if r := recover(); r != nil {
		defer panic(r)
		err = errors.Join(err, panicError{r})
	}
	s.finish(End{Time: t, Err: err})
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
	s.note(s.rec.finishAs(s, e))
}

// note keeps a problem for Err.
func (s *Span) note(err error) {
	if err != nil && !errors.Is(err, ErrClosed) {
		s.rec.mu.Lock()
		s.problem = errors.Join(s.problem, err)
		s.rec.mu.Unlock()
	}
}

// SetLoss gives the loss of a training iteration before its end.
func (s *Span) SetLoss(loss float64) {
	s.setIteration(func(e *IterationEnd) { e.Loss = attributes.Some(loss) })
}

// SetSamples says how many samples a training iteration really consumed over
// all ranks, before its end.
func (s *Span) SetSamples(n int64) {
	s.setIteration(func(e *IterationEnd) { e.Samples = attributes.Some(n) })
}

// SetTokens says how many tokens a training iteration really consumed over
// all ranks, before its end.
func (s *Span) SetTokens(n int64) {
	s.setIteration(func(e *IterationEnd) { e.Tokens = attributes.Some(n) })
}

func (s *Span) setIteration(set func(*IterationEnd)) {
	if s == nil || s.rec == nil || s.index != indexIteration {
		return
	}
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	set(&s.iteration)
}

// SetAttributes sets attributes of the span. A known key keeps its place.
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
	s.rec.mu.Lock()
	if s.state != spanOpen {
		s.rec.mu.Unlock()
		return
	}
	for _, a := range attrs {
		s.data.Attributes = upsert(s.data.Attributes, a)
	}
	s.rec.mu.Unlock()
	s.otel.SetAttributes(attributes.AppendOTel(nil, attrs)...)
}

// AddEvent records an event of the span, now. It reaches the exporters at
// once; nothing waits for the end of the span.
func (s *Span) AddEvent(name string, kvs ...attribute.KeyValue) {
	if s == nil || s.rec == nil {
		return
	}
	_ = s.rec.Event(s, name, attributes.From(kvs...), time.Time{})
}

// RecordError records an error of the span, which goes on. A nil err is
// ignored.
func (s *Span) RecordError(err error) {
	if s == nil || s.rec == nil || err == nil {
		return
	}
	_ = s.rec.Error(s, "Error in "+s.Name()+": ", err)
}

// recordedError is the event by which a failed scope is recorded.
func (s *Span) recordedError(err error, at int64) Event {
	return Event{
		Name:       spans.EventError,
		Time:       at,
		Attributes: errorAttributes("Error in "+s.data.Name+": ", err, 3),
	}
}

// FromContext gives the telemetry span that ctx carries, or nil.
func FromContext(ctx context.Context) *Span {
	s, _ := parentIn(ctx)
	return s
}
