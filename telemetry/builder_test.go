package telemetry_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func goexit() { runtime.Goexit() }

func TestBuilderCanBeCorrected(t *testing.T) {
	ctx := context.Background()
	first, second := &memory{}, &memory{startErr: errors.New("no such folder")}
	cfg := base()
	cfg.WorldSize = config.Value(0)
	b := telemetry.NewTrainingTelemetryBuilder().WithLogger(quietLog()).WithBaseConfig(cfg).WithExporter(first).WithExporter(second)
	if _, err := b.ConfigureProvider(ctx); err == nil || !strings.Contains(err.Error(), "world_size") {
		t.Fatalf("ConfigureProvider without a world size: %v, want an error that names world_size", err)
	}
	b.WithConfigOverride(func(b *config.Base) { b.WorldSize = config.Value(2) })
	if _, err := b.ConfigureProvider(ctx); err == nil || !strings.Contains(err.Error(), "no such folder") {
		t.Fatalf("ConfigureProvider with an exporter that cannot start: %v, want its error", err)
	}
	if first.started != 1 || first.shutdown != 1 {
		t.Errorf("first exporter: started %d times, shut down %d times; want once each", first.started, first.shutdown)
	}
	second.startErr = nil
	tel, err := b.ConfigureProvider(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := tel.Config().WorldSize.Get(); got != 2 {
		t.Errorf("the world size is %d, want 2", got)
	}
	check(t, tel.Shutdown(ctx))
	if _, err := b.ConfigureProvider(ctx); err == nil {
		t.Error("a used builder created a second provider, want an error")
	}
}

func TestBuilderReportsMisuse(t *testing.T) {
	b := telemetry.NewTrainingTelemetryBuilder().WithLogger(quietLog())
	if _, err := b.ConfigureProvider(context.Background()); err == nil || !strings.Contains(err.Error(), "no configuration was provided") {
		t.Errorf("ConfigureProvider without a configuration: %v, want an error", err)
	}
	b.WithBaseConfig(base()).WithBaseConfig(base()).
		WithExportCustomization(config.Export{}).WithExportCustomization(config.Export{})
	if _, err := b.ConfigureProvider(context.Background()); err == nil || strings.Count(err.Error(), "once") != 2 {
		t.Errorf(`ConfigureProvider after misuse: %v, want an error with "once" twice`, err)
	}
	tel, err := b.ConfigureProvider(context.Background())
	if err != nil {
		t.Fatalf("after Err returned its misuse, the builder still refuses: %v", err)
	}
	check(t, tel.Shutdown(context.Background()))
}

func TestConfigurationFunctionThatPanics(t *testing.T) {
	for name, change := range map[string]func(*config.Base){
		"world size":      func(c *config.Base) { c.WorldSize = config.Func(func() int { panic("not yet") }) },
		"session tag":     func(c *config.Base) { c.SessionTag = config.Func(func() string { panic("not yet") }) },
		"performance tag": func(c *config.Base) { c.Training.PerfTag = config.Func(func() string { panic("not yet") }) },
	} {
		cfg := base()
		change(&cfg)
		m := &memory{}
		tel, err := telemetry.NewTrainingTelemetryBuilder().WithLogger(quietLog()).WithBaseConfig(cfg).WithExporter(m).ConfigureProvider(context.Background())
		if tel != nil || err == nil || !strings.Contains(err.Error(), "not yet") || m.started != m.shutdown {
			t.Errorf(`%s that panics: %v, %d of %d outputs shut down; want its error "not yet" and all`, name, err, m.shutdown, m.started)
		}
	}
	j := newJob(t, func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) {
		calm := true
		c.Training.GlobalBatchSize = config.Func(func() int {
			if !calm {
				panic("gone")
			}
			calm = false
			return 1
		})
	})
	if _, err := j.cb.OnAppStart(j.ctx); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf(`OnAppStart: %v, want the error "gone"`, err)
	}
	if got := j.tel.Recorder().ActiveSpans("application"); len(got) != 1 {
		t.Error("the application is not open")
	}
}

