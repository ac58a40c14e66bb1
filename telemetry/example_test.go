package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
)

// printer is an exporter of native records that prints them.
type printer struct{ outputs.None }

func (printer) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Ordered: true, Inline: true}, nil
}

func (printer) Write(records []outputs.Record) error {
	r := &records[0]
	switch r.Kind {
	case outputs.KindStart, outputs.KindStop:
		fmt.Println(r.Kind, r.Span.Name)
	default:
		fmt.Println(r.Kind, r.Event.Name)
	}
	return nil
}

func exampleProvider() *telemetry.Provider {
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "charlm", SessionTag: config.Value("run-42"), WorldSize: config.Value(1)}).
		WithTrainingConfig(config.Training{
			PerfTag: config.Value("small"), GlobalBatchSize: config.Value(32), LogEveryNTrainIterations: config.Value(2),
		}).
		WithExporter(printer{}).
		WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))).
		ConfigureProvider(context.Background())
	if err != nil {
		panic(err)
	}
	return tel
}

// A scope with a handle: started by a Start method, ended by End or EndErr.
func Example() {
	ctx := context.Background()
	tel := exampleProvider()
	defer tel.Shutdown(ctx)

	ctx, loop := tel.Start(ctx, spans.TrainingLoop, telemetry.LoopStart{})
	for range 2 {
		_, it := tel.Start(ctx, spans.TrainingIteration)
		it.SetLoss(0.5)
		it.End()
	}
	loop.End()
	// Output:
	// start training_loop
	// event training_metrics_update
	// stop training_loop
}

// A span for a function call, with others below it: the context carries the
// parent. An error of the function is recorded and returned unchanged.
func ExampleProvider_Run() {
	ctx := context.Background()
	tel := exampleProvider()
	defer tel.Shutdown(ctx)

	trainOn := func(batch int) (loss float64, err error) { return 1 / float64(batch+1), nil }
	// snippet:run
	err := tel.Run(ctx, spans.TrainingLoop, func(ctx context.Context) error {
		for batch := range 2 {
			err := tel.Run(ctx, spans.TrainingIteration, func(ctx context.Context) error {
				_, forward := tel.Start(ctx, spans.ModelForward)
				loss, err := trainOn(batch) // your model
				forward.EndErr(&err)
				telemetry.FromContext(ctx).SetLoss(loss)
				return err
			})
			if err != nil {
				return err
			}
		}
		return tel.Run(ctx, spans.CheckpointSave, func(context.Context) error {
			return errors.New("disk full")
		}, telemetry.SaveStart{GlobalStep: 2})
	}, telemetry.LoopStart{IterationsStart: 0})
	// end:run
	fmt.Println(err)
	// Output:
	// start training_loop
	// event training_metrics_update
	// start checkpoint_save_sync
	// application_error save_checkpoint_failure
	// event sync_checkpoint_metrics_update
	// stop checkpoint_save_sync
	// stop training_loop
	// disk full
}

// A scope around a function. Its error is recorded and returned unchanged.
func ExampleProvider_TimedSpan() {
	ctx := context.Background()
	tel := exampleProvider()
	defer tel.Shutdown(ctx)

	err := tel.TimedSpan(ctx, "tokenize", func(ctx context.Context) error {
		return errors.New("no such file")
	})
	fmt.Println(err)
	// Output:
	// start tokenize
	// application_error error
	// stop tokenize
	// no such file
}

// Spans of the plain OpenTelemetry API reach the same exporters.
func ExampleProvider_Tracer() {
	ctx := context.Background()
	tel := exampleProvider()
	defer tel.Shutdown(ctx)

	ctx, app := tel.Start(ctx, spans.Application)
	_, span := tel.Tracer("my/loader").Start(ctx, "download shard")
	span.AddEvent("retry")
	span.End()
	app.End()
	// Output:
	// start application
	// event one_logger_initialization
	// event update_training_telemetry_config
	// start download shard
	// event retry
	// stop download shard
	// stop application
}

// The program sets every output itself: a trace and a file of JSON lines.
func ExampleNewTrainingTelemetryBuilder() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	lines, trace := filepath.Join(dir, "telemetry.jsonl"), filepath.Join(dir, "trace.pfw.gz")

	// snippet:builder
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "charlm", SessionTag: config.Value("run-42"), WorldSize: config.Value(1)}).
		WithTrainingConfig(config.Training{PerfTag: config.Value("small"), GlobalBatchSize: config.Value(32)}).
		WithExporter(file.New(lines, nil)).
		WithExporter(pfw.New(trace, nil)).
		ConfigureProvider(ctx)
	// end:builder
	if err != nil {
		panic(err)
	}
	ctx, loop := tel.Start(ctx, spans.TrainingLoop, telemetry.LoopStart{IterationsStart: 0})
	for i := range 10 {
		_, step := tel.Start(ctx, spans.TrainingIteration)
		step.SetLoss(1 / float64(i+1))
		step.End()
	}
	loop.End()
	if err := tel.Shutdown(ctx); err != nil {
		panic(err)
	}

	report, err := dftracer.ValidateFile(trace, nil)
	fmt.Println(report.Counts["pipeline/train.iteration/X"], "iterations in the trace, error", err, report.Err())
	records, err := os.ReadFile(lines)
	fmt.Println(bytes.Count(records, []byte("training_metrics_update")), "metrics update in the file, error", err)
	// Output:
	// 10 iterations in the trace, error <nil> <nil>
	// 1 metrics update in the file, error <nil>
}

// A program that gets everything from elsewhere: the time, its identity, the
// parent of its run and, later, its training configuration.
func ExampleTrainingTelemetryBuilder() {
	ctx, now := context.Background(), time.Unix(1_700_000_000, 0)
	above := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "charlm", SessionTag: config.Value("run-42")}).
		WithIdentity(telemetry.Identity{Host: "node-7", Ranks: config.Ranks{Rank: config.Value(3), WorldSize: config.Value(8)}}).
		WithResource(resource.NewSchemaless(attribute.String("zone", "b"))).
		WithMeterProvider(noop.NewMeterProvider()).
		WithClock(func() time.Time { return now }).
		WithParent(above).
		WithExporter(printer{}).
		ConfigureProvider(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer telemetry.SetDefault(tel)()
	_, app := telemetry.Default().Start(ctx, spans.Application)
	fmt.Println(app.SpanContext().TraceID() == above.TraceID())
	now = now.Add(time.Minute)
	_, copying := tel.StartSpanWith(ctx, "copy", telemetry.SpanStart{
		Time: now.Add(-10 * time.Second), Parent: app, Attributes: attributes.From(attribute.Int("bytes", 1<<20)),
	})
	copying.EndWith(telemetry.End{Err: errors.New("disk full")})
	err = tel.SetTrainingConfig(config.Training{PerfTag: config.Value("small"), GlobalBatchSize: config.Value(32)})
	app.End()
	fmt.Println(err, tel.Shutdown(ctx), errors.Is(copying.Err(), telemetry.ErrClosed))
	// Output:
	// start application
	// event one_logger_initialization
	// true
	// start copy
	// application_error error
	// stop copy
	// event update_training_telemetry_config
	// stop application
	// <nil> <nil> false
}
