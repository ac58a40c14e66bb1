package callbacks

import "context"

// The package functions are the callbacks of the default provider.

// OnAppStart is [Callbacks.OnAppStart] of the default provider.
func OnAppStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnAppStart(ctx, start...)
}

// OnAppEnd is [Callbacks.OnAppEnd] of the default provider.
func OnAppEnd(ctx context.Context, end ...End) error {
	return Default().OnAppEnd(ctx, end...)
}

// OnDistributedInitStart is [Callbacks.OnDistributedInitStart] of the default provider.
func OnDistributedInitStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnDistributedInitStart(ctx, start...)
}

// OnDistributedInitEnd is [Callbacks.OnDistributedInitEnd] of the default provider.
func OnDistributedInitEnd(ctx context.Context, end ...End) error {
	return Default().OnDistributedInitEnd(ctx, end...)
}

// OnDataLoaderInitStart is [Callbacks.OnDataLoaderInitStart] of the default provider.
func OnDataLoaderInitStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnDataLoaderInitStart(ctx, start...)
}

// OnDataLoaderInitEnd is [Callbacks.OnDataLoaderInitEnd] of the default provider.
func OnDataLoaderInitEnd(ctx context.Context, end ...End) error {
	return Default().OnDataLoaderInitEnd(ctx, end...)
}

// OnModelInitStart is [Callbacks.OnModelInitStart] of the default provider.
func OnModelInitStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnModelInitStart(ctx, start...)
}

// OnModelInitEnd is [Callbacks.OnModelInitEnd] of the default provider.
func OnModelInitEnd(ctx context.Context, end ...End) error {
	return Default().OnModelInitEnd(ctx, end...)
}

// OnOptimizerInitStart is [Callbacks.OnOptimizerInitStart] of the default provider.
func OnOptimizerInitStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnOptimizerInitStart(ctx, start...)
}

// OnOptimizerInitEnd is [Callbacks.OnOptimizerInitEnd] of the default provider.
func OnOptimizerInitEnd(ctx context.Context, end ...End) error {
	return Default().OnOptimizerInitEnd(ctx, end...)
}

// OnLoadCheckpointStart is [Callbacks.OnLoadCheckpointStart] of the default provider.
func OnLoadCheckpointStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnLoadCheckpointStart(ctx, start...)
}

// OnLoadCheckpointEnd is [Callbacks.OnLoadCheckpointEnd] of the default provider.
func OnLoadCheckpointEnd(ctx context.Context, end ...End) error {
	return Default().OnLoadCheckpointEnd(ctx, end...)
}

// OnDataLoadingStart is [Callbacks.OnDataLoadingStart] of the default provider.
func OnDataLoadingStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnDataLoadingStart(ctx, start...)
}

// OnDataLoadingEnd is [Callbacks.OnDataLoadingEnd] of the default provider.
func OnDataLoadingEnd(ctx context.Context, end ...End) error {
	return Default().OnDataLoadingEnd(ctx, end...)
}

// OnModelForwardStart is [Callbacks.OnModelForwardStart] of the default provider.
func OnModelForwardStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnModelForwardStart(ctx, start...)
}

// OnModelForwardEnd is [Callbacks.OnModelForwardEnd] of the default provider.
func OnModelForwardEnd(ctx context.Context, end ...End) error {
	return Default().OnModelForwardEnd(ctx, end...)
}

// OnZeroGradStart is [Callbacks.OnZeroGradStart] of the default provider.
func OnZeroGradStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnZeroGradStart(ctx, start...)
}

// OnZeroGradEnd is [Callbacks.OnZeroGradEnd] of the default provider.
func OnZeroGradEnd(ctx context.Context, end ...End) error {
	return Default().OnZeroGradEnd(ctx, end...)
}

// OnModelBackwardStart is [Callbacks.OnModelBackwardStart] of the default provider.
func OnModelBackwardStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnModelBackwardStart(ctx, start...)
}

// OnModelBackwardEnd is [Callbacks.OnModelBackwardEnd] of the default provider.
func OnModelBackwardEnd(ctx context.Context, end ...End) error {
	return Default().OnModelBackwardEnd(ctx, end...)
}

// OnOptimizerUpdateStart is [Callbacks.OnOptimizerUpdateStart] of the default provider.
func OnOptimizerUpdateStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnOptimizerUpdateStart(ctx, start...)
}

// OnOptimizerUpdateEnd is [Callbacks.OnOptimizerUpdateEnd] of the default provider.
func OnOptimizerUpdateEnd(ctx context.Context, end ...End) error {
	return Default().OnOptimizerUpdateEnd(ctx, end...)
}

