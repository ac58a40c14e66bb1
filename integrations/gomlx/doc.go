// Package gomlxspan records training with GoMLX. It needs one line between the
// creation of the loop and its first run.
//
//	run := gomlxspan.Attach(tel, loop, nil)
//	defer run.End(&err)
//	_, err = loop.RunEpochs(run.Train(dataset), 10)
//
// The trace then has the application, each run of the loop, its epochs
// (RunEpochs), the wait for each batch, each step with its loss and samples,
// and the building and compiling of each graph. Wrappers record the other parts
// of a job:
//
//	handler, err := run.Load(checkpoint.Build(store).Dir(dir))                   // before creating the loop
//	saver := run.Saver(handler)                                                  // in place of handler
//	train.EveryNSteps(loop, 100, "checkpoint", 100, saver.SaveOnStepFn)
//	metrics, err := trainer.Eval(run.Validation(dataset))
//	return run.Stop("the loss is low enough")                                    // from a hook: an early stop
//
// A step of GoMLX is one graph, so forward, backward and update cannot be
// separated. The step is one event compute/step with the argument fused, which
// names the three. GoMLX compiles a graph when it is first used with the shapes
// of a batch; this is a separate span, graph_compile, which goodput accounting
// counts as warm-up.
//
// If the loop gets a dataset without [Run.Train], only the ends of its steps
// are known: each step begins at the end of the previous one and includes the
// wait for its batch.
//
// The loop calls OnEnd only on success. If a run ends with an error or a panic,
// the wrapper sees that the loop stops reading its dataset in the middle; the
// step and the loop then end as failed. [Run.End] ends all open spans, with the
// error.
//
// A Run is for the goroutine of its loop. With a nil provider all calls go to
// GoMLX without recording.
package gomlxspan
