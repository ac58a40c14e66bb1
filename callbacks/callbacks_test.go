package callbacks_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// kept is an exporter whose spans stay available after its shutdown.
type kept struct{ *tracetest.InMemoryExporter }

func (kept) Shutdown(context.Context) error { return nil }

type (
	startFunc = func(context.Context, ...callbacks.Start) (context.Context, error)
	endFunc   = func(context.Context, ...callbacks.End) error
)

// phases returns the callbacks with only a start and an end.
func phases(cb *callbacks.Callbacks) map[string]struct {
	start startFunc
	end   endFunc
} {
	return map[string]struct {
		start startFunc
		end   endFunc
	}{
		spans.DistributedInit:     {cb.OnDistributedInitStart, cb.OnDistributedInitEnd},
		spans.DataLoaderInit:      {cb.OnDataLoaderInitStart, cb.OnDataLoaderInitEnd},
		spans.ModelInit:           {cb.OnModelInitStart, cb.OnModelInitEnd},
		spans.OptimizerInit:       {cb.OnOptimizerInitStart, cb.OnOptimizerInitEnd},
		spans.CheckpointLoad:      {cb.OnLoadCheckpointStart, cb.OnLoadCheckpointEnd},
		spans.DataLoading:         {cb.OnDataLoadingStart, cb.OnDataLoadingEnd},
		spans.ModelForward:        {cb.OnModelForwardStart, cb.OnModelForwardEnd},
		spans.ZeroGrad:            {cb.OnZeroGradStart, cb.OnZeroGradEnd},
		spans.ModelBackward:       {cb.OnModelBackwardStart, cb.OnModelBackwardEnd},
		spans.OptimizerUpdate:     {cb.OnOptimizerUpdateStart, cb.OnOptimizerUpdateEnd},
		spans.ValidationLoop:      {cb.OnValidationStart, cb.OnValidationEnd},
		spans.ValidationIteration: {cb.OnValidationSingleIterationStart, cb.OnValidationSingleIterationEnd},
		spans.TestingLoop:         {cb.OnTestingStart, cb.OnTestingEnd},
		spans.TestingIteration:    {cb.OnTestingSingleIterationStart, cb.OnTestingSingleIterationEnd},
	}
}

// Each callback starts and ends the span of its name, at the given times, with
// the given error.
func TestPhases(t *testing.T) {
	ctx := context.Background()
	sent := tracetest.NewInMemoryExporter()
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithLogger(quiet()).
		WithBaseConfig(config.Base{ApplicationName: "a", SessionTag: config.Value("s"), WorldSize: config.Value(1)}).
		WithSpanProcessor(sdktrace.NewSimpleSpanProcessor(kept{sent})).
		ConfigureProvider(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Shutdown(ctx)
	failure := errors.New("failed")
	for name, p := range phases(callbacks.New(tel)) {
		t.Run(name, func(t *testing.T) {
			sent.Reset()
			start := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
			end := start.Add(20 * time.Second)
			under, err := p.start(ctx, callbacks.Start{Time: start})
			if err != nil {
				t.Fatal(err)
			}
			if s := telemetry.FromContext(under); s.Name() != name || !s.Active() {
				t.Errorf("context has the span %q, want %q, active", s.Name(), name)
			}
			if _, err := p.start(ctx); err == nil {
				t.Error("got no error for a second start of an open span, want one")
			}
			if err := p.end(ctx, callbacks.End{Time: end, Err: failure}); err != nil {
				t.Fatal(err)
			}
			if err := p.end(ctx); err == nil {
				t.Error("got no error for an end without a start, want one")
			}
			got := sent.GetSpans()
			if len(got) != 1 || got[0].Name != name || !got[0].StartTime.Equal(start) || !got[0].EndTime.Equal(end) ||
				got[0].Status.Code != codes.Error {
				t.Errorf("spans %+v, want one %s from %v to %v with an error", got, name, start, end)
			}
		})
	}
}

func TestWithoutProvider(t *testing.T) {
	ctx := context.Background()
	for _, cb := range []*callbacks.Callbacks{nil, callbacks.New(nil), callbacks.Default()} {
		for name, p := range phases(cb) {
			if under, err := p.start(ctx); err != nil || under != ctx {
				t.Errorf("%s without a provider: %v, want no error and the same context", name, err)
			}
			if err := p.end(ctx); err != nil {
				t.Errorf("%s: end: %v", name, err)
			}
		}
		_, err1 := cb.OnAppStart(ctx)
		_, err2 := cb.OnTrainStart(ctx, callbacks.TrainStart{IterationsStart: -1})
		_, err3 := cb.OnEpochStart(ctx, 0)
		_, err4 := cb.OnSaveCheckpointStart(ctx, callbacks.SaveStart{})
		_, err5 := cb.OnCheckpointFinalizationStart(ctx, callbacks.Finalization{})
		if err := errors.Join(err1, err2, err3, err4, err5,
			cb.OnTrainingSingleIterationEnd(ctx), cb.OnTrainEnd(ctx), cb.OnEpochEnd(ctx),
			cb.OnSaveCheckpointSuccess(ctx, callbacks.SaveSuccess{}), cb.OnSaveCheckpointFailure(ctx, callbacks.SaveFailure{}),
			cb.OnSaveCheckpointEnd(ctx), cb.OnCheckpointFinalizationEnd(ctx, callbacks.Finalization{}), cb.OnAppEnd(ctx)); err != nil {
			t.Error(err)
		}
	}
}

// OnAppEnd shuts the provider down also if the start of the application was refused, but
// not if it is misplaced.
func TestEndOfARefusedApplication(t *testing.T) {
	for _, refused := range []bool{false, true} {
		ctx, backend := context.Background(), &closed{}
		tel, err := telemetry.NewTrainingTelemetryBuilder().WithLogger(quiet()).
			WithBaseConfig(config.Base{ApplicationName: "a", SessionTag: config.Value("s"), WorldSize: config.Value(1), ErrorStrategy: config.PropagateErrors}).
			WithSpanProcessor(backend).ConfigureProvider(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cb := callbacks.New(tel)
		if refused {
			if _, err := cb.OnAppStart(ctx, callbacks.Start{Time: time.Now().Add(-time.Hour)}); err == nil {
				t.Error("OnAppStart with an old time: no error, want one")
			}
		}
		_, s := tel.StartSpan(ctx, "open")
		if err := cb.OnAppEnd(ctx); err == nil {
			t.Errorf("refused %v: OnAppEnd without an application: no error, want one", refused)
		}
		if tel.Enabled() == refused || s.Active() == refused || (backend.times == 1) != refused {
			t.Errorf("refused %v: telemetry is on: %v, the span is open: %v, the output is closed: %d times", refused, tel.Enabled(), s.Active(), backend.times)
		}
		if err := tel.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}
}

// closed counts how often it is shut down.
type closed struct {
	sdktrace.SpanProcessor
	times int
}

func (*closed) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (*closed) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (*closed) ForceFlush(context.Context) error                { return nil }
func (c *closed) Shutdown(context.Context) error                { c.times++; return nil }
