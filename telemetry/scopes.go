package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
)

// A scope is a span with a handle: it starts with a Start method of the
// provider and ends with End of the handle, or it lasts for a function. The
// context carries it: spans that are started with that context hang under it.
// A nil handle, from a provider that is off, does nothing.

// scope starts the scope of a standard span.
func (p *Provider) scope(ctx context.Context, index int, start []Start) (context.Context, *Span) {
	params := startParams{name: spans.At(index).Name, index: index, scoped: true}
	if len(start) > 0 {
		params.at, params.attrs = start[0].Time, p.Recorder().cleanCopy(start[0].Attributes)
	}
	ctx, s, _ := p.Recorder().begin(ctx, &params)
	return ctx, s
}

// run lasts a scope for a function.
func run(ctx context.Context, s *Span, fn func(context.Context) error) (err error) {
	finished := false
	defer func() {
		if finished {
			return
		}
		if r := recover(); r != nil {
			s.finish(End{Err: panicError{r}})
			panic(r)
		}
		s.finish(End{Err: errGoexit})
	}()
	err = fn(ctx)
	finished = true
	s.finish(End{Err: err})
	return err
}

// StartApplication starts the application span, the root of everything else.
// Its end ends the recording: what is still open is stopped, and the native
// exporters are closed or, where something is sent over a network, flushed; see
// [Recorder.Close].
func (p *Provider) StartApplication(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexApplication, start)
}

// Application lasts the application span for fn and returns its error unchanged.
func (p *Provider) Application(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartApplication(ctx)
	return run(ctx, s, fn)
}

// StartDistributedInit starts the initialization of the distributed code.
func (p *Provider) StartDistributedInit(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexDistributed, start)
}

// DistributedInit is StartDistributedInit for the time of fn.
func (p *Provider) DistributedInit(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartDistributedInit(ctx)
	return run(ctx, s, fn)
}

// StartDataLoaderInit starts the initialization of the data loader.
func (p *Provider) StartDataLoaderInit(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexDataLoaderInit, start)
}

// DataLoaderInit is StartDataLoaderInit for the time of fn.
func (p *Provider) DataLoaderInit(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartDataLoaderInit(ctx)
	return run(ctx, s, fn)
}

// StartModelInit starts the initialization of the model.
func (p *Provider) StartModelInit(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexModelInit, start)
}

// ModelInit is StartModelInit for the time of fn.
func (p *Provider) ModelInit(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartModelInit(ctx)
	return run(ctx, s, fn)
}

// StartOptimizerInit starts the initialization of the optimizer.
func (p *Provider) StartOptimizerInit(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexOptimizerInit, start)
}

// OptimizerInit is StartOptimizerInit for the time of fn.
func (p *Provider) OptimizerInit(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartOptimizerInit(ctx)
	return run(ctx, s, fn)
}

// StartCheckpointLoad starts the loading of a checkpoint.
func (p *Provider) StartCheckpointLoad(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexLoad, start)
}

// CheckpointLoad is StartCheckpointLoad for the time of fn.
func (p *Provider) CheckpointLoad(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartCheckpointLoad(ctx)
	return run(ctx, s, fn)
}

// StartTrainingLoop starts a training loop. It needs the training
// configuration. A second loop of a process starts its metrics afresh.
func (p *Provider) StartTrainingLoop(ctx context.Context, loop LoopStart) (context.Context, *Span) {
	r := p.Recorder()
	ctx, s, _ := r.begin(ctx, &startParams{
		name: spans.TrainingLoop, index: indexTraining, at: loop.Time, scoped: true, loop: loop, values: r.values(true),
	})
	return ctx, s
}

// TrainingLoop is StartTrainingLoop for the time of fn.
func (p *Provider) TrainingLoop(ctx context.Context, loop LoopStart, fn func(context.Context) error) error {
	ctx, s := p.StartTrainingLoop(ctx, loop)
	return run(ctx, s, fn)
}

// StartEpoch starts an epoch, numbered from zero. What is recorded until its
// end belongs to that epoch.
func (p *Provider) StartEpoch(ctx context.Context, epoch int, start ...Start) (context.Context, *Span) {
	params := epochParams(epoch, start)
	params.scoped = true
	ctx, s, _ := p.Recorder().begin(ctx, &params)
	return ctx, s
}

func epochParams(epoch int, start []Start) startParams {
	params := startParams{name: spans.Epoch, index: indexEpoch, step: epoch}
	params.attrs = attributes.Extend(attributes.Int(attributes.Epoch, int64(epoch)))
	if len(start) > 0 {
		params.at = start[0].Time
		for _, a := range start[0].Attributes {
			params.attrs = upsert(params.attrs, a)
		}
	}
	return params
}

// Epoch is StartEpoch for the time of fn.
func (p *Provider) Epoch(ctx context.Context, epoch int, fn func(context.Context) error) error {
	ctx, s := p.StartEpoch(ctx, epoch)
	return run(ctx, s, fn)
}

// StartTrainingIteration starts a training iteration. One that ends with an
// error is not counted as completed.
func (p *Provider) StartTrainingIteration(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexIteration, start)
}

// TrainingIteration is StartTrainingIteration for the time of fn.
func (p *Provider) TrainingIteration(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartTrainingIteration(ctx)
	return run(ctx, s, fn)
}

// StartDataLoading starts the wait for a batch.
func (p *Provider) StartDataLoading(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexDataLoading, start)
}

// DataLoading is StartDataLoading for the time of fn.
func (p *Provider) DataLoading(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartDataLoading(ctx)
	return run(ctx, s, fn)
}

// StartForward starts the forward pass.
func (p *Provider) StartForward(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexForward, start)
}

