package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/record/segment"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// scopeName is the instrumentation scope of the spans that a recorder starts.
const scopeName = "github.com/trainspan/trainspan/telemetry"

// otelSide starts the spans in OpenTelemetry. It does not change after the
// provider is configured.
type otelSide struct {
	time    func(int64) time.Time // of the clock, with its monotonic reading, which spares the SDK one of its own
	tracer  trace.Tracer
	tracers trace.TracerProvider // the provider whose spans nest with those of the recorder
	run     *segment.Run         // the traces of the run; nil if a span is in its parent's trace
	hub     *dispatch.Hub        // the outputs
	ids     sdktrace.IDGenerator // of the SDK; nil if the program has a sampler
	above   trace.SpanContext    // the span of another process that the run belongs to
	offer   *outputs.Telemetry   // to an output that gets every span
	steps   *outputs.Progress    // what spans of iterations carry of it; nil: nothing
}

// start starts a span. If a sampler or id generator panics, OpenTelemetry does
// not record the span, and the panic is returned.
func (o *otelSide) start(ctx context.Context, s *Span, p *startParams) (panicked any) {
	defer func() {
		if panicked = recover(); panicked != nil {
			s.otel = substitute(ctx)
			s.identify()
		}
	}()
	if s.parent != nil && FromContext(ctx) != s.parent {
		ctx = withSpan(ctx, s.parent)
	}
	switch {
	case p.root:
	case s.parent != nil && s.parent.data.SpanID.IsValid():
		s.data.ParentID = s.parent.data.SpanID
	default:
		ctx = o.joined(ctx)
		s.data.ParentID = trace.SpanContextFromContext(ctx).SpanID()
	}
	s.starting = o.run.Place(ctx, p.index, s.to, p.root)
	ctx = (*startContext)(s)
	switch {
	case o.ids != nil && s.to&o.hub.Spans() == 0:
		s.otel = o.unseen(ctx, p.root)
		s.identify()
		o.run.Start(s.data.Name, s.otel.SpanContext(), s.to)
		return nil
	case p.tracer != nil:
		_, s.otel = p.tracer.Start(ctx, s.data.Name, withTime(p.options, s.data.Start)...)
	default:
		options := append(s.startOptions[:0], trace.WithTimestamp(o.time(s.data.Start)))
		kvs := o.attributes(s)
		if o.ids == nil {
			options = append(options, trace.WithAttributes(kvs.all()...))
		}
		_, s.otel = o.tracer.Start(ctx, s.data.Name, options...)
		if o.ids != nil { // an option would be copied twice more
			s.otel.SetAttributes(kvs.all()...)
		}
		kvs.release()
	}
	s.identify()
	if span, ok := s.otel.(sdktrace.ReadWriteSpan); ok {
		o.run.Start(s.data.Name, s.otel.SpanContext(), s.to)
		o.hub.Start(ctx, (*contextSpan)(s), span)
	}
	return nil
}

// end ends a span. The SDK does not change it afterwards, so the outputs get the span
// itself in place of a copy.
func (o *otelSide) end(s *Span, at int64) {
	if u, ok := s.otel.(*unseen); ok {
		o.run.Stop(u.SpanContext().SpanID())
		return
	}
	s.endOptions[0] = trace.WithTimestamp(time.Unix(0, at))
	s.otel.End(s.endOptions[:]...)
	if span, ok := s.otel.(sdktrace.ReadWriteSpan); ok {
		o.run.Stop(s.data.SpanID)
		o.hub.Stop((*contextSpan)(s), span)
	}
}

// unseen is the OpenTelemetry side of a span that no output gets from OpenTelemetry: its
// ids. The SDK does not make the span.
type unseen struct {
	trace.Span // has no effect
	is         trace.SpanContext
}

var noEffect trace.Span = noop.Span{}

// SpanContext implements trace.Span.
func (u *unseen) SpanContext() trace.SpanContext { return u.is }

// unseen returns an unseen span below that of ctx, with the ids that the SDK would give
// it.
func (o *otelSide) unseen(ctx context.Context, root bool) *unseen {
	var parent trace.SpanContext
	if !root {
		parent = trace.SpanContextFromContext(ctx)
	}
	is := trace.SpanContextConfig{
		TraceID: parent.TraceID(), TraceFlags: parent.TraceFlags() | trace.FlagsSampled, TraceState: parent.TraceState(),
	}
	if is.TraceID.IsValid() {
		is.SpanID = o.ids.NewSpanID(ctx, is.TraceID)
	} else {
		is.TraceID, is.SpanID = o.ids.NewIDs(ctx)
	}
	return &unseen{noEffect, trace.NewSpanContext(is)}
}

func (s *Span) identify() {
	sc := s.otel.SpanContext()
	s.data.TraceID, s.data.SpanID = sc.TraceID(), sc.SpanID()
}

// withSpan returns ctx with s as its span. Frameworks with hooks hold one
// context and start everything with it: then the context from the start of s is
// reused.
func withSpan(ctx context.Context, s *Span) context.Context {
	if sameContext(s.base, ctx) {
		return s.carrying()
	}
	return trace.ContextWithSpan(ctx, (*contextSpan)(s))
}

