package recorder

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// ScopeName is the instrumentation scope of the spans that a recorder starts.
const ScopeName = "github.com/trainspan/trainspan/telemetry"

// Recorder keeps the training state. All methods are safe for concurrent use;
// the nil Recorder answers ErrNotConfigured.
//
// Its lock guards state and arithmetic only. Configuration functions, Error
// methods, span processors, outputs, the clock and the log are somebody
// else's code, and are called before the lock is taken or after it is
// released.
type Recorder struct {
	now      func() int64 // nanoseconds since the Unix epoch
	made     int64        // when
	tracer   trace.Tracer
	tracers  trace.TracerProvider
	log      *slog.Logger
	strategy config.ErrorStrategy
	window   time.Duration // of explicit times
	limited  bool
	base     config.Base
	id       outputs.Identity
	hub      Hub
	placer   Placer
	steps    bool // spans of iterations carry where the training stands
	progress *outputs.Progress
	above    trace.SpanContext               // the span of another process that the run belongs to
	onStop   func()                          // after telemetry switched itself off
	ending   func()                          // before open spans are stopped
	closing  func(ctx context.Context) error // at the end of the application
	meters   *Instruments                    // nil: none
	logged   logLimit

	off            atomic.Bool // ended is set
	training       atomic.Pointer[config.Training]
	repairedValues atomic.Int64
	current        atomic.Pointer[Span] // the latest ambient span; stored under the lock

	mu    sync.Mutex
	ended error // why nothing is recorded any more: ErrClosed or ErrDisabled

	first    *Span // open spans in the order of their start
	last     *Span
	byName   [spans.Count]*Span // the open standard span of each name
	finalize map[int64]*Span    // open finalizations by step
	state    trainingState
	stats    Stats
}

// Hub is what a recorder needs of the outputs. Push and PushDataError are
// called under the recorder's lock and do not wait; Drain is called without it.
type Hub interface {
	// Mask returns the outputs that want the records of a span that is started
	// with ctx, zero for none. ctx may be nil.
	Mask(ctx context.Context, index int, name string) uint64
	Push(r outputs.Record, mask uint64)
	PushGap(message string, attrs []attributes.Attr, at int64)
	Drain()
	// OnEvent hands the event of an open span on.
	OnEvent(s sdktrace.ReadOnlySpan, e sdktrace.Event)
}

// Placer chooses the trace of a span. Place is called when a span is about to
// start, without the recorder's lock, with the context that holds its parent,
// and gives the context to start it with.
type Placer interface {
	Place(ctx context.Context, index int, name string, root bool) context.Context
}

// Options are what a [Recorder] is made of.
type Options struct {
	Base     config.Base
	Identity outputs.Identity
	Strategy config.ErrorStrategy
	Now      func() int64 // the time in nanoseconds since the Unix epoch
	Log      *slog.Logger
	Progress *outputs.Progress
	Hub      Hub
	// Above is the span that those without another parent hang under, one of
	// another process; an invalid one is none.
	Above trace.SpanContext
	// Off makes a recorder that records nothing.
	Off bool
}

// New makes a recorder and the handle that controls it.
func New(o Options) (*Recorder, *Control) {
	r := &Recorder{
		now: o.Now, log: o.Log, strategy: o.Strategy, base: o.Base, id: o.Identity, progress: o.Progress, hub: o.Hub,
		above: o.Above,
	}
	r.made = r.now()
	r.window, r.limited = o.Base.ExplicitTimeWindow, o.Base.ExplicitTimeWindow > 0
	if o.Base.Training != nil {
		r.training.Store(o.Base.Training)
	}
	r.tracers = noop.NewTracerProvider()
	r.tracer = r.tracers.Tracer(ScopeName)
	if o.Off {
		r.ended = ErrDisabled
		r.off.Store(true)
	}
	return r, &Control{r}
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
	step    int       // of a checkpoint or epoch
	values  values    // of a training loop or save
	options []trace.SpanStartOption
	tracer  trace.Tracer // nil: the recorder's own
}

// Recording reports whether anything is recorded: r is not nil, and was neither
// switched off nor closed.
func (r *Recorder) Recording() bool { return r != nil && !r.off.Load() }

