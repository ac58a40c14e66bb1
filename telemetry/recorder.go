package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
)

// Recorder keeps the training state: the open spans, the windows of time and
// the counters that the metrics are made of. It hands records to the native
// exporters and starts and ends OpenTelemetry spans. Callbacks and scopes are
// thin verbs over it; use it directly for spans whose start and end are far
// apart. All methods are safe for concurrent use; the nil Recorder answers
// ErrNotConfigured.
type Recorder struct {
	clock      Clock
	tracer     trace.Tracer
	tracers    trace.TracerProvider
	log        *slog.Logger
	strategy   config.ErrorStrategy
	window     time.Duration // of explicit times
	limited    bool
	base       config.Base
	id         Identity
	only       *selection
	watchers   []EventProcessor
	progress   *spans.Progress
	beforeStop func() // before telemetry switches itself off
	onStop     func() // after telemetry switched itself off
	meters     *meters

	// traces spreads the spans over traces; nil: all that belongs to a root is
	// in one.
	traces *runTraces

	// backend is the filter of the first span exporter, or nil.
	backend *filterProcessor

	// exportsOTel tells that OpenTelemetry exporters want the spans of only.
	exportsOTel bool
	// sends tells that spans or records go over a network: the native exporters
	// are closed when it is known what became of them there.
	sends bool

	training atomic.Pointer[config.Training]
	counters counters
	current  atomic.Pointer[Span] // the latest ambient span; stored under the lock

	mu    sync.Mutex
	ended error // why nothing is recorded any more: ErrClosed or ErrDisabled
	sinks []*sink
	// sinksClosed tells that the native exporters take nothing any more.
	sinksClosed bool
	told        tally // losses that the native exporters were told of

	first    *Span // open spans in the order of their start
	last     *Span
	byName   [spans.Count]*Span // the open standard span of each name
	finalize map[int64]*Span    // open finalizations by step
	state    trainingState
	stats    Stats
}

// startParams are what begin needs to know of a span.
type startParams struct {
	name    string
	index   int
	at      time.Time
	parent  *Span
	ambient bool
	scoped  bool // by a scope
	byHand  bool // through Recorder.Start
	anyTime bool // the time window does not hold
	root    bool // it has no parent, whatever the context says
	attrs   []attributes.Attr
	starts  []attributes.Attr
	loop    LoopStart // of a training loop
	step    int       // of a checkpoint
	values  values    // of a training loop or save
	options []trace.SpanStartOption
	tracer  trace.Tracer // nil: the recorder's own
	into    *tracePart   // the trace, if it is not simply the parent's
}

// usable tells why nothing can be recorded, or nil.
func (r *Recorder) usable() error { return r.ended }

func (r *Recorder) now() int64 { return r.clock.Now().UnixNano() }

// instant is an explicit time in nanoseconds, or now.
func (r *Recorder) instant(at time.Time) (int64, error) { return r.instantIn(at, false) }

// instantIn is instant, if need be without the window of explicit times.
func (r *Recorder) instantIn(at time.Time, anyTime bool) (int64, error) {
	now := r.now()
	if at.IsZero() {
		return now, nil
	}
	const farthest = 1 << 33 // seconds; beyond it nanoseconds overflow
	if s := at.Unix(); s > farthest || s < -farthest {
		return 0, fmt.Errorf("timestamp %s is out of range", at)
	}
	t := at.UnixNano()
	if r.limited && !anyTime {
		if t < now-int64(r.window) {
			return 0, errors.New("timestamp is too old. This is meant to be the time in seconds since epoch.")
		}
		if t > now+int64(r.window) {
			return 0, errors.New("timestamp is in the future. This is meant to be the time in seconds since epoch.")
		}
	}
	return t, nil
}

