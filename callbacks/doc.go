// Package callbacks reports a training run by the callbacks of a training
// framework: one call where something starts, one where it ends.
//
//	cb := callbacks.New(tel)
//	cb.OnTrainStart(ctx, callbacks.TrainStart{IterationsStart: 0})
//	for batch := range batches {
//		cb.OnTrainingSingleIterationStart(ctx)
//		loss, err := train(ctx, batch)
//		cb.OnTrainingSingleIterationEnd(ctx, callbacks.IterationEnd{Loss: callbacks.Some(loss), Err: err})
//	}
//	cb.OnTrainEnd(ctx)
//
// [Default] returns the callbacks of the default provider of the process
// (telemetry.SetDefault), for hooks that get no provider. Callbacks do nothing without a
// provider, on a rank that is off, and after the end of the application.
//
// Every start returns a context that carries its span. A framework that cannot hand on
// the context may drop it: a callback's span is a child of the one that a callback
// opened last. A call at the wrong time returns an error if the error strategy is to
// propagate errors, and nil otherwise. No error of a callback is a reason to stop
// training.
package callbacks