// Forward is StartForward for the time of fn.
func (p *Provider) Forward(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartForward(ctx)
	return run(ctx, s, fn)
}

// StartZeroGrad starts the clearing of the gradients.
func (p *Provider) StartZeroGrad(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexZeroGrad, start)
}

// ZeroGrad is StartZeroGrad for the time of fn.
func (p *Provider) ZeroGrad(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartZeroGrad(ctx)
	return run(ctx, s, fn)
}

// StartBackward starts the backward pass.
func (p *Provider) StartBackward(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexBackward, start)
}

// Backward is StartBackward for the time of fn.
func (p *Provider) Backward(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartBackward(ctx)
	return run(ctx, s, fn)
}

// StartOptimizerUpdate starts the optimizer's step.
func (p *Provider) StartOptimizerUpdate(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexOptimizerUpdate, start)
}

// OptimizerUpdate is StartOptimizerUpdate for the time of fn.
func (p *Provider) OptimizerUpdate(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartOptimizerUpdate(ctx)
	return run(ctx, s, fn)
}

// StartCheckpointSave starts the part of a checkpoint save that training waits
// for, by the configured strategy. If the strategy is synchronous, an end
// without an error is the success of the save. An asynchronous save succeeds
// with the end of its finalization.
func (p *Provider) StartCheckpointSave(ctx context.Context, save SaveStart) (context.Context, *Span) {
	params := p.Recorder().saveParams(save)
	params.scoped = true
	ctx, s, _ := p.Recorder().begin(ctx, &params)
	return ctx, s
}

func (r *Recorder) saveParams(save SaveStart) startParams {
	v := r.values(false)
	params := startParams{
		name: spans.CheckpointSaveSync, index: indexSaveSync, at: save.Time, step: save.GlobalStep, values: v,
	}
	if v.async {
		params.name, params.index = spans.CheckpointSaveAsync, indexSaveAsync
	}
	return params
}

// CheckpointSave is StartCheckpointSave for the time of fn.
func (p *Provider) CheckpointSave(ctx context.Context, save SaveStart, fn func(context.Context) error) error {
	ctx, s := p.StartCheckpointSave(ctx, save)
	return run(ctx, s, fn)
}

// StartCheckpointFinalization starts the background part of an asynchronous
// save: call it before the background work is started, and end it there. Its
// end reports the success or the failure of the save. Several may be open at a
// time, for different steps.
func (p *Provider) StartCheckpointFinalization(ctx context.Context, f Finalization) (context.Context, *Span) {
	ctx, s, _ := p.Recorder().begin(ctx, &startParams{
		name: spans.CheckpointSaveFinalization, index: indexFinalize, at: f.Time, step: f.GlobalStep, scoped: true,
	})
	return ctx, s
}

// CheckpointFinalization is StartCheckpointFinalization for the time of fn.
func (p *Provider) CheckpointFinalization(ctx context.Context, f Finalization, fn func(context.Context) error) error {
	ctx, s := p.StartCheckpointFinalization(ctx, f)
	return run(ctx, s, fn)
}

// StartValidationLoop starts a validation loop.
func (p *Provider) StartValidationLoop(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexValidation, start)
}

// ValidationLoop is StartValidationLoop for the time of fn.
func (p *Provider) ValidationLoop(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartValidationLoop(ctx)
	return run(ctx, s, fn)
}

// StartValidationIteration starts an iteration of a validation loop.
func (p *Provider) StartValidationIteration(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexValidationI, start)
}

// ValidationIteration is StartValidationIteration for the time of fn.
func (p *Provider) ValidationIteration(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartValidationIteration(ctx)
	return run(ctx, s, fn)
}

// StartTestingLoop starts a testing loop.
func (p *Provider) StartTestingLoop(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexTesting, start)
}

// TestingLoop is StartTestingLoop for the time of fn.
func (p *Provider) TestingLoop(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartTestingLoop(ctx)
	return run(ctx, s, fn)
}

// StartTestingIteration starts an iteration of a testing loop.
func (p *Provider) StartTestingIteration(ctx context.Context, start ...Start) (context.Context, *Span) {
	return p.scope(ctx, indexTestingI, start)
}

// TestingIteration is StartTestingIteration for the time of fn.
func (p *Provider) TestingIteration(ctx context.Context, fn func(context.Context) error) error {
	ctx, s := p.StartTestingIteration(ctx)
	return run(ctx, s, fn)
}

// StartSpan starts a span of any name, any number of times at once. A standard
// name keeps its meaning in the trace file, but moves no training state.
func (p *Provider) StartSpan(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, *Span) {
	r := p.Recorder()
	ctx, s, _ := r.begin(ctx, &startParams{
		name: name, index: -1, scoped: true, attrs: r.cleanCopy(attributes.From(attrs...)),
	})
	return ctx, s
}

// TimedSpan is StartSpan for the time of fn, whose error it returns unchanged.
func (p *Provider) TimedSpan(ctx context.Context, name string, fn func(context.Context) error, attrs ...attribute.KeyValue) error {
	ctx, s := p.StartSpan(ctx, name, attrs...)
	return run(ctx, s, fn)
}

// StartSpanWith is StartSpan with everything that can be said of a start. A
// parent that is given wins over the context.
func (p *Provider) StartSpanWith(ctx context.Context, name string, start SpanStart) (context.Context, *Span) {
	r := p.Recorder()
	ctx, s, _ := r.begin(ctx, &startParams{
		name: name, index: -1, scoped: true, at: start.Time, parent: start.Parent,
		attrs: r.cleanCopy(start.Attributes), starts: r.cleanCopy(start.StartAttributes),
	})
	return ctx, s
}