// instant is an explicit time in nanoseconds, or now.
func (r *Recorder) instant(at time.Time, now int64, anyTime bool) (int64, error) {
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
	c := call{now: r.now()}
	s, err := r.reserve(ctx, &c, p)
	if err != nil {
		if err == ErrDisabled || err == ErrClosed {
			r.late(p.name)
			return ctx, nil, err
		}
		r.deliver(&c)
		err = r.fail(namesOf(p.index).start, err)
		return ctx, &Span{rec: r, index: -1, state: spanEnded, problem: err}, err
	}
	r.startOTel(ctx, s, p)

	var e applicationEvents
	if p.index == indexApplication {
		e, err = r.applicationEvents()
	}
	r.opened(&c, s, &e)
	r.deliver(&c)
	if err != nil {
		err = r.fail(namesOf(p.index).start, err)
	}
	return s.carrying, s, err
}

// below returns ctx with s as the span that it carries. Frameworks with hooks hold
// one context and start everything with it: then it is the one that the start
// of s has made.
func (s *Span) below(ctx context.Context) context.Context {
	if same(s.base, ctx) {
		return s.carrying
	}
	return trace.ContextWithSpan(ctx, (*contextSpan)(s))
}

// same reports whether two contexts are known to be one. Not all types of contexts
// can be compared; pointers can, and the background is the commonest.
func same(a, b context.Context) bool {
	if b == context.Background() {
		return a == b
	}
	return reflect.TypeOf(b).Kind() == reflect.Pointer && a == b
}

// reserve checks the start and takes the name.
func (r *Recorder) reserve(ctx context.Context, c *call, p *startParams) (*Span, error) {
	t, err := r.instant(p.at, c.now, p.anyTime)
	s := &Span{rec: r, index: p.index, scoped: p.scoped}
	s.data.Name = p.name
	s.data.Start = t
	s.data.StartAttributes = p.starts
	s.ambient = p.ambient
	if p.anyTime && p.tracer == nil { // a scope of package ai
		s.mask = r.hub.Mask(ctx, p.index, p.name)
	} else {
		s.mask = r.hub.Mask(nil, p.index, p.name) //lint:ignore SA1012 no context means that no route is looked for
	}
	carried := trace.SpanFromContext(ctx)

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return nil, r.ended
	}
	if err != nil {
		return nil, err
	}
	if !p.root {
		s.parent = r.parentOf(c, carried, p)
		if _, ours := carried.(*contextSpan); !ours && s.parent == nil {
			s.outside = carried.SpanContext().SpanID()
		}
	}
	if p.index >= 0 {
		if err := r.prepare(c, s, p, t); err != nil {
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
	return s, nil
}

// parentOf applies the rule of parents. An explicit parent wins. A scope hangs
// under the span of its context; without one, under the latest ambient span.
// A callback hangs under the latest ambient span if that one lies below the
// span of its context, because the programs that call callbacks often hold a
// single context. Where the span of the context has ended, its nearest
// ancestor that is open takes its place.
func (r *Recorder) parentOf(c *call, carried trace.Span, p *startParams) *Span {
	if p.parent != nil {
		return p.parent
	}
	if p.index == indexFinalize { // it outlives the save it belongs to, and often the loop
		if app := r.byName[indexApplication]; app != nil && app.state == spanOpen {
			return app
		}
	}
	current := r.current.Load()
	view, ours := carried.(*contextSpan)
	if !ours {
		outside := carried.SpanContext()
		if !outside.IsValid() {
			return current
		}
		if p.ambient { // the plain or remote span above which callbacks have begun
			for a := current; a != nil; a = a.parent {
				if a.outside == outside.SpanID() {
					return current
				}
			}
		}
		return nil // the plain or remote span is the parent
	}
	in := view.owner()
	if in.rec != r {
		return current
	}
	if p.ambient {
		for a := current; a != nil; a = a.parent {
			if a == in {
				return current
			}
		}
	}
	if in.state != spanEnded {
		return in
	}
	open := in.parent
	for open != nil && open.state != spanOpen {
		open = open.parent
	}
	if open == nil {
		open = current
	}
	c.warn(warnEndedParent, "a span was started with the context of a span that has ended; it hangs under the nearest open one",
		"span", p.name, "ended", in.data.Name)
	return open
}

// startOTel starts the span in OpenTelemetry. A sampler or generator of ids that
// panics leaves a span that OpenTelemetry does not record.
func (r *Recorder) startOTel(ctx context.Context, s *Span, p *startParams) {
	defer func() {
		if cause := recover(); cause != nil {
			s.otel = substitute(ctx)
			s.data.TraceID, s.data.SpanID = s.otel.SpanContext().TraceID(), s.otel.SpanContext().SpanID()
			r.warn(warnStart, "a span could not be started in OpenTelemetry", "span", p.name, "panic", cause)
		}
	}()
	s.base, s.carrying = ctx, trace.ContextWithSpan(ctx, (*contextSpan)(s))
	if s.parent != nil && FromContext(ctx) != s.parent {
		ctx = s.parent.below(ctx)
	}
	if !p.root {
		ctx = r.joined(ctx)
		s.data.ParentID = trace.SpanContextFromContext(ctx).SpanID()
	}
	if r.placer != nil {
		ctx = r.placer.Place(ctx, p.index, p.name, p.root)
	}
	kvs := r.otelAttributes(s)
	switch {
	case p.tracer != nil:
		_, s.otel = p.tracer.Start(ctx, s.data.Name, withTime(p.options, s.data.Start)...)
	default:
		options := append(s.startOptions[:0], trace.WithTimestamp(time.Unix(0, s.data.Start)))
		if len(kvs) > 0 {
			options = append(options, trace.WithAttributes(kvs...))
		}
		_, s.otel = r.tracer.Start(ctx, s.data.Name, options...)
	}
	sc := s.otel.SpanContext()
	s.data.TraceID, s.data.SpanID = sc.TraceID(), sc.SpanID()
}

// joined returns a context without a span the one that the run belongs to.
func (r *Recorder) joined(ctx context.Context) context.Context {
	if !r.above.IsValid() || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, r.above)
}

