package pfw

import (
	"context"
	"reflect"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// reader compares what is read in place with what the methods of a span say.
type reader struct {
	t       *testing.T
	layouts layouts
	wrap    bool // put a span of our own around the SDK's
	ends    int
}

// other is a span of somebody else.
type other struct{ sdktrace.ReadOnlySpan }

func (o other) Name() string { return "other " + o.ReadOnlySpan.Name() }

func (r *reader) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	parent, start := r.layouts.started(s)
	if !parent.Equal(s.Parent()) || start != s.StartTime().UnixMicro() {
		r.t.Errorf("parent %v at %d, want %v at %v", parent, start, s.Parent(), s.StartTime())
	}
	if layoutFor(&r.layouts.recording, recordingType, s) == nil {
		r.t.Error("the SDK's recording span has another layout; spans cost more than they did")
	}
}

func (r *reader) OnEnd(s sdktrace.ReadOnlySpan) {
	r.ends++
	if r.wrap {
		s = other{s}
	}
	got := r.layouts.ended(s)
	if (got.at == nil) != r.wrap {
		r.t.Errorf("read in place is %t; spans cost more than they did", got.at != nil)
	}
	want := reading{span: s}
	for _, m := range []struct {
		what string
		of   func(*reading) any
	}{
		{"id", func(r *reading) any { return r.spanID() }},
		{"name", func(r *reading) any { return r.name() }},
		{"scope", func(r *reading) any { return r.scope() }},
		{"end", func(r *reading) any { return r.end() }},
		{"attributes", func(r *reading) any { return r.attributes() }},
		{"events", func(r *reading) any { return r.events() }},
		{"links", func(r *reading) any { return r.links() }},
		{"status", func(r *reading) any { return r.status() }},
		{"dropped attributes", func(r *reading) any { return r.droppedAttributes() }},
		{"dropped events", func(r *reading) any { return r.droppedEvents() }},
		{"dropped links", func(r *reading) any { return r.droppedLinks() }},
	} {
		if g, w := m.of(&got), m.of(&want); !reflect.DeepEqual(g, w) {
			r.t.Errorf("%s: %v in place, %v asked", m.what, g, w)
		}
	}
	if got.droppedAttributes() != 2 || got.droppedEvents() != 1 || got.droppedLinks() != 3 {
		r.t.Errorf("dropped %d attributes, %d events, %d links", got.droppedAttributes(), got.droppedEvents(), got.droppedLinks())
	}
}

func (r *reader) Shutdown(context.Context) error   { return nil }
func (r *reader) ForceFlush(context.Context) error { return nil }

// A span reads the same in place as through its methods. This fails when a new
// version of the SDK keeps spans in another way: they are asked then, which is
// right but slower.
func TestSpansReadInPlaceAreTheSame(t *testing.T) {
	for _, wrap := range []bool{false, true} {
		r := &reader{t: t, wrap: wrap}
		limits := sdktrace.NewSpanLimits()
		limits.AttributeCountLimit, limits.EventCountLimit, limits.LinkCountLimit = 2, 3, 1
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r), sdktrace.WithRawSpanLimits(limits)).
			Tracer("example.com/scope", trace.WithInstrumentationVersion("v9"))
		link := trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})}
		ctx := context.Background()
		for range 3 {
			var s trace.Span
			ctx, s = tracer.Start(ctx, "work", trace.WithLinks(link, link, link, link), trace.WithAttributes(
				attribute.Int("a", 1), attribute.String("b", "x"), attribute.Bool("c", true), attribute.Float64("d", 0.5)))
			for range 4 {
				s.AddEvent("event", trace.WithAttributes(attribute.Int("n", 1)))
			}
			s.SetStatus(codes.Error, "broken")
			s.SetName("renamed")
			s.End()
		}
		if r.ends != 3 {
			t.Errorf("%d spans ended, want 3", r.ends)
		}
	}
}

// A type whose fields are called or typed otherwise is not read in place.
func TestUnknownLayoutsAreAsked(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[*open](), reflect.TypeFor[*spanEntry](), reflect.TypeFor[*clock]()} {
		if newLayout(typ).known {
			t.Errorf("the layout of %v is taken for known", typ)
		}
	}
}
