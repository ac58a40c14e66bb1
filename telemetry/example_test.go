package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// printer is an exporter of native records that prints them.
type printer struct{ outputs.None }

func (printer) Attach(context.Context, *outputs.Telemetry) (outputs.Wants, error) {
	return outputs.Wants{Records: true, Inline: true}, nil
}

func (printer) Export(r *outputs.Record) error {
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

// A scope with a handle: started by a Start method, ended by End with what
// went wrong, if anything did.
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

// A scope around a function. Its error is recorded and comes back unchanged.
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
