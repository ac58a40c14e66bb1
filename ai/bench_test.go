package ai_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/exporters/pfw"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func BenchmarkScope(b *testing.B) {
	tree, _, _ := newTree(b, "trace.pfw.gz", nil)
	tree.Root.Update(ai.Epoch(3), ai.Step(12))
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		tree.Compute.Forward.Start(ctx).End()
	}
}

func BenchmarkScopeNested(b *testing.B) {
	tree, _, _ := newTree(b, "trace.pfw.gz", nil)
	tree.Root.Update(ai.Epoch(3), ai.Step(12))
	ctx, train := tree.Pipeline.Train.StartContext(context.Background())
	defer train.End()
	b.ReportAllocs()
	for b.Loop() {
		tree.Compute.Forward.Start(ctx).End()
	}
}

func BenchmarkScopeParallel(b *testing.B) {
	tree, _, _ := newTree(b, "trace.pfw.gz", nil)
	tree.Root.Update(ai.Epoch(3), ai.Step(12))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx, s := tree.Compute.StartContext(context.Background())
		defer s.End()
		for pb.Next() {
			tree.Compute.Forward.Start(ctx).End()
		}
	})
}

func BenchmarkScopeParallelNoParent(b *testing.B) {
	tree, _, _ := newTree(b, "trace.pfw.gz", nil)
	tree.Root.Update(ai.Epoch(3), ai.Step(12))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			tree.Compute.Forward.Start(context.Background()).End()
		}
	})
}

func BenchmarkDisabledNode(b *testing.B) {
	tree, _, _ := newTree(b, "trace.pfw.gz", nil)
	tree.Compute.Disable()
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		tree.Compute.Forward.Start(ctx).End()
	}
}

func BenchmarkProviderOff(b *testing.B) {
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		ai.Compute.Forward.Start(ctx).End()
	}
}

type noop struct{}

func (noop) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (noop) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (noop) Shutdown(context.Context) error                  { return nil }
func (noop) ForceFlush(context.Context) error                { return nil }

func benchSDK(b *testing.B, p sdktrace.SpanProcessor) {
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	defer tp.Shutdown(context.Background()) //nolint:errcheck // measured is the way there
	tracer := tp.Tracer("x")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		_, s := tracer.Start(ctx, "forward", trace.WithAttributes(
			attribute.Int("epoch", 3), attribute.Int("step", 12), attribute.String("phase", "train")))
		s.End()
	}
}

func BenchmarkSDKSpan(b *testing.B) { benchSDK(b, noop{}) }

func BenchmarkSDKSpanToTrace(b *testing.B) {
	p, err := pfw.Create(filepath.Join(b.TempDir(), "trace.pfw.gz"), nil)
	if err != nil {
		b.Fatal(err)
	}
	benchSDK(b, p)
}
