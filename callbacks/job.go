package callbacks

import (
	"context"

	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// OnAppStart starts the application, the root of all other spans.
func (c *Callbacks) OnAppStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.Application, start)
}

// OnAppEnd ends the application: open spans are stopped, everything is written
// and sent, and the provider is shut down within its shutdown timeout. Errors
// are logged, and [telemetry.Provider.Shutdown] returns them. OnAppEnd
// is safe as the last call of a program that has failed.
func (c *Callbacks) OnAppEnd(ctx context.Context, end ...End) error {
	err := c.end(spans.Application, end)
	if c == nil || c.tel == nil {
		return err
	}
	if err != nil && c.tel.Enabled() {
		return err // a misplaced call must not end telemetry
	}
	_ = c.tel.Shutdown(ctx) // logged; an error of telemetry is not an error of the job
	return err
}

// OnTrainStart starts a training loop. It needs the training configuration.
func (c *Callbacks) OnTrainStart(ctx context.Context, start TrainStart) (context.Context, error) {
	return c.provider().Recorder().StartPhase(ctx, spans.TrainingLoop, start)
}

// OnTrainEnd ends the training loop and reports what was trained since the last
// metrics update.
func (c *Callbacks) OnTrainEnd(ctx context.Context, end ...End) error {
	return c.end(spans.TrainingLoop, end)
}

// OnEpochStart starts an epoch, numbered from zero.
func (c *Callbacks) OnEpochStart(ctx context.Context, epoch int, start ...Start) (context.Context, error) {
	return c.provider().Recorder().StartPhase(ctx, spans.Epoch, telemetry.Epoch(epoch), first(start))
}

// OnEpochEnd ends the epoch.
func (c *Callbacks) OnEpochEnd(ctx context.Context, end ...End) error {
	return c.end(spans.Epoch, end)
}

// OnTrainingSingleIterationStart starts a training iteration.
func (c *Callbacks) OnTrainingSingleIterationStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.TrainingIteration, start)
}

// OnTrainingSingleIterationEnd ends the training iteration and, if one is due,
// records a metrics update. An iteration with an error is not counted as
// completed.
func (c *Callbacks) OnTrainingSingleIterationEnd(ctx context.Context, end ...IterationEnd) error {
	r := c.provider().Recorder()
	if !r.Recording() || len(end) == 0 {
		return r.EndPhase(spans.TrainingIteration)
	}
	return r.EndPhase(spans.TrainingIteration, end[0])
}

// OnSaveCheckpointStart starts a checkpoint save with the configured strategy.
func (c *Callbacks) OnSaveCheckpointStart(ctx context.Context, start SaveStart) (context.Context, error) {
	return c.provider().Recorder().StartPhase(ctx, spans.CheckpointSave, start)
}

// OnSaveCheckpointSuccess reports that a checkpoint is safely stored: call it
// before the end of a synchronous save, and as soon as it is known for an
// asynchronous one.
func (c *Callbacks) OnSaveCheckpointSuccess(ctx context.Context, success SaveSuccess) error {
	r := c.provider().Recorder()
	if r == nil {
		return nil
	}
	return r.CheckpointSucceeded(success)
}

// OnSaveCheckpointFailure reports that a checkpoint could not be stored.
func (c *Callbacks) OnSaveCheckpointFailure(ctx context.Context, failure SaveFailure) error {
	r := c.provider().Recorder()
	if r == nil {
		return nil
	}
	return r.CheckpointFailed(failure)
}

// OnSaveCheckpointEnd ends the part of a save that blocks training.
func (c *Callbacks) OnSaveCheckpointEnd(ctx context.Context, end ...End) error {
	return c.end(spans.CheckpointSave, end)
}

// OnCheckpointFinalizationStart starts the background part of an asynchronous
// save: call it where the save hands the work over.
func (c *Callbacks) OnCheckpointFinalizationStart(ctx context.Context, start Finalization) (context.Context, error) {
	return c.provider().Recorder().StartPhase(ctx, spans.CheckpointSaveFinalization, start)
}

// OnCheckpointFinalizationEnd ends the background part of the save of a step,
// on any goroutine. It reports for how long the save blocked training and
// worked in the background.
func (c *Callbacks) OnCheckpointFinalizationEnd(ctx context.Context, end Finalization) error {
	return c.provider().Recorder().EndPhase(spans.CheckpointSaveFinalization, end)
}