func TestDisabledRankDoesNothing(t *testing.T) {
	ctx := context.Background()
	m := &memory{}
	p := &closing{}
	cfg := base()
	cfg.EnableForCurrentRank = config.Value(false)
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithLogger(quietLog()).WithBaseConfig(cfg).
		WithExporter(m).WithSpanProcessor(p).ConfigureProvider(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cb, attrs := callbacks.New(tel), []attribute.KeyValue{attribute.String("k", "v")}
	n := testing.AllocsPerRun(100, func() {
		if _, err := cb.OnTrainingSingleIterationStart(ctx); err != nil {
			t.Fatal(err)
		}
		if err := cb.OnTrainingSingleIterationEnd(ctx); err != nil {
			t.Fatal(err)
		}
		_, s := tel.Start(ctx, spans.ModelForward)
		s.End()
		_, s = tel.StartSpan(ctx, "x", attrs...)
		s.End()
		_, s = tel.StartSpanWith(ctx, "x", telemetry.SpanStart{})
		s.End()
	})
	if n != 0 {
		t.Errorf("a rank that is off allocates %v times, want 0", n)
	}
	check(t, tel.Shutdown(ctx))
	if m.started+len(m.records) != 0 {
		t.Errorf("exporter was called: %+v, want no call on a disabled rank", m)
	}
	if p.closed != 1 {
		t.Errorf("the span processor was shut down %d times, want 1", p.closed)
	}
}

// Telemetry that was switched off makes no spans, and a builder accepts no context.
func TestSwitchedOffTelemetryDoesNothing(t *testing.T) {
	var none context.Context
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithLogger(quietLog()).WithBaseConfig(base()).
		WithExporter(&memory{}).ConfigureProvider(none)
	check(t, err)
	ctx, outer := tel.Start(none, spans.Application)
	tracer := tel.Tracer("t")
	tel.ForceDisable()
	if n := testing.AllocsPerRun(100, func() {
		_, s := tel.StartSpan(ctx, "x")
		s.End()
	}); n != 0 {
		t.Errorf("telemetry that is off allocates %v times, want 0", n)
	}
	if _, s := tracer.Start(ctx, "x"); s.IsRecording() || !s.SpanContext().Equal(outer.SpanContext()) {
		t.Errorf("the tracer started %v, recording %v; want no span below %v", s.SpanContext(), s.IsRecording(), outer.SpanContext())
	}
	check(t, tel.Shutdown(context.Background()))
}

func TestNilProviderDoesNothing(t *testing.T) {
	ctx := context.Background()
	var tel *telemetry.Provider
	if n := testing.AllocsPerRun(100, func() {
		_, s := tel.Start(ctx, spans.TrainingIteration)
		s.SetLoss(1)
		s.AddEvent("x")
		s.End()
		_, _ = callbacks.Default().OnTrainingSingleIterationStart(ctx)
		_ = callbacks.Default().OnTrainingSingleIterationEnd(ctx)
	}); n != 0 {
		t.Errorf("no provider allocates %v times, want 0", n)
	}
	if err := tel.Shutdown(ctx); err != nil || tel.Enabled() {
		t.Error("a nil provider logged, want nothing")
	}
	_, s := tel.Tracer("x").Start(ctx, "y")
	s.End()
	if err := tel.TimedSpan(ctx, "z", func(context.Context) error { return errGone }); err != errGone {
		t.Errorf("TimedSpan() = %v, want %v", err, errGone)
	}
	if err := tel.Recorder().Close(ctx); !errors.Is(err, telemetry.ErrNotConfigured) {
		t.Errorf("got %v", err)
	}
}

var errGone = errors.New("gone")

// closing is a span processor that counts its shutdowns.
type closing struct {
	sdktrace.SpanProcessor
	closed int
}

func (c *closing) Shutdown(context.Context) error { c.closed++; return nil }

func TestDefaultProvider(t *testing.T) {
	j := newJob(t)
	undo := telemetry.SetDefault(j.tel)
	if _, err := callbacks.Default().OnAppStart(j.ctx); err != nil {
		t.Fatal(err)
	}
	if got := len(j.mem.all()); got == 0 {
		t.Error("the callbacks did not use the default provider")
	}
	undo()
	if telemetry.Default() != nil {
		t.Error("the undo function did not reset the default provider")
	}
}

func TestShutdownKeepsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		tel, err := telemetry.NewTrainingTelemetryBuilder().WithLogger(quietLog()).WithBaseConfig(base()).
			WithSpanExporter(&stuck{release: release}).WithShutdownTimeout(time.Second).
			ConfigureProvider(context.Background())
		check(t, err)
		_, s := tel.StartSpan(context.Background(), "x")
		s.End()
		start := time.Now()
		_ = tel.Shutdown(context.Background()) // would block without the deadline
		if took := time.Since(start); took > time.Second {
			t.Errorf("Shutdown took %v, want at most %v", took, time.Second)
		}
		if got := tel.Stats(); got.DroppedSpans != 1 || got.EndedSpans != 1 {
			t.Errorf("stats %+v, want 1 span ended and dropped", got)
		}
	})
}

// stuck is an exporter that never answers.
type stuck struct{ release chan struct{} }

func (s *stuck) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.release:
		return nil
	}
}
func (s *stuck) Shutdown(context.Context) error { return nil }