// OnValidationStart is [Callbacks.OnValidationStart] of the default provider.
func OnValidationStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnValidationStart(ctx, start...)
}

// OnValidationEnd is [Callbacks.OnValidationEnd] of the default provider.
func OnValidationEnd(ctx context.Context, end ...End) error {
	return Default().OnValidationEnd(ctx, end...)
}

// OnValidationSingleIterationStart is [Callbacks.OnValidationSingleIterationStart] of the default provider.
func OnValidationSingleIterationStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnValidationSingleIterationStart(ctx, start...)
}

// OnValidationSingleIterationEnd is [Callbacks.OnValidationSingleIterationEnd] of the default provider.
func OnValidationSingleIterationEnd(ctx context.Context, end ...End) error {
	return Default().OnValidationSingleIterationEnd(ctx, end...)
}

// OnTestingStart is [Callbacks.OnTestingStart] of the default provider.
func OnTestingStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnTestingStart(ctx, start...)
}

// OnTestingEnd is [Callbacks.OnTestingEnd] of the default provider.
func OnTestingEnd(ctx context.Context, end ...End) error {
	return Default().OnTestingEnd(ctx, end...)
}

// OnTestingSingleIterationStart is [Callbacks.OnTestingSingleIterationStart] of the default provider.
func OnTestingSingleIterationStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnTestingSingleIterationStart(ctx, start...)
}

// OnTestingSingleIterationEnd is [Callbacks.OnTestingSingleIterationEnd] of the default provider.
func OnTestingSingleIterationEnd(ctx context.Context, end ...End) error {
	return Default().OnTestingSingleIterationEnd(ctx, end...)
}

// OnTrainStart is [Callbacks.OnTrainStart] of the default provider.
func OnTrainStart(ctx context.Context, start TrainStart) (context.Context, error) {
	return Default().OnTrainStart(ctx, start)
}

// OnTrainEnd is [Callbacks.OnTrainEnd] of the default provider.
func OnTrainEnd(ctx context.Context, end ...End) error {
	return Default().OnTrainEnd(ctx, end...)
}

// OnEpochStart is [Callbacks.OnEpochStart] of the default provider.
func OnEpochStart(ctx context.Context, epoch int, start ...Start) (context.Context, error) {
	return Default().OnEpochStart(ctx, epoch, start...)
}

// OnEpochEnd is [Callbacks.OnEpochEnd] of the default provider.
func OnEpochEnd(ctx context.Context, end ...End) error {
	return Default().OnEpochEnd(ctx, end...)
}

// OnTrainingSingleIterationStart is [Callbacks.OnTrainingSingleIterationStart] of the default provider.
func OnTrainingSingleIterationStart(ctx context.Context, start ...Start) (context.Context, error) {
	return Default().OnTrainingSingleIterationStart(ctx, start...)
}

// OnTrainingSingleIterationEnd is [Callbacks.OnTrainingSingleIterationEnd] of the default provider.
func OnTrainingSingleIterationEnd(ctx context.Context, end ...IterationEnd) error {
	return Default().OnTrainingSingleIterationEnd(ctx, end...)
}

// OnSaveCheckpointStart is [Callbacks.OnSaveCheckpointStart] of the default provider.
func OnSaveCheckpointStart(ctx context.Context, start SaveStart) (context.Context, error) {
	return Default().OnSaveCheckpointStart(ctx, start)
}

// OnSaveCheckpointSuccess is [Callbacks.OnSaveCheckpointSuccess] of the default provider.
func OnSaveCheckpointSuccess(ctx context.Context, success SaveSuccess) error {
	return Default().OnSaveCheckpointSuccess(ctx, success)
}

// OnSaveCheckpointFailure is [Callbacks.OnSaveCheckpointFailure] of the default provider.
func OnSaveCheckpointFailure(ctx context.Context, failure SaveFailure) error {
	return Default().OnSaveCheckpointFailure(ctx, failure)
}

// OnSaveCheckpointEnd is [Callbacks.OnSaveCheckpointEnd] of the default provider.
func OnSaveCheckpointEnd(ctx context.Context, end ...End) error {
	return Default().OnSaveCheckpointEnd(ctx, end...)
}

// OnCheckpointFinalizationStart is [Callbacks.OnCheckpointFinalizationStart] of the default provider.
func OnCheckpointFinalizationStart(ctx context.Context, start Finalization) (context.Context, error) {
	return Default().OnCheckpointFinalizationStart(ctx, start)
}

// OnCheckpointFinalizationEnd is [Callbacks.OnCheckpointFinalizationEnd] of the default provider.
func OnCheckpointFinalizationEnd(ctx context.Context, end Finalization) error {
	return Default().OnCheckpointFinalizationEnd(ctx, end)
}
