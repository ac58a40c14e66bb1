package main

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/examples/charlm/internal/checkpoint"
	"github.com/trainspan/trainspan/examples/charlm/internal/data"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// runScopes is the job with a scope around every phase: a function that lasts
// as long as its span, or a span with an End. A provider that is nil makes all
// of it plain function calls.
func runScopes(ctx context.Context, t *trainer) error {
	return t.tel.Run(ctx, spans.Application, func(ctx context.Context) error {
		// The writer's last checkpoint belongs to the application too.
		return errors.Join(jobScopes(ctx, t, epochScopes), t.close())
	})
}

func jobScopes(ctx context.Context, t *trainer, epoch func(context.Context, *trainer) error) error {
	if err := t.tel.Run(ctx, spans.DistributedInit, t.initDistributed); err != nil {
		return err
	}
	if err := t.tel.Run(ctx, spans.DataLoaderInit, t.prepareData); err != nil {
		return err
	}
	if err := t.tel.Run(ctx, spans.ModelInit, t.initModel); err != nil {
		return err
	}
	if err := t.tel.Run(ctx, spans.OptimizerInit, t.initOptimizer); err != nil {
		return err
	}
	if err := t.tel.Run(ctx, spans.CheckpointLoad, t.loadCheckpoint); err != nil {
		return err
	}
	err := t.tel.Run(ctx, spans.TrainingLoop, func(ctx context.Context) error { return trainScopes(ctx, t, epoch) }, t.loopStart())
	if err != nil {
		return err
	}
	if t.stopping() {
		return nil
	}
	return t.tel.Run(ctx, spans.TestingLoop, func(ctx context.Context) error { return testScopes(ctx, t) })
}

func trainScopes(ctx context.Context, t *trainer, epoch func(context.Context, *trainer) error) error {
	t.beginTraining()
	defer t.endTraining()
	for t.pos.Epoch < t.opts.epochs && !t.stopping() {
		err := t.tel.Run(ctx, spans.Epoch, func(ctx context.Context) error { return epoch(ctx, t) }, telemetry.Epoch(t.pos.Epoch))
		if err != nil {
			return err
		}
	}
	if t.finalSaveDue() {
		return saveScopes(ctx, t)
	}
	return nil
}

func epochScopes(ctx context.Context, t *trainer) error {
	t.startEpoch(ctx)
	defer t.endEpoch()
	for t.epochGoesOn() {
		if err := stepScopes(ctx, t); err != nil {
			return err
		}
		if err := betweenStepsScopes(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func betweenStepsScopes(ctx context.Context, t *trainer) error {
	if t.validationDue() {
		err := t.tel.Run(ctx, spans.ValidationLoop, func(ctx context.Context) error { return validateScopes(ctx, t) })
		if err != nil {
			return err
		}
	}
	if t.checkpointDue() {
		return saveScopes(ctx, t)
	}
	return nil
}

// device and network are the categories of spans that have no scope of their
// own.
var (
	device  = attribute.String(attributes.DFTracerCategory, "device")
	network = attribute.String(attributes.DFTracerCategory, "comm")
)

func stepScopes(ctx context.Context, t *trainer) error {
	var loss float64
	// snippet:scopes
	err := t.tel.Run(ctx, spans.TrainingIteration, func(ctx context.Context) error {
		var batch data.Batch
		err := t.tel.Run(ctx, spans.DataLoading, func(ctx context.Context) (err error) {
			batch, err = t.nextBatch(ctx)
			return err
		})
		if err != nil {
			return err
		}
		if err := t.tel.TimedSpan(ctx, "transfer", func(ctx context.Context) error { return t.transfer(ctx, batch) }, device); err != nil {
			return err
		}
		_, forward := t.tel.Start(ctx, spans.ModelForward)
		loss, err = t.forward(ctx)
		forward.EndErr(&err)
		if err != nil {
			return err
		}
		telemetry.FromContext(ctx).SetLoss(loss)
		return learnScopes(ctx, t)
	})
	// end:scopes
	if err != nil {
		return err
	}
	t.finishStep(loss)
	return nil
}

func learnScopes(ctx context.Context, t *trainer) error {
	if err := t.tel.Run(ctx, spans.ZeroGrad, t.zeroGrad); err != nil {
		return err
	}
	if err := t.tel.Run(ctx, spans.ModelBackward, t.backward); err != nil {
		return err
	}
	if err := t.tel.TimedSpan(ctx, "all_reduce", t.allReduce, network); err != nil {
		return err
	}
	return t.tel.Run(ctx, spans.OptimizerUpdate, t.optimizerStep)
}

// saveScopes saves in the way that was asked for. The span of a background save
// ends on the writer's goroutine.
func saveScopes(ctx context.Context, t *trainer) error {
	step := int(t.pos.Step)
	return t.tel.Run(ctx, spans.CheckpointSave, func(ctx context.Context) error {
		if !t.opts.asyncCheckpoint {
			_, err := t.saveSync(ctx)
			return err
		}
		_, writing := t.tel.Start(ctx, spans.CheckpointSaveFinalization, telemetry.Finalization{GlobalStep: step})
		return t.saveAsync(ctx, func(r checkpoint.Result) { writing.EndErr(&r.Err) })
	}, telemetry.SaveStart{GlobalStep: step})
}

func validateScopes(ctx context.Context, t *trainer) error {
	var losses []float64
	for batch, err := range t.validationBatches(ctx) {
		if err != nil {
			return err
		}
		ctx, it := t.tel.Start(ctx, spans.ValidationIteration)
		loss, err := t.validateBatch(ctx, batch)
		it.EndErr(&err)
		if err != nil {
			return err
		}
		losses = append(losses, loss)
	}
	t.finishValidation(losses)
	return nil
}

func testScopes(ctx context.Context, t *trainer) error {
	var losses []float64
	for batch, err := range t.testBatches(ctx) {
		if err != nil {
			return err
		}
		ctx, it := t.tel.Start(ctx, spans.TestingIteration)
		loss, err := t.testBatch(ctx, batch)
		it.EndErr(&err)
		if err != nil {
			return err
		}
		losses = append(losses, loss)
	}
	t.finishTest(losses)
	return nil
}
