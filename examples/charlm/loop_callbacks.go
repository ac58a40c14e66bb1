package main

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/examples/charlm/internal/checkpoint"
	"github.com/trainspan/trainspan/examples/charlm/internal/data"
)

// callbackJob is the job in the way of a training framework: a call where
// something starts and one where it ends. Most of the contexts that the starts
// give are dropped: the spans find their parents without them. What has no
// callback is an ordinary OpenTelemetry span, and is a child of its context's.
type callbackJob struct {
	*trainer
	cb              *callbacks.Callbacks
	device, network trace.Tracer
}

func runCallbacks(ctx context.Context, t *trainer) error {
	j := callbackJob{
		trainer: t,
		cb:      callbacks.New(t.tel),
		device:  t.tel.Tracer("charlm/device"), // the last word is the category in the trace
		network: t.tel.Tracer("charlm/comm"),
	}
	ctx, _ = j.cb.OnAppStart(ctx)
	err := errors.Join(j.run(ctx), t.close())
	j.cb.OnAppEnd(ctx, callbacks.End{Err: err})
	return err
}

func (j callbackJob) run(ctx context.Context) error {
	j.cb.OnDistributedInitStart(ctx)
	err := j.initDistributed(ctx)
	j.cb.OnDistributedInitEnd(ctx, callbacks.End{Err: err})
	if err != nil {
		return err
	}
	j.cb.OnDataLoaderInitStart(ctx)
	err = j.prepareData(ctx)
	j.cb.OnDataLoaderInitEnd(ctx, callbacks.End{Err: err})
	if err != nil {
		return err
	}
	j.cb.OnModelInitStart(ctx)
	err = j.initModel(ctx)
	j.cb.OnModelInitEnd(ctx, callbacks.End{Err: err})
	if err != nil {
		return err
	}
	j.cb.OnOptimizerInitStart(ctx)
	err = j.initOptimizer(ctx)
	j.cb.OnOptimizerInitEnd(ctx, callbacks.End{Err: err})
	if err != nil {
		return err
	}
	j.cb.OnLoadCheckpointStart(ctx)
	err = j.loadCheckpoint(ctx)
	j.cb.OnLoadCheckpointEnd(ctx, callbacks.End{Err: err})
	if err != nil {
		return err
	}
	j.cb.OnTrainStart(ctx, j.loopStart())
	err = j.learn(ctx)
	j.cb.OnTrainEnd(ctx, callbacks.End{Err: err})
	if err != nil || j.stopping() {
		return err
	}
	j.cb.OnTestingStart(ctx)
	err = j.examine(ctx)
	j.cb.OnTestingEnd(ctx, callbacks.End{Err: err})
	return err
}

func (j callbackJob) learn(ctx context.Context) error {
	j.beginTraining()
	defer j.endTraining()
	for j.pos.Epoch < j.opts.epochs && !j.stopping() {
		j.cb.OnEpochStart(ctx, j.pos.Epoch)
		err := j.epoch(ctx)
		j.cb.OnEpochEnd(ctx, callbacks.End{Err: err})
		if err != nil {
			return err
		}
	}
	if j.finalSaveDue() {
		return j.save(ctx)
	}
	return nil
}

