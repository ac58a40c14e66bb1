package callbacks_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// names is an exporter that prints the names of stopped spans.
type names struct{ outputs.None }

func (names) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Ordered: true, Inline: true}, nil
}

func (names) Write(records []outputs.Record) error {
	r := &records[0]
	if r.Kind == outputs.KindStop {
		fmt.Println("stop", r.Span.Name)
	}
	return nil
}

// The callbacks of the process's default provider, as the hooks of a framework
// call them, without passing a context on.
func Example() {
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "charlm", SessionTag: config.Value("run-42"), WorldSize: config.Value(1)}).
		WithTrainingConfig(config.Training{PerfTag: config.Value("small"), GlobalBatchSize: config.Value(32)}).
		WithExporter(names{}).
		WithExportCustomization(config.Export{Mode: config.ExportAll}).
		ConfigureProvider(context.Background())
	if err != nil {
		panic(err)
	}
	defer telemetry.SetDefault(tel)()

	ctx := context.Background()
	// snippet:callbacks
	cb := callbacks.Default()
	cb.OnAppStart(ctx)
	cb.OnTrainStart(ctx, callbacks.TrainStart{IterationsStart: 0})
	for range 2 {
		cb.OnTrainingSingleIterationStart(ctx)
		cb.OnModelForwardStart(ctx)
		cb.OnModelForwardEnd(ctx)
		cb.OnTrainingSingleIterationEnd(ctx, callbacks.IterationEnd{Loss: callbacks.Some(0.5)})
	}
	cb.OnSaveCheckpointStart(ctx, callbacks.SaveStart{GlobalStep: 2})
	cb.OnSaveCheckpointSuccess(ctx, callbacks.SaveSuccess{GlobalStep: 2})
	cb.OnSaveCheckpointEnd(ctx)
	cb.OnTrainEnd(ctx)
	cb.OnAppEnd(ctx)
	// end:callbacks
	// Output:
	// stop model_forward
	// stop training_single_iteration
	// stop model_forward
	// stop training_single_iteration
	// stop checkpoint_save_sync
	// stop training_loop
	// stop application
}

// With the strategy that propagates errors, a call at the wrong time returns an
// error. It is not a reason to stop training.
func ExampleCallbacks_OnValidationEnd() {
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "charlm", SessionTag: config.Value("run-42"), WorldSize: config.Value(1)}).
		WithExporter(names{}).
		WithLogger(quiet()).
		ConfigureProvider(context.Background())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer tel.Shutdown(ctx)
	cb := callbacks.New(tel)
	fmt.Println(cb.OnValidationEnd(ctx, callbacks.End{Err: errors.New("interrupted")}))
	// Output:
	// Expected to have one and only one span named validation_loop but found 0.
}