// sameContext reports whether two contexts are known to be the same. Not all
// types of contexts can be compared; pointers can, and the background is the
// most frequent.
func sameContext(a, b context.Context) bool {
	if b == context.Background() {
		return a == b
	}
	return reflect.TypeOf(b).Kind() == reflect.Pointer && a == b
}

// joined returns ctx, with the run's parent if it has no span.
func (o *otelSide) joined(ctx context.Context) context.Context {
	if !o.above.IsValid() || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, o.above)
}

// adopt returns ctx; if it has no span, with the latest span of a callback or
// else the run's parent.
func (o *otelSide) adopt(ctx context.Context, latest *Span) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	if latest != nil {
		return trace.ContextWithSpan(ctx, (*contextSpan)(latest))
	}
	return o.joined(ctx)
}

// substitute returns an unrecorded span below that of the context.
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

// attributes returns the initial attributes of the OpenTelemetry span: those of
// the record and, for backends that get the span, the progress of the training.
func (o *otelSide) attributes(s *Span) *keyValues {
	if s.index != phase.Iteration || o.steps == nil {
		return lent(s.data.Attributes)
	}
	step := [2]attribute.KeyValue{attribute.Int64(attributes.Step, o.steps.Step())}
	if epoch := o.steps.Epoch(); epoch >= 0 {
		step[1] = attribute.Int64(attributes.Epoch, epoch)
		return lent(s.data.Attributes, step[:]...)
	}
	return lent(s.data.Attributes, step[:1]...)
}

// keyValues are attributes for one call of the SDK, which copies them. Their memory is
// reused. nil means none.
type keyValues []attribute.KeyValue

var unused = sync.Pool{New: func() any { return new(keyValues) }}

// lent returns the attributes attrs and more, to be released after the call.
func lent(attrs []attributes.Attr, more ...attribute.KeyValue) *keyValues {
	if len(attrs)+len(more) == 0 {
		return nil
	}
	k := unused.Get().(*keyValues)
	*k = append(attrvalue.AppendOTel((*k)[:0], attrs), more...)
	return k
}

func (k *keyValues) all() []attribute.KeyValue {
	if k == nil {
		return nil
	}
	return *k
}

func (k *keyValues) release() {
	if k != nil {
		clear(*k)
		unused.Put(k)
	}
}

// FromContext returns the telemetry span that ctx carries, or nil.
func FromContext(ctx context.Context) *Span {
	if view, ok := trace.SpanFromContext(ctx).(*contextSpan); ok {
		return view.owner()
	}
	return nil
}

// withTime adds the start time of the recorder.
func withTime(options []trace.SpanStartOption, ns int64) []trace.SpanStartOption {
	all := make([]trace.SpanStartOption, 0, len(options)+1)
	return append(append(all, options...), trace.WithTimestamp(time.Unix(0, ns)))
}

// truncate marks the OpenTelemetry span that was open at the end of the
// recording. An attribute of the program with that key gets the prefix "user_".
func (s *Span) truncate() {
	var before []attribute.KeyValue
	s.rec.locked(func() {
		for i, a := range s.data.Attributes {
			if a.Key == attributes.Truncated {
				before = attrvalue.AppendOTel(nil, s.data.Attributes[i:i+1])
			}
		}
	})
	for _, kv := range before {
		s.otel.SetAttributes(attribute.KeyValue{Key: "user_" + kv.Key, Value: kv.Value})
	}
	s.otel.SetAttributes(attribute.Int(attributes.Truncated, 1))
}

// tracerProvider wraps another tracer provider: it applies the rule of parents
// and writes records.
type tracerProvider struct {
	embedded.TracerProvider
	rec    *Recorder
	inner  trace.TracerProvider
	apart  trace.TracerProvider // of spans that the recorder does not have
	scopes *scopePlan
}

// Tracer implements trace.TracerProvider.
func (t *tracerProvider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return &tracer{rec: t.rec, inner: t.inner.Tracer(name, options...), apart: t.apart.Tracer(name, options...)}
}

type tracer struct {
	embedded.Tracer
	rec   *Recorder
	inner trace.Tracer
	apart trace.Tracer
}

// Start implements trace.Tracer.
func (t *tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx = orBackground(ctx)
	if t.rec.idle(name) && errors.Is(t.rec.why(), errDisabled) {
		return noop.Tracer{}.Start(ctx, name)
	}
	cfg := trace.NewSpanStartConfig(options...)
	p := &startParams{
		name: name, index: -1, at: cfg.Timestamp(), anyTime: true, root: cfg.NewRoot(),
		tracer: t.inner, options: options, attrs: t.rec.repairs.cleanCopy(attributes.From(cfg.Attributes()...)),
	}
	ctx, s, _ := t.rec.begin(ctx, p)
	if !s.started() {
		return t.apart.Start(ctx, name, options...)
	}
	return ctx, (*contextSpan)(s)
}

// The contract of outputs, with public names.
type (
	// Output is a destination of telemetry.
	Output = outputs.Output
	// Identity is the process that writes and its place in the job.
	Identity = outputs.Identity
	// OutputHealth is the state of an Output for records: Failures counts failed
	// exports, and LastError is the latest of them. Delivered is true once an
	// export succeeded, GivenUp if the output gets no more records. Dropped counts
	// the records that it did not get. DataErrorReported is true if it got its one
	// telemetry data error.
	OutputHealth = dispatch.Health
)