func (j callbackJob) epoch(ctx context.Context) error {
	j.startEpoch(ctx)
	defer j.endEpoch()
	for j.epochGoesOn() {
		it, _ := j.cb.OnTrainingSingleIterationStart(ctx)
		loss, err := j.step(it)
		j.cb.OnTrainingSingleIterationEnd(ctx, callbacks.IterationEnd{Loss: callbacks.Some(loss), Err: err})
		if err != nil {
			return err
		}
		j.finishStep(loss)
		if j.validationDue() {
			j.cb.OnValidationStart(ctx)
			err := j.validate(ctx)
			j.cb.OnValidationEnd(ctx, callbacks.End{Err: err})
			if err != nil {
				return err
			}
		}
		if j.checkpointDue() {
			if err := j.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j callbackJob) step(ctx context.Context) (float64, error) {
	// snippet:callbacks
	j.cb.OnDataLoadingStart(ctx)
	batch, err := j.nextBatch(ctx)
	j.cb.OnDataLoadingEnd(ctx, callbacks.End{Err: err})
	if err != nil {
		return 0, err
	}
	if err := j.toDevice(ctx, batch); err != nil {
		return 0, err
	}
	j.cb.OnModelForwardStart(ctx)
	loss, err := j.forward(ctx)
	j.cb.OnModelForwardEnd(ctx, callbacks.End{Err: err})
	if err != nil {
		return 0, err
	}
	j.cb.OnZeroGradStart(ctx)
	err = j.zeroGrad(ctx)
	j.cb.OnZeroGradEnd(ctx, callbacks.End{Err: err})
	// end:callbacks
	if err != nil {
		return 0, err
	}
	j.cb.OnModelBackwardStart(ctx)
	err = j.backward(ctx)
	j.cb.OnModelBackwardEnd(ctx, callbacks.End{Err: err})
	if err != nil {
		return 0, err
	}
	if err := j.sumGradients(ctx); err != nil {
		return 0, err
	}
	j.cb.OnOptimizerUpdateStart(ctx)
	err = j.optimizerStep(ctx)
	j.cb.OnOptimizerUpdateEnd(ctx, callbacks.End{Err: err})
	return loss, err
}

func (j callbackJob) toDevice(ctx context.Context, batch data.Batch) error {
	ctx, sp := j.device.Start(ctx, "transfer")
	defer sp.End()
	return j.transfer(ctx, batch)
}

func (j callbackJob) sumGradients(ctx context.Context) error {
	ctx, sp := j.network.Start(ctx, "all_reduce")
	defer sp.End()
	return j.allReduce(ctx)
}

// save reports a background save from the writer's goroutine, whenever that is
// done.
func (j callbackJob) save(ctx context.Context) error {
	step := int(j.pos.Step)
	stored := func(s checkpoint.Saved) callbacks.SaveSuccess {
		return callbacks.SaveSuccess{GlobalStep: step, Size: callbacks.Some(s.Bytes), Directory: j.store.Dir()}
	}
	j.cb.OnSaveCheckpointStart(ctx, callbacks.SaveStart{GlobalStep: step})
	var err error
	if j.opts.asyncCheckpoint {
		j.cb.OnCheckpointFinalizationStart(ctx, callbacks.Finalization{GlobalStep: step})
		err = j.saveAsync(ctx, func(r checkpoint.Result) {
			if r.Err == nil {
				j.cb.OnSaveCheckpointSuccess(ctx, stored(r.Saved))
			}
			j.cb.OnCheckpointFinalizationEnd(ctx, callbacks.Finalization{GlobalStep: step, Err: r.Err})
		})
	} else {
		var saved checkpoint.Saved
		if saved, err = j.saveSync(ctx); err == nil {
			j.cb.OnSaveCheckpointSuccess(ctx, stored(saved))
		}
	}
	j.cb.OnSaveCheckpointEnd(ctx, callbacks.End{Err: err})
	return err
}

func (j callbackJob) validate(ctx context.Context) error {
	var losses []float64
	for batch, err := range j.validationBatches(ctx) {
		if err != nil {
			return err
		}
		j.cb.OnValidationSingleIterationStart(ctx)
		loss, err := j.validateBatch(ctx, batch)
		j.cb.OnValidationSingleIterationEnd(ctx, callbacks.End{Err: err})
		if err != nil {
			return err
		}
		losses = append(losses, loss)
	}
	j.finishValidation(losses)
	return nil
}

// examine is the test at the end of the training.
func (j callbackJob) examine(ctx context.Context) error {
	var losses []float64
	for batch, err := range j.testBatches(ctx) {
		if err != nil {
			return err
		}
		j.cb.OnTestingSingleIterationStart(ctx)
		loss, err := j.testBatch(ctx, batch)
		j.cb.OnTestingSingleIterationEnd(ctx, callbacks.End{Err: err})
		if err != nil {
			return err
		}
		losses = append(losses, loss)
	}
	j.finishTest(losses)
	return nil
}
