package bench

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/telemetry"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Names of the cases of one start and end of a training iteration.
const (
	TwoBareSpans      = "two SDK spans, no attributes, no processor"
	Iteration         = "iteration, nothing exported"
	IterationLeftOut  = "iteration, JSON lines without iterations (the default)"
	IterationLines    = "iteration, JSON lines"
	IterationTrace    = "iteration, trace file"
	IterationExporter = "iteration, span exporter"
)

// Iterations lists the cases of one start and end of a training iteration.
func Iterations() []Case {
	all := config.Export{Mode: config.ExportAll}
	return []Case{
		{Name: TwoBareSpans, Setup: twoBareSpans},
		{Name: Iteration, Setup: iterationCase(func(*telemetry.TrainingTelemetryBuilder, string) {})},
		{Name: IterationLeftOut, Setup: iterationCase(func(b *telemetry.TrainingTelemetryBuilder, dir string) {
			b.WithExporter(file.New(filepath.Join(dir, "records.jsonl"), nil))
		})},
		{Name: IterationLines, Setup: iterationCase(func(b *telemetry.TrainingTelemetryBuilder, dir string) {
			b.WithExporter(file.New(filepath.Join(dir, "records.jsonl"), nil)).WithExportCustomization(all)
		})},
		{Name: IterationTrace, Setup: iterationCase(func(b *telemetry.TrainingTelemetryBuilder, dir string) {
			b.WithExporter(pfw.New(filepath.Join(dir, "trace.pfw.gz"), nil))
		})},
		{Name: IterationExporter, Setup: iterationCase(func(b *telemetry.TrainingTelemetryBuilder, dir string) {
			b.WithSpanExporter(takesAll{}).WithExportCustomization(all).WithTraces(config.Traces{Budget: -1})
		})},
	}
}

// takesAll is a backend that accepts spans without cost.
type takesAll struct{}

func (takesAll) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (takesAll) Shutdown(context.Context) error                             { return nil }

// twoBareSpans returns the baseline of the iterations.
func twoBareSpans(string) (func(int), func() error, error) {
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()))
	tracer := tp.Tracer("github.com/trainspan/trainspan/benchmarks")
	ctx := context.Background()
	return func(n int) {
		for range 2 * n {
			_, s := tracer.Start(ctx, "training_single_iteration")
			s.End()
		}
	}, func() error { return tp.Shutdown(ctx) }, nil
}

// iterationCase returns a pair of callbacks in a training loop with throughput
// on and metrics every 50 iterations.
func iterationCase(with func(*telemetry.TrainingTelemetryBuilder, string)) func(string) (func(int), func() error, error) {
	return func(dir string) (func(int), func() error, error) {
		own, err := os.MkdirTemp(dir, "iteration")
		if err != nil {
			return nil, nil, err
		}
		b := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(config.Base{
			ApplicationName: "benchmarks", SessionTag: config.Value("b"), WorldSize: config.Value(8),
			Training: &config.Training{
				PerfTag: config.Value("p"), GlobalBatchSize: config.Value(64), SeqLength: config.Value(2048),
				FlopsPerSample: config.Value(1250000000000), IsLogThroughputEnabled: config.Value(true),
				TrainIterationsTarget: config.Value(1 << 40), TrainSamplesTarget: config.Value(1 << 46),
			},
		}).WithRanks(config.Ranks{}).WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
		with(b, own)
		ctx := context.Background()
		tel, err := b.ConfigureProvider(ctx)
		if err != nil {
			return nil, nil, err
		}
		cb := callbacks.New(tel)
		if _, err = cb.OnAppStart(ctx); err == nil {
			_, err = cb.OnTrainStart(ctx, callbacks.TrainStart{})
		}
		if err != nil {
			return nil, nil, err
		}
		return func(n int) {
			for range n {
				_, _ = cb.OnTrainingSingleIterationStart(ctx)
				_ = cb.OnTrainingSingleIterationEnd(ctx)
			}
		}, func() error { return tel.Shutdown(ctx) }, nil
	}
}
