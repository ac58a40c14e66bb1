package main

import (
	"context"
	"errors"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/examples/charlm/internal/checkpoint"
	"github.com/trainspan/trainspan/examples/charlm/internal/data"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// runJob runs the whole job. Its phases are spans of telemetry; in the loop
// over the batches, spans of package ai and a plain OpenTelemetry span nest
// below them. With a nil provider they are plain function calls.
func (t *trainer) runJob(ctx context.Context) error {
	return t.tel.Run(ctx, spans.Application, func(ctx context.Context) error {
		// The writer's last checkpoint is part of the application too.
		return errors.Join(t.runPhases(ctx), t.close())
	})
}

func (t *trainer) runPhases(ctx context.Context) error {
	for _, phase := range []struct {
		span string
		do   func(context.Context) error
	}{
		{spans.DistributedInit, t.initDistributed},
		{spans.DataLoaderInit, t.prepareData},
		{spans.ModelInit, t.initModel},
		{spans.OptimizerInit, t.initOptimizer},
		{spans.CheckpointLoad, t.loadCheckpoint},
	} {
		if err := t.tel.Run(ctx, phase.span, phase.do); err != nil {
			return err
		}
	}
	if err := t.tel.Run(ctx, spans.TrainingLoop, t.runTraining, t.loopStart()); err != nil {
		return err
	}
	if t.stopping() {
		return nil
	}
	return t.tel.Run(ctx, spans.TestingLoop, t.runTest)
}

func (t *trainer) runTraining(ctx context.Context) error {
	t.beginTraining()
	defer t.endTraining()
	for t.pos.Epoch < t.opts.epochs && !t.stopping() {
		if err := t.tel.Run(ctx, spans.Epoch, t.runEpoch, telemetry.Epoch(t.pos.Epoch)); err != nil {
			return err
		}
	}
	if t.finalSaveDue() {
		return t.save(ctx)
	}
	return nil
}

// runEpoch trains to the end of the epoch, or to the step in which the job is
// asked to stop.
func (t *trainer) runEpoch(ctx context.Context) error {
	t.startEpoch(ctx)
	defer t.endEpoch()
	device := t.tel.Tracer("charlm/device") // plain OpenTelemetry; the last word is the category in the trace
	batches, failure := t.batchesLeft(ctx)
	for batch := range ai.Iter(ctx, ai.DataLoader.Fetch, batches, &ai.IterOptions{NoBlock: true}) {
		var loss float64
		err := t.tel.Run(ctx, spans.TrainingIteration, func(ctx context.Context) error {
			_, transfer := device.Start(ctx, "transfer")
			err := t.transfer(ctx, batch)
			transfer.End()
			if err != nil {
				return err
			}
			forward := ai.Compute.Forward.Start(ctx)
			loss, err = t.forward(ctx)
			forward.EndErr(&err)
			if err != nil {
				return err
			}
			telemetry.FromContext(ctx).SetLoss(loss)
			return t.learn(ctx)
		})
		if err != nil {
			return err
		}
		t.finishStep(loss)
		if t.validationDue() {
			if err := t.tel.Run(ctx, spans.ValidationLoop, t.runValidation); err != nil {
				return err
			}
		}
		if t.checkpointDue() {
			if err := t.save(ctx); err != nil {
				return err
			}
		}
	}
	return failure()
}

var zeroGrad = ai.Compute.Step.Derive("zero_grad")

// learn runs the part of a step after the forward pass.
func (t *trainer) learn(ctx context.Context) error {
	if err := zeroGrad.Do(ctx, t.zeroGrad); err != nil {
		return err
	}
	if err := ai.Compute.Backward.Do(ctx, t.backward); err != nil {
		return err
	}
	if err := ai.Comm.AllReduce.Do(ctx, t.allReduce); err != nil {
		return err
	}
	return ai.Compute.Step.Do(ctx, t.optimizerStep)
}

// save writes a checkpoint in the foreground or in the background. The span of a
// background save ends on the writer's goroutine.
func (t *trainer) save(ctx context.Context) error {
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

func (t *trainer) runValidation(ctx context.Context) error {
	losses, err := t.evaluate(ctx, spans.ValidationIteration, t.valid, t.opts.validateSteps)
	if err == nil {
		t.finishValidation(losses)
	}
	return err
}

func (t *trainer) runTest(ctx context.Context) error {
	losses, err := t.evaluate(ctx, spans.TestingIteration, t.test, t.opts.testSteps)
	if err == nil {
		t.finishTest(losses)
	}
	return err
}

// evaluate returns the losses of the first batches of a loader, with a span for
// each.
func (t *trainer) evaluate(ctx context.Context, iteration string, l *data.Loader, batches int) (losses []float64, err error) {
	for batch, err := range firstBatches(ctx, l, batches) {
		if err != nil {
			return nil, err
		}
		ctx, it := t.tel.Start(ctx, iteration)
		loss, err := t.lossOf(ctx, batch)
		it.EndErr(&err)
		if err != nil {
			return nil, err
		}
		losses = append(losses, loss)
	}
	return losses, nil
}