// begin starts a span. The lock is not held while OpenTelemetry works, so
// that span processors may use telemetry themselves: the span's name is
// reserved first, then the OpenTelemetry span is started, then the record is
// written. The context that is returned carries the span; it is ctx when
// nothing was started.
func (r *Recorder) begin(ctx context.Context, p *startParams) (context.Context, *Span, error) {
	if r == nil {
		return ctx, nil, ErrNotConfigured
	}
	if ctx == nil {
		ctx = context.Background()
	}
	r.mu.Lock()
	if err := r.usable(); err != nil {
		r.mu.Unlock()
		return ctx, nil, err
	}
	s, err := r.reserve(ctx, p)
	r.mu.Unlock()
	if err != nil {
		err = r.fail(verbsOf(p.index).start, err)
		return ctx, &Span{rec: r, index: -1, state: spanEnded, problem: err}, err
	}
	r.startOTel(ctx, s, p)

	var e applicationEvents
	if p.index == indexApplication {
		e, err = r.applicationEvents()
	}
	var c call
	r.mu.Lock()
	r.opened(&c, s, &e)
	r.mu.Unlock()
	r.deliver(&c)
	if err != nil {
		err = r.fail(verbsOf(p.index).start, err)
	}
	return trace.ContextWithSpan(ctx, (*contextSpan)(s)), s, err
}

// reserve checks the start and takes the name.
func (r *Recorder) reserve(ctx context.Context, p *startParams) (*Span, error) {
	t, err := r.instantIn(p.at, p.anyTime)
	if err != nil {
		return nil, err
	}
	s := &Span{rec: r, index: p.index, scoped: p.scoped}
	s.data.Name = p.name
	s.data.Start = t
	if p.index >= 0 {
		if err := r.prepare(s, p, t); err != nil {
			return nil, err
		}
		if p.index != indexFinalize {
			r.byName[p.index] = s
		}
	}
	if s.data.Attributes == nil {
		s.data.Attributes = p.attrs
	} else {
		for _, a := range p.attrs {
			s.data.Attributes = upsert(s.data.Attributes, a)
		}
	}
	s.data.StartAttributes = p.starts
	s.ambient = p.ambient
	if !p.root {
		s.parent = r.parentOf(ctx, p)
	}
	exported := r.only.has(p.index, p.name)
	s.native = exported && len(r.sinks) > 0
	if r.traces != nil {
		r.place(ctx, s, p, exported)
	}
	return s, nil
}

// parentOf applies the rule of parents. An explicit parent wins. A scope hangs
// under the span of its context; without one, under the latest ambient span.
// A callback hangs under the latest ambient span if that one lies below the
// span of its context, because the programs that call callbacks often hold a
// single context.
func (r *Recorder) parentOf(ctx context.Context, p *startParams) *Span {
	if p.parent != nil {
		return p.parent
	}
	if p.index == indexFinalize { // it outlives the save it belongs to, and often the loop
		if app := r.byName[indexApplication]; app != nil && app.state == spanOpen {
			return app
		}
	}
	carried := trace.SpanFromContext(ctx)
	view, ours := carried.(*contextSpan)
	switch {
	case !ours && carried.SpanContext().IsValid():
		return nil // a plain or remote span is the parent
	case !ours:
		return r.current.Load()
	}
	in := view.owner()
	if p.ambient || in.rec != r || in.state == spanEnded {
		for a := r.current.Load(); a != nil; a = a.parent {
			if a == in {
				return r.current.Load()
			}
		}
	}
	if in.rec != r {
		return nil
	}
	return in
}

func (r *Recorder) startOTel(ctx context.Context, s *Span, p *startParams) {
	if s.parent != nil && FromContext(ctx) != s.parent {
		ctx = trace.ContextWithSpan(ctx, (*contextSpan)(s.parent))
	}
	if p.into != nil {
		ctx = inTrace(ctx, p.into, p.root)
	}
	tracer := p.tracer
	if tracer == nil {
		tracer = r.tracer
	}
	at := trace.WithTimestamp(time.Unix(0, s.data.Start))
	kvs := r.otelAttributes(s)
	switch {
	case p.tracer != nil:
		_, s.otel = tracer.Start(ctx, s.data.Name, withTime(p.options, s.data.Start)...)
	case len(kvs) == 0:
		_, s.otel = tracer.Start(ctx, s.data.Name, at)
	default:
		_, s.otel = tracer.Start(ctx, s.data.Name, at, trace.WithAttributes(kvs...))
	}
	sc := s.otel.SpanContext()
	s.data.TraceID, s.data.SpanID = sc.TraceID(), sc.SpanID()
	if !p.root {
		s.data.ParentID = trace.SpanContextFromContext(ctx).SpanID()
	}
}

