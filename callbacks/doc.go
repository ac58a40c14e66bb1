// Package callbacks reports a training run by the callbacks of a training
// framework: one call where something starts, one where it ends.
//
//	cb := callbacks.New(tel)
//	cb.OnTrainStart(ctx, callbacks.TrainStart{IterationsStart: 0})
//	for range steps {
//		cb.OnTrainingSingleIterationStart(ctx)
//		// ...
//		cb.OnTrainingSingleIterationEnd(ctx, callbacks.IterationEnd{Loss: callbacks.Some(loss)})
//	}
//	cb.OnTrainEnd(ctx)
//
// The package functions do the same over the default provider of the process
// (telemetry.SetDefault). Both do nothing without a provider, on a rank that
// is off, and after the application has ended.
//
// Every start gives a context that carries its span; a framework that cannot
// hand it on may drop it, since the spans find their parents without it: a
// callback's span hangs under the one that a callback opened last. A call that
// comes at the wrong time returns an error if the error strategy is to
// propagate errors, and nil otherwise. No error of a callback is a reason to
// stop training.
package callbacks
