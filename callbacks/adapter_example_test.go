package callbacks_test

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/telemetry"
)

// trainer is third-party code: it has hooks, and reports errors only to its
// caller.
type trainer struct {
	onStart, onEnd func()
	onStep         func(step int, loss float64) error
}

func (t *trainer) run(data iter.Seq[int]) error {
	t.onStart()
	step := 0
	for batch := range data {
		if batch == 3 {
			return errors.New("a batch that cannot be trained on")
		}
		if err := t.onStep(step, 1/float64(batch)); err != nil {
			return err
		}
		step++
	}
	t.onEnd()
	return nil
}

// An adapter for a trainer with hooks: the loop ends when the trainer reports
// it, or when it stops reading data.
func Example_adapter() {
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "any", SessionTag: config.Value("x"), WorldSize: config.Value(1)}).
		WithTrainingConfig(config.Training{PerfTag: config.Value("small"), GlobalBatchSize: config.Value(1)}).
		WithExporter(names{}).
		WithExportCustomization(config.Export{Mode: config.ExportAll}).
		ConfigureProvider(context.Background())
	if err != nil {
		panic(err)
	}
	ctx, t, data := context.Background(), &trainer{}, func(yield func(int) bool) {
		_ = yield(1) && yield(2) && yield(3)
	}

	// snippet:adapter
	cb, cut := callbacks.New(tel), errors.New("the loop was left in the middle")
	t.onStart = func() { cb.OnTrainStart(ctx, callbacks.TrainStart{IterationsStart: 0}) }
	t.onEnd = func() { cb.OnTrainEnd(ctx) }
	inStep, whole := false, false
	t.onStep = func(_ int, loss float64) error {
		inStep = false
		cb.OnTrainingSingleIterationEnd(ctx, callbacks.IterationEnd{Loss: callbacks.Some(loss)})
		return nil // an error of telemetry must not end the training
	}
	watched := func(yield func(int) bool) {
		defer func() { // the trainer returned an error or panicked
			if inStep {
				cb.OnTrainingSingleIterationEnd(ctx, callbacks.IterationEnd{Err: cut})
			}
			if !whole {
				cb.OnTrainEnd(ctx, callbacks.End{Err: cut})
			}
		}()
		cb.OnDataLoadingStart(ctx)
		for batch := range data {
			cb.OnDataLoadingEnd(ctx)
			cb.OnTrainingSingleIterationStart(ctx)
			if inStep = true; !yield(batch) {
				return
			}
			cb.OnDataLoadingStart(ctx)
		}
		cb.OnDataLoadingEnd(ctx)
		whole = true
	}
	// end:adapter
	cb.OnAppStart(ctx)
	err = t.run(watched)
	fmt.Println(err)
	cb.OnAppEnd(ctx, callbacks.End{Err: err})
	// Output:
	// stop data_loading
	// stop training_single_iteration
	// stop data_loading
	// stop training_single_iteration
	// stop data_loading
	// stop training_single_iteration
	// stop training_loop
	// a batch that cannot be trained on
	// stop application
}
