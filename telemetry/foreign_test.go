package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// foreign is all code of a program that telemetry calls. Each function calls
// hook once it is armed: never within itself, and not forever, because an
// output that records something for each record would never end.
type foreign struct {
	armed  atomic.Bool
	inside atomic.Int32
	times  atomic.Int32
	called atomic.Pointer[map[string]bool]
	only   string // the only function that calls hook
	hook   func()
}

func (f *foreign) call(where string) {
	if !f.armed.Load() || f.only != where || f.times.Add(1) > 20 || !f.inside.CompareAndSwap(0, 1) {
		return
	}
	defer f.inside.Store(0)
	was := *f.called.Load()
	now := map[string]bool{where: true}
	for k := range was {
		now[k] = true
	}
	f.called.Store(&now)
	f.hook()
}

var foreignPlaces = []string{
	"error", "error type", "error is", "config", "clock", "log", "span start", "span event", "span stop",
	"inline export", "queued export", "stats", "processor start", "processor end", "sampler",
}

type foreignError struct{ f *foreign }

func (e *foreignError) Error() string     { e.f.call("error"); return "foreign" }
func (e *foreignError) ErrorType() string { e.f.call("error type"); return "foreign" }
func (e *foreignError) Is(error) bool     { e.f.call("error is"); return false }

type foreignHandler struct{ f *foreign }

func (h foreignHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (h foreignHandler) Handle(context.Context, slog.Record) error { h.f.call("log"); return nil }
func (h foreignHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h foreignHandler) WithGroup(string) slog.Handler             { return h }

type foreignOutput struct {
	outputs.None
	f      *foreign
	inline bool
}

func (o *foreignOutput) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Snapshots: true, Ordered: true, All: true, Inline: o.inline}, nil
}
func (o *foreignOutput) Stats() outputs.Stats { o.f.call("stats"); return outputs.Stats{} }
func (o *foreignOutput) Write(records []outputs.Record) error {
	if r := &records[0]; r.Snapshot != nil {
		o.f.call("span " + r.Kind.String())
	} else if o.inline {
		o.f.call("inline export")
	} else {
		o.f.call("queued export")
	}
	return nil
}

type foreignProcessor struct{ f *foreign }

func (p foreignProcessor) OnStart(context.Context, sdktrace.ReadWriteSpan) {
	p.f.call("processor start")
}
func (p foreignProcessor) OnEnd(sdktrace.ReadOnlySpan)    { p.f.call("processor end") }
func (foreignProcessor) ForceFlush(context.Context) error { return nil }
func (foreignProcessor) Shutdown(context.Context) error   { return nil }

type foreignSampler struct {
	sdktrace.Sampler
	f *foreign
}

func (s foreignSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	s.f.call("sampler")
	return s.Sampler.ShouldSample(p)
}

// newForeign makes a provider that calls the program in all possible places.
func newForeign(t *testing.T, f *foreign) (*telemetry.Provider, *memory) {
	t.Helper()
	f.called.Store(&map[string]bool{})
	cfg := base()
	cfg.Training.GlobalBatchSize = config.Func(func() int { f.call("config"); return 64 })
	mem := &memory{}
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(cfg).WithLogger(slog.New(foreignHandler{f})).
		WithClock(func() time.Time { f.call("clock"); return time.Now() }).
		WithExporter(mem).WithExporter(&foreignOutput{f: f, inline: true}).WithExporter(&foreignOutput{f: f}).
		WithSpanProcessor(foreignProcessor{f}).WithSampler(foreignSampler{sdktrace.AlwaysSample(), f}).
		WithMeterProvider(noop.NewMeterProvider()).
		ConfigureProvider(context.Background())
	check(t, err)
	return tel, mem
}

// train runs a short training that calls every kind of foreign code.
func train(tel *telemetry.Provider, f *foreign) {
	ctx := context.Background()
	cb := callbacks.New(tel)
	_, _ = cb.OnAppStart(ctx)
	_, _ = cb.OnTrainStart(ctx, callbacks.TrainStart{})
	for range 3 {
		_, _ = cb.OnTrainingSingleIterationStart(ctx)
		_ = tel.Run(ctx, spans.ModelForward, func(ctx context.Context) error {
			ctx, s := tel.StartSpan(ctx, "inner")
			trace.SpanFromContext(ctx).AddEvent("tick")
			s.EndWith(telemetry.End{Err: &foreignError{f}})
			return &foreignError{f}
		})
		_ = cb.OnTrainingSingleIterationEnd(ctx)
	}
	_ = cb.OnTrainingSingleIterationEnd(ctx) // misuse, which is logged
	_ = tel.Recorder().Error(tel.Recorder().Current(), "broken", &foreignError{f})
	_ = tel.Stats()
	_ = cb.OnTrainEnd(ctx)
	_ = cb.OnAppEnd(ctx)
}

