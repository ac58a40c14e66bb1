package pfw_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// at returns the option for a time given in milliseconds.
func at(ms int64) trace.SpanEventOption {
	return trace.WithTimestamp(time.UnixMilli(1_760_000_000_000 + ms))
}

// TestSpansThatBeganBefore checks that a span that began before the processor was
// registered is in the trace, on a separate lane, because it may overlap later spans.
func TestSpansThatBeganBefore(t *testing.T) {
	p, path := newTrace(t, nil)
	tp := sdktrace.NewTracerProvider()
	tp.RegisterSpanProcessor(sdktrace.NewSimpleSpanProcessor(tracetest.NewNoopExporter())) // without a processor, spans are not recorded
	tracer := tp.Tracer("x")
	ctx, root := tracer.Start(context.Background(), "root", at(0))
	ctx, before := tracer.Start(ctx, "before", at(1))
	tp.RegisterSpanProcessor(p)
	ctx, after := tracer.Start(ctx, "after", at(2))
	_, inner := tracer.Start(ctx, "inner", at(3))
	before.End(at(4))
	inner.End(at(5))
	after.End(at(6))
	root.End(at(7))
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
	ev := byName(dftest.Events(t, path))
	for name, parent := range map[string]string{"root": "", "before": "root", "after": "", "inner": "after"} {
		want := dftracer.NoParent
		if parent != "" {
			want = int64(ev[parent].ID)
		}
		if got := ev[name]; got.Name == "" || got.Parent != want {
			t.Errorf("%s is %+v, want it below %q", name, got, parent)
		}
	}
	if ev["before"].TID != ev["root"].TID || ev["before"].TID == ev["after"].TID {
		t.Errorf("lanes of root, before and after are %d, %d and %d; want before with root, after apart", ev["root"].TID, ev["before"].TID, ev["after"].TID)
	}
	end := ev["end"]
	if _, some := end.Arg("spans_unfinished"); some {
		t.Error("the end record counts unfinished spans, want none: every parent was exported")
	}
}

// TestBatchesBesideTelemetry checks that an exporter that is attached to telemetry also
// accepts batches from another tracer provider.
func TestBatchesBesideTelemetry(t *testing.T) {
	e := pfw.New(filepath.Join(t.TempDir(), "trace.pfw"), nil)
	if _, err := e.Open(t.Context(), &outputs.Telemetry{}); err != nil {
		t.Fatal(err)
	}
	own, other := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(e)), sdktrace.NewTracerProvider(sdktrace.WithSyncer(e))
	_, first := own.Tracer("x").Start(t.Context(), "first", at(0))
	_, second := other.Tracer("x").Start(t.Context(), "second", at(1))
	first.End(at(2))
	second.End(at(3))
	if err := e.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := e.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "late"}}.Snapshots()); err != nil {
		t.Errorf("ExportSpans() after Shutdown = %v, want nil", err)
	}
	dftest.Check(t, e.Path())
	ev := byName(dftest.Events(t, e.Path()))
	if ev["first"].TID == ev["second"].TID || ev["second"].Name == "" || ev["late"].Name != "" {
		t.Errorf("first %+v, second %+v; want two lanes, and no event late", ev["first"], ev["second"])
	}
}

// TestKeysOfTheTrace checks that an attribute whose key the trace itself uses is written
// under another key, on every path that writes spans.
func TestKeysOfTheTrace(t *testing.T) {
	for name, processor := range map[string]func(path string) sdktrace.SpanProcessor{
		"exporter": func(path string) sdktrace.SpanProcessor {
			return sdktrace.NewSimpleSpanProcessor(pfw.New(path, &pfw.Options{TraceIDs: true}))
		},
		"processor": func(path string) sdktrace.SpanProcessor {
			p, err := pfw.Create(path, &pfw.Options{TraceIDs: true})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
	} {
		path := filepath.Join(t.TempDir(), "trace.pfw")
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(processor(path)))
		_, s := tp.Tracer("x").Start(t.Context(), "own", trace.WithAttributes(attribute.String("trace_id", "mine")))
		s.End()
		if err := tp.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		ev := byName(dftest.Events(t, path))["own"]
		if got, want := text(t, ev, "trace_id"), s.SpanContext().TraceID().String(); got != want || text(t, ev, "user_trace_id") != "mine" {
			t.Errorf("%s: trace_id is %s, want %s, of %+v", name, got, want, ev.Args)
		}
	}
}

// TestExporterIsAskedWhileItOpens calls methods of an exporter while the first spans
// open its file.
func TestExporterIsAskedWhileItOpens(t *testing.T) {
	e := pfw.New(filepath.Join(t.TempDir(), "trace.pfw"), nil)
	asked, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; e.Stats().File.Records == 0; i++ {
			if err := e.ForceFlush(t.Context()); err != nil || e.Path() == "" {
				t.Errorf("ForceFlush() = %v, Path() = %q; want no error and a path", err, e.Path())
			}
			if i == 0 {
				close(asked)
			}
		}
	}()
	<-asked
	if err := e.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "first", StartTime: time.UnixMilli(1), EndTime: time.UnixMilli(2)}}.Snapshots()); err != nil {
		t.Fatal(err)
	}
	<-done
	if err := e.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, e.Path())
}