// substitute is a span below that of the context which nobody records.
func substitute(ctx context.Context) trace.Span {
	var id [24]byte
	binary.LittleEndian.PutUint64(id[:], rand.Uint64()|1)
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	binary.LittleEndian.PutUint64(id[16:], rand.Uint64()|1)
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(id[:16]), SpanID: trace.SpanID(id[16:])})
	if parent := trace.SpanContextFromContext(ctx); parent.IsValid() {
		sc = sc.WithTraceID(parent.TraceID())
	}
	return trace.SpanFromContext(trace.ContextWithSpanContext(context.Background(), sc))
}

// otelAttributes are the attributes that the OpenTelemetry span starts with:
// those of the record and, for backends that get the span, where the training
// stands.
func (r *Recorder) otelAttributes(s *Span) []attribute.KeyValue {
	kvs := attributes.AppendOTel(nil, s.data.Attributes)
	if s.index == indexIteration && r.steps {
		kvs = append(kvs, attribute.Int64(attributes.Step, r.progress.Step()))
		if epoch := r.progress.Epoch(); epoch >= 0 {
			kvs = append(kvs, attribute.Int64(attributes.Epoch, epoch))
		}
	}
	return kvs
}

// opened puts the span among the open ones and writes its start.
func (r *Recorder) opened(c *call, s *Span, e *applicationEvents) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil { // telemetry ended while the span was being started
		s.state = spanEnded
		c.ends = append(c.ends, otelEnd{span: s, at: s.data.Start})
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
	if s.mask != 0 {
		r.export(c, s, &outputs.Record{
			Kind: outputs.KindStart,
			Event: outputs.Event{
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

// export queues a record of a span for the outputs that want it, with the span
// as it is now.
func (r *Recorder) export(c *call, s *Span, rec *outputs.Record) {
	r.stats.Records++
	data := s.data
	rec.Span = &data
	r.hub.Push(*rec, s.mask)
	c.queued = true
}

// exportEvent records an event or an error of an open span.
func (r *Recorder) exportEvent(c *call, s *Span, kind outputs.Kind, e outputs.Event, extension bool) {
	r.stats.Events++
	if s.mask != 0 {
		r.export(c, s, &outputs.Record{Kind: kind, Event: e, Extension: extension})
	}
}

// openSpan is the open standard span of that name.
func (r *Recorder) openSpan(index int) (*Span, error) {
	if s := r.byName[index]; s != nil && s.state == spanOpen {
		return s, nil
	}
	return nil, fmt.Errorf("Expected to have one and only one span named %s but found 0.", spans.At(index).Name)
}