// Code of the program that telemetry calls may use telemetry, because no lock
// is held.
func TestForeignCodeMayUseTelemetry(t *testing.T) {
	for _, place := range foreignPlaces {
		t.Run(place, func(t *testing.T) {
			f := &foreign{only: place}
			tel, mem := newForeign(t, f)
			f.hook = func() {
				_ = tel.Stats()
				ctx, s := tel.StartSpan(context.Background(), "from foreign code")
				s.SetAttributes()
				s.AddEvent("x")
				_, inner := tel.Tracer("t").Start(ctx, "inner from foreign code")
				inner.End()
				s.End()
				_ = tel.Recorder().ActiveSpans("")
			}
			f.armed.Store(true)
			train(tel, f)
			check(t, tel.Shutdown(context.Background()))
			if !(*f.called.Load())[place] {
				t.Fatal("the foreign code was not called here")
			}
			if n := len(mem.events(spans.EventTrainingMetricsUpdate)); n != 2 {
				t.Errorf("%d metrics updates are recorded, want 2", n)
			}
		})
	}
}

// A panic is contained: the run is recorded as without it.
func TestForeignCodeThatPanics(t *testing.T) {
	for _, place := range foreignPlaces {
		t.Run(place, func(t *testing.T) {
			f := &foreign{only: place, hook: func() { panic("foreign") }}
			tel, mem := newForeign(t, f)
			f.armed.Store(true)
			train(tel, f)
			f.armed.Store(false)
			check(t, tel.Shutdown(context.Background()))
			if !(*f.called.Load())[place] {
				t.Fatal("the foreign code was not called here")
			}
			stops := 0
			for _, k := range mem.kinds() {
				if strings.HasPrefix(k, "stop") {
					stops++
				}
			}
			// The application, the loop and three inner spans; those of single iterations
			// are left out of the records.
			want := 5
			if place == "config" {
				want-- // the loop cannot start without its configuration
			}
			if stops != want {
				t.Errorf("%d spans were stopped, want %d: %v", stops, want, mem.kinds())
			}
		})
	}
}

// Code that blocks only delays the call that called it.
func TestForeignCodeThatBlocks(t *testing.T) {
	for _, place := range foreignPlaces {
		t.Run(place, func(t *testing.T) {
			entered, release := make(chan struct{}, 1), make(chan struct{})
			f := &foreign{only: place, hook: func() {
				select {
				case entered <- struct{}{}:
				default:
				}
				<-release
			}}
			tel, mem := newForeign(t, f)
			f.armed.Store(true)
			done := make(chan struct{})
			go func() {
				defer close(done)
				train(tel, f)
			}()
			<-entered
			if place == "queued export" { // see TestOutputThatHangsForEver
				close(release)
				<-done
				check(t, tel.Shutdown(context.Background()))
				return
			}
			before := tel.Stats().SpansStarted
			for range 10 { // would block if a lock were held
				_, s := tel.StartSpan(context.Background(), "meanwhile")
				s.Fail(errors.New("x"))
				s.End()
			}
			if n := tel.Stats().SpansStarted - before; n != 10 {
				t.Errorf("%d spans were started meanwhile, want 10", n)
			}
			close(release)
			<-done
			check(t, tel.Shutdown(context.Background()))
			if len(mem.all()) == 0 {
				t.Error("no record, want some")
			}
		})
	}
}

// A function for the interval of metrics that returns an invalid value later
// causes no division by zero, and the loop continues.
func TestIntervalThatBecomesZero(t *testing.T) {
	for _, later := range []int{0, -3} {
		n := 2
		j := newJob(t, func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) {
			c.Training.LogEveryNTrainIterations = config.Func(func() int { return n })
		})
		started(t)(j.cb.OnAppStart(j.ctx))
		started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{}))
		j.iteration(t, time.Second)
		n = later
		for range 3 {
			j.iteration(t, time.Second)
		}
		check(t, j.cb.OnTrainEnd(j.ctx))
		check(t, j.cb.OnAppEnd(j.ctx))
		if got := len(j.mem.events(spans.EventTrainingMetricsUpdate)); got != 3 {
			t.Errorf("interval %d: %d updates, want 3", later, got)
		}
	}
}

// The functions of a later training configuration may panic too.
func TestLateConfigurationThatPanics(t *testing.T) {
	j := newJob(t, func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) { c.Training = nil })
	started(t)(j.cb.OnAppStart(j.ctx))
	late := training()
	late.GlobalBatchSize = config.Func(func() int { panic("not yet") })
	if err := j.tel.SetTrainingConfig(*late); err == nil || !strings.Contains(err.Error(), "not yet") {
		t.Errorf(`SetTrainingConfig: %v, want the error "not yet"`, err)
	}
	check(t, j.tel.SetTrainingConfig(*training()))
	started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{}))
}
