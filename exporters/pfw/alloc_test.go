package pfw_test

import (
	"context"
	"testing"

	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// nothing is a span processor that does nothing, so that it costs nothing.
type nothing struct{}

func (nothing) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (nothing) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (nothing) Shutdown(context.Context) error                  { return nil }
func (nothing) ForceFlush(context.Context) error                { return nil }

func spanWith(tracer trace.Tracer) {
	_, s := tracer.Start(context.Background(), "forward", trace.WithAttributes(
		attribute.Int("epoch", 3), attribute.Int("step", 12), attribute.String("phase", "train")))
	s.End()
}

func TestAllocations(t *testing.T) {
	p, _ := newTrace(t, nil)
	count := func(sp sdktrace.SpanProcessor) float64 {
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(sp)).Tracer("x")
		return testing.AllocsPerRun(2000, func() { spanWith(tracer) })
	}
	if bare, traced := count(nothing{}), count(p); traced > bare+1 {
		t.Errorf("a traced span allocates %v times, a bare one %v; want at most 1 more", traced, bare)
	}
	kind := p.ScopeKind("compute", "forward")
	ctx := context.Background()
	if n := testing.AllocsPerRun(2000, func() { kind.Start(ctx, nil, dispatch.ScopeStart{}).End() }); n > 1 {
		t.Errorf("a scope allocates %v times, want at most 1", n)
	}
}

func benchmark(b *testing.B, sp sdktrace.SpanProcessor) {
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(sp))
	tracer := tp.Tracer("x")
	b.ReportAllocs()
	for b.Loop() {
		spanWith(tracer)
	}
}

func BenchmarkBareSpan(b *testing.B) { benchmark(b, nothing{}) }

func BenchmarkSpan(b *testing.B) {
	p, err := pfw.Create(b.TempDir()+"/trace.pfw.gz", nil)
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, p)
	if err := p.Shutdown(context.Background()); err != nil {
		b.Fatal(err)
	}
}