// otelAttributes are the attributes that the OpenTelemetry span starts with:
// those of the record and, for backends that get the span, where the training
// stands.
func (r *Recorder) otelAttributes(s *Span) []attribute.KeyValue {
	kvs := attributes.AppendOTel(nil, s.data.Attributes)
	if s.index == indexIteration && r.exportsOTel && r.only.standard[indexIteration] {
		kvs = append(kvs, attribute.Int64(attributes.Step, r.progress.Step()))
		if epoch := r.progress.Epoch(); epoch >= 0 {
			kvs = append(kvs, attribute.Int64(attributes.Epoch, epoch))
		}
	}
	return kvs
}

// opened puts the span among the open ones and writes its start.
func (r *Recorder) opened(c *call, s *Span, e *applicationEvents) {
	if r.traces != nil {
		r.traces.started(s)
	}
	if r.ended != nil { // telemetry ended while the span was being started
		s.state = spanEnded
		c.ends = append(c.ends, otelEnd{s, s.data.Start, nil})
		return
	}
	s.state = spanOpen
	s.prev = r.last
	if r.last == nil {
		r.first = s
	} else {
		r.last.next = s
	}
	r.last = s
	if s.ambient {
		r.current.Store(s)
	}
	r.stats.SpansStarted++
	r.stats.SpansOpen++
	if s.native {
		r.export(&Record{
			Kind: KindStart,
			Span: &s.data,
			Event: Event{
				Name:       spans.EventSpanStart,
				Time:       s.data.Start,
				Attributes: s.data.StartAttributes,
			},
			Extension: s.index >= 0 && spans.At(s.index).Extension,
		})
	}
	r.afterStart(c, s, e)
}

// unlink takes an ended span off the list of the open ones.
func (r *Recorder) unlink(s *Span) {
	s.state = spanEnded
	if s.prev == nil {
		r.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		r.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	if s.index >= 0 && r.byName[s.index] == s {
		r.byName[s.index] = nil
	}
	if s.index == indexFinalize && r.finalize[s.step] == s {
		delete(r.finalize, s.step)
	}
	r.stats.SpansOpen--
	if r.current.Load() == s {
		a := s.parent
		for a != nil && (a.state != spanOpen || !a.ambient) {
			a = a.parent
		}
		r.current.Store(a)
	}
}

// export hands a record to every native exporter.
func (r *Recorder) export(rec *Record) {
	r.stats.Records++
	for _, s := range r.sinks {
		s.export(rec, r.log)
	}
}

// exportEvent writes an event or an error of an open span to the native
// exporters.
func (r *Recorder) exportEvent(s *Span, kind Kind, e Event, extension bool) {
	r.stats.Events++
	if s.native {
		r.export(&Record{Kind: kind, Span: &s.data, Event: e, Segment: r.segmentOf(s), Extension: extension})
	}
}

// segmentOf is the open segment of a long span that was cut.
func (r *Recorder) segmentOf(s *Span) trace.SpanContext {
	if r.backend == nil || !isLong(s.index) {
		return trace.SpanContext{}
	}
	return r.backend.segmentOf(s.data.SpanID)
}

// openSpan is the open standard span of that name.
func (r *Recorder) openSpan(index int) (*Span, error) {
	if s := r.byName[index]; s != nil && s.state == spanOpen {
		return s, nil
	}
	return nil, fmt.Errorf("Expected to have one and only one span named %s but found 0.", spans.At(index).Name)
}

// clean mends attribute values that an exporter could not take, and counts them.
func (r *Recorder) clean(attrs []attributes.Attr) []attributes.Attr {
	attrs, mended := attributes.Clean(attrs)
	if mended > 0 && r != nil {
		r.counters.repairedValues.Add(int64(mended))
	}
	return attrs
}
