package telemetry

import (
	"context"
	"fmt"

	"github.com/trainspan/trainspan/spans"
)

// The methods of this file are the callbacks' side of the recorder: spans
// without a handle, found again by their name. Their errors follow the error
// strategy; a recorder that is off gives none.

// StartPhase starts the standard span of that name for a callback: it becomes
// the parent of what is started without a context. The spans with parameters
// of their own (training loop, epoch, checkpoint save and finalization) have
// methods of their own.
func (r *Recorder) StartPhase(ctx context.Context, name string, start Start) (context.Context, error) {
	index := spans.Index(name)
	switch index {
	case -1, indexTraining, indexEpoch, indexSaveSync, indexSaveAsync, indexFinalize:
		return ctx, fmt.Errorf("telemetry: %q is not a span that StartPhase can start", name)
	}
	return r.phase(ctx, startParams{
		name: name, index: index, at: start.Time, attrs: r.cleanCopy(start.Attributes),
	})
}

func (r *Recorder) phase(ctx context.Context, p startParams) (context.Context, error) {
	p.ambient = true
	ctx, _, err := r.begin(ctx, &p)
	return ctx, silent(err)
}

// EndPhase ends the open span of that standard name.
func (r *Recorder) EndPhase(name string, e End) error {
	index := spans.Index(name)
	if index < 0 || index == indexFinalize {
		return fmt.Errorf("telemetry: %q is not a span that EndPhase can end", name)
	}
	return silent(r.finishNamed(index, e))
}

// StartLoop starts the training loop.
func (r *Recorder) StartLoop(ctx context.Context, loop LoopStart) (context.Context, error) {
	return r.phase(ctx, startParams{
		name: spans.TrainingLoop, index: indexTraining, at: loop.Time, loop: loop, values: r.values(true),
	})
}

// StartEpoch starts an epoch, numbered from zero.
func (r *Recorder) StartEpoch(ctx context.Context, epoch int, start Start) (context.Context, error) {
	return r.phase(ctx, epochParams(epoch, []Start{start}))
}

// EndIteration ends the open training iteration.
func (r *Recorder) EndIteration(e IterationEnd) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	if s := r.byName[indexIteration]; s != nil && s.state == spanOpen {
		s.iteration = e
	}
	r.mu.Unlock()
	return silent(r.finishNamed(indexIteration, End{Time: e.Time, Err: e.Err}))
}

// StartSave starts the part of a checkpoint save that training waits for, by
// the configured strategy.
func (r *Recorder) StartSave(ctx context.Context, save SaveStart) (context.Context, error) {
	return r.phase(ctx, r.saveParams(save))
}

// EndSave ends the part of a checkpoint save that training waits for.
func (r *Recorder) EndSave(e End) error {
	if r == nil {
		return nil
	}
	index := indexSaveSync
	r.mu.Lock()
	if s := r.byName[indexSaveAsync]; s != nil && s.state == spanOpen {
		index = indexSaveAsync
	}
	r.mu.Unlock()
	return silent(r.finishNamed(index, e))
}

// StartFinalization starts the background part of an asynchronous save.
// Several may be open at a time, for different steps; none of them is the
// parent of what is started without a context.
func (r *Recorder) StartFinalization(ctx context.Context, f Finalization) (context.Context, error) {
	ctx, _, err := r.begin(ctx, &startParams{
		name: spans.CheckpointSaveFinalization, index: indexFinalize, at: f.Time, step: f.GlobalStep,
	})
	return ctx, silent(err)
}

// EndFinalization ends the background part of the save of a step.
func (r *Recorder) EndFinalization(f Finalization) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	s, ended := r.finalize[int64(f.GlobalStep)], r.ended
	r.mu.Unlock()
	switch {
	case ended != nil:
		return nil
	case s == nil:
		return r.fail(callbackNames[indexFinalize].end,
			fmt.Errorf("the finalization of the checkpoint of step %d is not active", f.GlobalStep))
	}
	return silent(r.finishAs(s, End{Time: f.Time, Err: f.Err}))
}
