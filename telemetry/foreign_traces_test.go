package telemetry_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// hookedIDs is a generator of the program.
type hookedIDs struct {
	sdktrace.IDGenerator
	hook func(ctx context.Context)
}

func (g *hookedIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	g.hook(ctx)
	return g.IDGenerator.NewIDs(ctx)
}

func (g *hookedIDs) NewSpanID(ctx context.Context, t trace.TraceID) trace.SpanID {
	g.hook(ctx)
	return g.IDGenerator.NewSpanID(ctx, t)
}

// A clock and an id generator may start spans, also when a new trace begins.
func TestForeignCodeMayStartSpansAtANewTrace(t *testing.T) {
	var tel *telemetry.Provider
	var inside atomic.Bool
	ids, exported := &hookedIDs{telemetry.RandomIDs(), func(context.Context) {}}, tracetest.NewInMemoryExporter()
	hook := func() {
		if tel != nil && inside.CompareAndSwap(false, true) {
			_, s := tel.StartSpan(context.Background(), "from foreign code")
			s.End()
			inside.Store(false)
		}
	}
	ids.hook = func(context.Context) { hook() }
	made, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
		WithClock(func() time.Time { hook(); return time.Now() }).WithIDGenerator(ids).
		WithSpanExporter(kept{exported}).WithTraces(config.Traces{Budget: 32}).
		ConfigureProvider(t.Context())
	check(t, err)
	tel = made
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, loop := tel.Start(t.Context(), spans.TrainingLoop)
		for range 200 {
			_, s := tel.StartSpan(ctx, "inner")
			s.End()
		}
		loop.End()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the calls wait for each other")
	}
	check(t, tel.Shutdown(context.Background()))
	traces := map[trace.TraceID]bool{}
	for _, s := range exported.GetSpans() {
		traces[s.SpanContext.TraceID()] = true
	}
	if len(traces) < 5 {
		t.Errorf("%d traces, want 5 or more", len(traces))
	}
}

// An id generator that needs a value of the program's context does not end the process when a
// goroutine of telemetry begins a new segment, or a new trace.
func TestIDGeneratorThatPanicsInTheBackground(t *testing.T) {
	type key struct{}
	ids, exported := &hookedIDs{telemetry.RandomIDs(), func(ctx context.Context) { _ = ctx.Value(key{}).(int) }}, tracetest.NewInMemoryExporter()
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
		WithIDGenerator(ids).WithSpanExporter(kept{exported}).WithSegment(100 * time.Millisecond).WithTraces(config.Traces{Budget: 32}).
		ConfigureProvider(t.Context())
	check(t, err)
	ctx := context.WithValue(t.Context(), key{}, 1)
	ctx, loop := tel.Start(ctx, spans.TrainingLoop)
	for range 40 { // a full trace
		_, s := tel.StartSpan(ctx, "inner")
		s.End()
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // of the background
		check(t, tel.ForceFlush(t.Context()))
		n := 0
		for _, s := range exported.GetSpans() {
			if s.Name == spans.TrainingLoop {
				n++
			}
		}
		if n > 4 {
			break
		}
	}
	loop.End()
	check(t, tel.Shutdown(context.Background()))
	if n := len(exported.GetSpans()); n < 45 {
		t.Errorf("%d spans are exported, want 45 or more", n)
	}
}
