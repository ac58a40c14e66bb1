package callbacks

import (
	"context"

	"github.com/trainspan/trainspan/spans"
)

// OnDistributedInitStart starts the initialization of the distributed code.
func (c *Callbacks) OnDistributedInitStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.DistributedInit, start)
}

// OnDistributedInitEnd ends the initialization of the distributed code.
func (c *Callbacks) OnDistributedInitEnd(ctx context.Context, end ...End) error {
	return c.end(spans.DistributedInit, end)
}

// OnDataLoaderInitStart starts the initialization of the data loader.
func (c *Callbacks) OnDataLoaderInitStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.DataLoaderInit, start)
}

// OnDataLoaderInitEnd ends the initialization of the data loader.
func (c *Callbacks) OnDataLoaderInitEnd(ctx context.Context, end ...End) error {
	return c.end(spans.DataLoaderInit, end)
}

// OnModelInitStart starts the initialization of the model.
func (c *Callbacks) OnModelInitStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.ModelInit, start)
}

// OnModelInitEnd ends the initialization of the model.
func (c *Callbacks) OnModelInitEnd(ctx context.Context, end ...End) error {
	return c.end(spans.ModelInit, end)
}

// OnOptimizerInitStart starts the initialization of the optimizer.
func (c *Callbacks) OnOptimizerInitStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.OptimizerInit, start)
}

// OnOptimizerInitEnd ends the initialization of the optimizer.
func (c *Callbacks) OnOptimizerInitEnd(ctx context.Context, end ...End) error {
	return c.end(spans.OptimizerInit, end)
}

// OnLoadCheckpointStart starts the loading of a checkpoint.
func (c *Callbacks) OnLoadCheckpointStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.CheckpointLoad, start)
}

// OnLoadCheckpointEnd ends the loading of a checkpoint.
func (c *Callbacks) OnLoadCheckpointEnd(ctx context.Context, end ...End) error {
	return c.end(spans.CheckpointLoad, end)
}

// OnDataLoadingStart starts the wait for a batch.
func (c *Callbacks) OnDataLoadingStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.DataLoading, start)
}

// OnDataLoadingEnd ends the wait for a batch.
func (c *Callbacks) OnDataLoadingEnd(ctx context.Context, end ...End) error {
	return c.end(spans.DataLoading, end)
}

// OnModelForwardStart starts the forward pass.
func (c *Callbacks) OnModelForwardStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.ModelForward, start)
}

// OnModelForwardEnd ends the forward pass.
func (c *Callbacks) OnModelForwardEnd(ctx context.Context, end ...End) error {
	return c.end(spans.ModelForward, end)
}

// OnZeroGradStart starts the clearing of the gradients.
func (c *Callbacks) OnZeroGradStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.ZeroGrad, start)
}

// OnZeroGradEnd ends the clearing of the gradients.
func (c *Callbacks) OnZeroGradEnd(ctx context.Context, end ...End) error {
	return c.end(spans.ZeroGrad, end)
}

// OnModelBackwardStart starts the backward pass.
func (c *Callbacks) OnModelBackwardStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.ModelBackward, start)
}

// OnModelBackwardEnd ends the backward pass.
func (c *Callbacks) OnModelBackwardEnd(ctx context.Context, end ...End) error {
	return c.end(spans.ModelBackward, end)
}

// OnOptimizerUpdateStart starts the optimizer's step.
func (c *Callbacks) OnOptimizerUpdateStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.OptimizerUpdate, start)
}

// OnOptimizerUpdateEnd ends the optimizer's step.
func (c *Callbacks) OnOptimizerUpdateEnd(ctx context.Context, end ...End) error {
	return c.end(spans.OptimizerUpdate, end)
}

// OnValidationStart starts the validation loop.
func (c *Callbacks) OnValidationStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.ValidationLoop, start)
}

// OnValidationEnd ends the validation loop.
func (c *Callbacks) OnValidationEnd(ctx context.Context, end ...End) error {
	return c.end(spans.ValidationLoop, end)
}

// OnValidationSingleIterationStart starts the validation iteration.
func (c *Callbacks) OnValidationSingleIterationStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.ValidationIteration, start)
}

// OnValidationSingleIterationEnd ends the validation iteration.
func (c *Callbacks) OnValidationSingleIterationEnd(ctx context.Context, end ...End) error {
	return c.end(spans.ValidationIteration, end)
}

// OnTestingStart starts the testing loop.
func (c *Callbacks) OnTestingStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.TestingLoop, start)
}

// OnTestingEnd ends the testing loop.
func (c *Callbacks) OnTestingEnd(ctx context.Context, end ...End) error {
	return c.end(spans.TestingLoop, end)
}

// OnTestingSingleIterationStart starts the testing iteration.
func (c *Callbacks) OnTestingSingleIterationStart(ctx context.Context, start ...Start) (context.Context, error) {
	return c.start(ctx, spans.TestingIteration, start)
}

// OnTestingSingleIterationEnd ends the testing iteration.
func (c *Callbacks) OnTestingSingleIterationEnd(ctx context.Context, end ...End) error {
	return c.end(spans.TestingIteration, end)
}
