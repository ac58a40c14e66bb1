package telemetry_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// tooFar is a time in milliseconds that was taken for seconds. Spans with it are refused.
var tooFar = time.Unix(1_700_000_000_000, 0)

// forStrategies runs a test with each error strategy, in which nothing else is an error.
func forStrategies(t *testing.T, test func(t *testing.T, j *job)) {
	for _, strategy := range []config.ErrorStrategy{config.PropagateErrors, config.DisableQuietly} {
		t.Run(string(strategy), func(t *testing.T) {
			test(t, newJob(t, func(c *config.Base, b *telemetry.TrainingTelemetryBuilder) {
				c.ErrorStrategy = strategy
				b.WithExportCustomization(config.Export{Mode: config.ExportAll}).WithSpanExporter(tracetest.NewInMemoryExporter())
			}))
		})
	}
}

// A program may use a span of the OpenTelemetry API that the recorder refused.
func TestRefusedSpanOfTheOpenTelemetryAPI(t *testing.T) {
	forStrategies(t, func(t *testing.T, j *job) {
		ctx, outer := j.tel.Tracer("t").Start(j.ctx, "outer")
		for range 2 {
			ctx, s := j.tel.Tracer("t").Start(ctx, "x", trace.WithTimestamp(tooFar))
			if got := trace.SpanFromContext(ctx); got == outer && outer.IsRecording() {
				t.Error("the context carries the outer span, want the refused one")
			}
			s.SetStatus(codes.Error, "broken")
			s.SetName("y")
			s.AddLink(trace.Link{SpanContext: outer.SpanContext()})
			s.AddEvent("e")
			s.RecordError(errors.New("broken"))
			s.SetAttributes(attribute.Int("a", 1))
			_, _, _ = s.SpanContext(), s.IsRecording(), s.TracerProvider()
			s.End()
		}
		outer.End()
		check(t, j.tel.Shutdown(context.Background()))
	})
}

// A scope that is refused is not the span around it.
func TestRefusedScope(t *testing.T) {
	forStrategies(t, func(t *testing.T, j *job) {
		send := dispatch.SourceOf(j.tel.TracerProvider()).Sender("c", "n")
		if send == nil {
			t.Fatal("Sender: nil, want one")
		}
		ctx, outer := j.tel.Tracer("t").Start(j.ctx, "outer")
		inner, s := send(ctx, tooFar)
		if s != nil || inner != ctx {
			t.Errorf("the refused scope is %v, want none", s)
		}
		outer.End()
		check(t, j.tel.Shutdown(context.Background()))
	})
}

// Scopes go on after an end of the application that is refused.
func TestScopesAfterARefusedEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
		WithExporter(pfw.New(path, nil)).ConfigureProvider(t.Context())
	check(t, err)
	ctx, cb, tree := context.Background(), callbacks.New(tel), ai.NewTree(tel)
	started(t)(cb.OnAppStart(ctx))
	tree.Compute.Forward.Start(ctx).End()
	if cb.OnAppEnd(ctx, callbacks.End{Time: time.Now().Add(-11 * time.Minute)}) == nil {
		t.Error("OnAppEnd with an old time: no error, want one")
	}
	tree.Compute.Forward.Start(ctx).End()
	check(t, cb.OnAppEnd(ctx))
	check(t, tel.Shutdown(ctx))
	n := 0
	for _, e := range dftest.Events(t, path) {
		if e.Name == "forward" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d scopes are recorded, want 2", n)
	}
}

// A refused span cannot be a parent: the span is where it would be without one.
func TestRefusedParent(t *testing.T) {
	forStrategies(t, func(t *testing.T, j *job) {
		for _, path := range []struct {
			name string
			in   context.Context
		}{{"background", context.Background()}, {"context", func() context.Context {
			ctx, _ := j.tel.StartSpan(j.ctx, "around")
			return ctx
		}()}} {
			_, unknown := j.tel.Start(path.in, "no such span")
			_, late := j.tel.StartSpanWith(path.in, "late", telemetry.SpanStart{Time: tooFar})
			_, byHand, _ := j.tel.Recorder().Start(path.in, "by hand", telemetry.SpanStart{Time: tooFar})
			for _, parent := range []*telemetry.Span{unknown, late, byHand} {
				want := telemetry.FromContext(path.in)
				if !j.tel.Enabled() {
					want = nil
				}
				_, s := j.tel.StartSpanWith(path.in, "below", telemetry.SpanStart{Parent: parent})
				if got := s.Parent(); got != want {
					t.Errorf("%s: the parent is %v, want %v", path.name, got.Name(), want.Name())
				}
				_, b, err := j.tel.Recorder().Start(path.in, "below", telemetry.SpanStart{Parent: parent})
				check(t, err)
				check(t, j.tel.Recorder().Stop(b, telemetry.End{}))
				s.End()
			}
		}
		check(t, j.tel.Shutdown(context.Background()))
	})
}
