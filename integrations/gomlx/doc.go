// Package gomlxspan records training with GoMLX: one line between the loop and its
// first run.
//
//	run := gomlxspan.Attach(tel, loop, nil)
//	defer run.End(&err)
//	_, err = loop.RunEpochs(run.Train(dataset), 10)
//
// The trace then has the application, each run of the loop, its epochs
// (RunEpochs), the wait for each batch, each step with its loss and samples, and the
// building and compiling of each graph. What else a job does is recorded by
// wrapping it:
//
//	handler, err := run.Load(checkpoint.Build(store).Dir(dir))                   // before the loop is made
//	saver := run.Saver(handler)                                                  // in place of handler
//	train.EveryNSteps(loop, 100, "checkpoint", 100, saver.SaveOnStepFn)
//	metrics, err := trainer.Eval(run.Validation(dataset))
//	return run.Stop("the loss is low enough")                                    // from a hook: an early stop
//
// A step of GoMLX is one graph: forward, backward and update cannot be told apart.
// It is recorded as one event compute/step whose argument fused says so. A graph
// is compiled when it is first used with the shapes of a batch; that is a span of
// its own, graph_compile, which the goodput ledger counts as warm-up.
//
// Where the loop is given a dataset without [Run.Train] its steps are known by their
// ends alone: each begins where the last one ended, and what it waited for its batch
// is part of it.
//
// The loop calls OnEnd only when all went well. A run that ends by an error or a
// panic is noticed where its dataset is left in the middle; its step and its loop
// then end as failed. [Run.End] ends what is still open, with the error itself.
//
// A Run is for the goroutine of its loop. A nil provider makes everything a plain
// call.
package gomlxspan