func TestResource(t *testing.T) {
	j := newJob(t, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) {
		b.WithRanks(config.Ranks{Rank: config.Value(3), LocalRank: config.Value(1)}).
			WithIdentity(telemetry.Identity{Host: "node7", PID: 42}).
			WithResource(resource.NewSchemaless(attribute.String("service.name", "mine")))
	})
	_, s := j.tel.StartSpan(j.ctx, "x")
	s.End()
	attrs := keyed(j.stub(t, "x").Resource.Attributes())
	for key, want := range map[string]any{
		"service.name": "mine", "host.name": "node7", "process.pid": int64(42), "service.instance.id": "node7/42/3",
		"training.rank": int64(3), "training.local_rank": int64(1), "training.world_size": int64(8),
		"training.session_tag": "s", "training.perf_tag": "p",
	} {
		if attrs[key] != want {
			t.Errorf("%s is %v, want %v", key, attrs[key], want)
		}
	}
	for key := range attrs {
		if strings.Contains(key, "command") || strings.Contains(key, "env") {
			t.Errorf("the resource has %s, want neither the command line nor the environment", key)
		}
	}
}

func TestIterationAllocations(t *testing.T) {
	ctx, cb := inLoop(t, func(*telemetry.TrainingTelemetryBuilder) {})
	for range 200 {
		iterate(t, ctx, cb)
	}
	before := testing.AllocsPerRun(49, func() { iterate(t, ctx, cb) })
	for range 100_000 {
		iterate(t, ctx, cb)
	}
	after := testing.AllocsPerRun(49, func() { iterate(t, ctx, cb) })
	most := 2.0
	if raceEnabled {
		most++
	}
	if before > most || after > before {
		t.Errorf("an iteration allocates %v times, want at most %v; %v after 100,000 more", before, most, after)
	}
}

// What a span exporter adds to an iteration: the SDK's span with its options and attributes.
func TestExportedIterationAllocations(t *testing.T) {
	ctx, cb := inLoop(t, func(b *telemetry.TrainingTelemetryBuilder) {
		b.WithSpanExporter(takesAll{}).WithExportCustomization(config.Export{Mode: config.ExportAll}).
			WithTraces(config.Traces{Budget: -1})
	})
	for range 5000 {
		iterate(t, ctx, cb)
	}
	least := 100.0 // the exporter's goroutine also allocates
	for range 20 {
		least = min(least, testing.AllocsPerRun(49, func() { iterate(t, ctx, cb) }))
	}
	most := 6.0
	if raceEnabled { // its pools lose entries
		most += 3
	}
	if least > most {
		t.Errorf("an iteration for a span exporter allocates %v times, want at most %v", least, most)
	}
}

// A framework with hooks starts everything with one context, of any type: the
// context that a span was started with must not be mistaken for another one.
func TestSpansOfOneContext(t *testing.T) {
	type key struct{}
	odd := uncomparable{context.WithValue(t.Context(), key{}, 1), nil}
	for _, ctx := range []context.Context{context.Background(), t.Context(), odd} {
		seen := &seesContext{key: key{}}
		ctx, cb := inLoopOf(t, ctx, func(b *telemetry.TrainingTelemetryBuilder) { b.WithSpanProcessor(seen) })
		for i := range 3 {
			iterate(t, ctx, cb)
			if seen.parent != "training_loop" || seen.value != ctx.Value(key{}) {
				t.Errorf("iteration %d has parent %q and value %v, want training_loop and %v", i, seen.parent, seen.value, ctx.Value(key{}))
			}
		}
		iterate(t, context.WithValue(ctx, key{}, 2), cb)
		if seen.parent != "training_loop" || seen.value != 2 {
			t.Errorf("iteration of another context has parent %q and value %v, want training_loop and 2", seen.parent, seen.value)
		}
	}
}

type uncomparable struct {
	context.Context
	_ func()
}

// seesContext keeps the contexts that spans are started with.
type seesContext struct {
	key    any
	value  any
	parent string
	names  map[trace.SpanID]string
}

func (s *seesContext) OnEnd(sdktrace.ReadOnlySpan)      {}
func (s *seesContext) Shutdown(context.Context) error   { return nil }
func (s *seesContext) ForceFlush(context.Context) error { return nil }

func (s *seesContext) OnStart(ctx context.Context, sp sdktrace.ReadWriteSpan) {
	if s.names == nil {
		s.names = make(map[trace.SpanID]string)
	}
	s.names[sp.SpanContext().SpanID()] = sp.Name()
	s.value, s.parent = ctx.Value(s.key), s.names[sp.Parent().SpanID()]
}

func TestMemoryStaysFlat(t *testing.T) {
	ctx, cb := inLoop(t, func(b *telemetry.TrainingTelemetryBuilder) {
		b.WithConfigOverride(func(b *config.Base) { b.Training.LogEveryNTrainIterations = config.Value(1) })
	})
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range 1000 {
		iterate(t, ctx, cb)
	}
	before := live()
	for range 20_000 { // as many updates as a million iterations at the default
		iterate(t, ctx, cb)
	}
	if after := live(); after > before+1<<20 {
		t.Errorf("20,000 metrics updates left %d bytes behind, want at most 1 MiB", after-before)
	}
}
