package telemetry_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/telemetry"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// benchmarkConfig returns a job with throughput on and metrics every 50 iterations.
func benchmarkConfig() config.Base {
	return config.Base{
		ApplicationName: "bench", SessionTag: config.Value("s"), WorldSize: config.Value(8),
		Training: &config.Training{
			PerfTag: config.Value("p"), GlobalBatchSize: config.Value(64), SeqLength: config.Value(2048),
			FlopsPerSample: config.Value(1250000000000), IsLogThroughputEnabled: config.Value(true),
			TrainIterationsTarget: config.Value(1 << 40), TrainSamplesTarget: config.Value(1 << 46),
		},
	}
}

// inLoop returns callbacks inside a training loop.
func inLoop(tb testing.TB, with func(*telemetry.TrainingTelemetryBuilder)) (context.Context, *callbacks.Callbacks) {
	tb.Helper()
	return inLoopOf(tb, context.Background(), with)
}

// inLoopOf is inLoop with a given context.
func inLoopOf(tb testing.TB, ctx context.Context, with func(*telemetry.TrainingTelemetryBuilder)) (context.Context, *callbacks.Callbacks) {
	tb.Helper()
	b := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(benchmarkConfig()).WithLogger(quietLog())
	with(b)
	tel, err := b.ConfigureProvider(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := tel.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	cb := callbacks.New(tel)
	if _, err := cb.OnAppStart(ctx); err != nil {
		tb.Fatal(err)
	}
	if _, err := cb.OnTrainStart(ctx, callbacks.TrainStart{}); err != nil {
		tb.Fatal(err)
	}
	return ctx, cb
}

func iterate(tb testing.TB, ctx context.Context, cb *callbacks.Callbacks) {
	if _, err := cb.OnTrainingSingleIterationStart(ctx); err != nil {
		tb.Fatal(err)
	}
	if err := cb.OnTrainingSingleIterationEnd(ctx); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkTwoBareSpans is the baseline of the iteration benchmarks: two spans
// of the OpenTelemetry SDK without any processor.
func BenchmarkTwoBareSpans(b *testing.B) {
	b.ReportAllocs()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()))
	tracer := tp.Tracer("bench")
	ctx := context.Background()
	for b.Loop() {
		for range 2 {
			_, s := tracer.Start(ctx, "training_single_iteration")
			s.End()
		}
	}
}

// BenchmarkIteration measures one start and end of a training iteration.
func BenchmarkIteration(b *testing.B) {
	exportAll := config.Export{Mode: config.ExportAll}
	for _, c := range []struct {
		name string
		with func(*telemetry.TrainingTelemetryBuilder)
	}{
		{"nothing exported", func(b *telemetry.TrainingTelemetryBuilder) {}},
		{"file, iterations left out", func(t *telemetry.TrainingTelemetryBuilder) {
			t.WithExporter(file.New(filepath.Join(b.TempDir(), "t.jsonl"), nil))
		}},
		{"file", func(t *telemetry.TrainingTelemetryBuilder) {
			t.WithExporter(file.New(filepath.Join(b.TempDir(), "t.jsonl"), nil)).WithExportCustomization(exportAll)
		}},
		{"trace file", func(t *telemetry.TrainingTelemetryBuilder) {
			trace, err := pfw.Create(filepath.Join(b.TempDir(), "t.pfw.gz"), nil)
			if err != nil {
				b.Fatal(err)
			}
			t.WithSpanProcessor(trace)
		}},
		{"compatible file", func(t *telemetry.TrainingTelemetryBuilder) {
			t.WithExporter(file.New(filepath.Join(b.TempDir(), "t.jsonl"), &file.Options{Compat: true})).
				WithExportCustomization(exportAll)
		}},
		{"span exporter, one trace", func(t *telemetry.TrainingTelemetryBuilder) {
			t.WithSpanExporter(takesAll{}).WithExportCustomization(exportAll).WithTraces(config.Traces{Budget: -1})
		}},
		{"span exporter, full traces", func(t *telemetry.TrainingTelemetryBuilder) {
			t.WithSpanExporter(takesAll{}).WithExportCustomization(exportAll)
		}},
		{"span exporter, a trace for ten iterations", func(t *telemetry.TrainingTelemetryBuilder) {
			t.WithSpanExporter(takesAll{}).WithExportCustomization(exportAll).
				WithTraces(config.Traces{Split: config.TracePerWindow, Window: 10})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx, cb := inLoop(b, c.with)
			b.ReportAllocs()
			for b.Loop() {
				iterate(b, ctx, cb)
			}
		})
	}
}

// takesAll is a backend that accepts all spans at no cost.
type takesAll struct{}

func (takesAll) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (takesAll) Shutdown(context.Context) error                             { return nil }

// BenchmarkIterationAfter100000Updates is BenchmarkIteration in a loop that has
// recorded 100,000 metrics updates: the cost must be the same.
func BenchmarkIterationAfter100000Updates(b *testing.B) {
	c := benchmarkConfig()
	c.Training.LogEveryNTrainIterations = config.Value(1)
	ctx, cb := inLoop(b, func(t *telemetry.TrainingTelemetryBuilder) {
		t.WithConfigOverride(func(b *config.Base) { b.Training.LogEveryNTrainIterations = config.Value(50) })
	})
	for range 50 * 100_000 {
		iterate(b, ctx, cb)
	}
	b.ReportAllocs()
	for b.Loop() {
		iterate(b, ctx, cb)
	}
}
