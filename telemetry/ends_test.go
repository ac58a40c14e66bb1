package telemetry_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// cutRun runs a job with a trace file and a backend, in which a loop and an
// iteration stay open.
func cutRun(t *testing.T, end func(*telemetry.Provider, *callbacks.Callbacks)) (events map[string]dftracer.Event, stubs map[string]tracetest.SpanStub) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.pfw")
	backend := tracetest.NewInMemoryExporter()
	synctest.Test(t, func(t *testing.T) { // in synthetic time the spans have a length
		cfg := base()
		cfg.WorldSize = config.Value(1)
		tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(cfg).WithLogger(quietLog()).
			WithExporter(pfw.New(path, nil)).WithSpanExporter(kept{backend}, config.Export{Mode: config.ExportAll}).
			ConfigureProvider(context.Background())
		check(t, err)
		ctx, cb := context.Background(), callbacks.New(tel)
		started(t)(cb.OnAppStart(ctx))
		_, done := tel.StartSpan(ctx, "done")
		done.End()
		started(t)(cb.OnTrainStart(ctx, callbacks.TrainStart{}))
		started(t)(cb.OnTrainingSingleIterationStart(ctx))
		time.Sleep(time.Millisecond)
		end(tel, cb)
		check(t, tel.Shutdown(ctx))
	})
	dftest.Check(t, path)
	events, stubs = map[string]dftracer.Event{}, map[string]tracetest.SpanStub{}
	for _, e := range dftest.Events(t, path) {
		if e.Phase == dftracer.PhaseComplete {
			events[e.Name] = e
		}
	}
	for _, s := range backend.GetSpans() {
		stubs[s.Name] = s
	}
	return events, stubs
}

// After a crash only the end of the application is reported. Open spans below
// it end before it and are marked truncated, in the trace and in the backend.
// The application itself ends normally.
func TestEndOfTheApplicationWithOpenSpans(t *testing.T) {
	events, stubs := cutRun(t, func(_ *telemetry.Provider, cb *callbacks.Callbacks) { check(t, cb.OnAppEnd(context.Background())) })
	truncated(t, events, stubs, map[string]bool{"done": false, "train": true, "train.iteration": true, "ai_root": false})
	app, loop, iteration := stubs["application"], stubs["training_loop"], stubs["training_single_iteration"]
	if loop.EndTime.After(app.EndTime) || iteration.EndTime.After(loop.EndTime) {
		t.Errorf("iteration ends at %v, loop at %v, application at %v; want children to end first", iteration.EndTime, loop.EndTime, app.EndTime)
	}
	if loop.Parent.SpanID() != app.SpanContext.SpanID() || iteration.Parent.SpanID() != loop.SpanContext.SpanID() {
		t.Error("the spans do not nest in the backend")
	}
	if events["train"].Parent != int64(events["ai_root"].ID) || events["train.iteration"].Parent != int64(events["train"].ID) {
		t.Error("the spans do not nest in the trace")
	}
}

// An early Shutdown marks all spans that it ends.
func TestShutdownWithOpenSpans(t *testing.T) {
	events, stubs := cutRun(t, func(tel *telemetry.Provider, _ *callbacks.Callbacks) { check(t, tel.Shutdown(context.Background())) })
	truncated(t, events, stubs, map[string]bool{"done": false, "train": true, "train.iteration": true, "ai_root": true})
}

func truncated(t *testing.T, events map[string]dftracer.Event, stubs map[string]tracetest.SpanStub, want map[string]bool) {
	t.Helper()
	inBackend := map[string]string{"train": "training_loop", "train.iteration": "training_single_iteration", "ai_root": "application", "done": "done"}
	n := 0
	for name, want := range want {
		e, ok := events[name]
		_, cut := e.Arg("truncated")
		s, sent := stubs[inBackend[name]]
		_, marked := keyed(s.Attributes)["truncated"]
		if !ok || !sent || cut != want || marked != want {
			t.Errorf("%s: in the trace %v, truncated %v; in the backend %v, truncated %v; want in both, truncated %v", name, ok, cut, sent, marked, want)
		}
		if want {
			n++
		}
	}
	end := events["end"]
	if got, _ := end.Arg("spans_truncated"); got.Int64() != int64(n) {
		t.Errorf("the trace says that %d spans are truncated, want %d", got.Int64(), n)
	}
}
