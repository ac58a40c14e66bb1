// Package phase defines the indexes of the phases of a training run in the table of
// package spans, and the names of the calls that start and end them.
package phase

import "github.com/trainspan/trainspan/spans"

// Indexes in the table of package spans.
const (
	Application         = 0
	Training            = 6
	Epoch               = 7
	Iteration           = 8
	DataLoading         = 9
	Forward             = 10
	Backward            = 12
	SaveSync            = 14
	SaveAsync           = 15
	Finalization        = 16
	Validation          = 17
	ValidationIteration = 18
	Testing             = 19
)

// Timed reports whether spans with that index run a timer.
func Timed(index int) bool { return index >= 0 && spans.At(index).Timed }

// Extension reports whether one-logger does not have spans with that index.
func Extension(index int) bool { return index >= 0 && spans.At(index).Extension }

// Call is the name of a call: in records, which use one-logger's name, and in Go.
type Call struct{ Record, Text string }

// Calls are the names of the calls that start and end a span.
type Calls struct{ Start, End Call }

func callback(record, text string) Calls {
	return Calls{
		Call{record + "_start", text + "Start"}, Call{record + "_end", text + "End"},
	}
}

var callbacks = [spans.Count]Calls{
	callback("on_app", "OnApp"),
	callback("on_distributed_init", "OnDistributedInit"),
	callback("on_dataloader_init", "OnDataLoaderInit"),
	callback("on_model_init", "OnModelInit"),
	callback("on_optimizer_init", "OnOptimizerInit"),
	callback("on_load_checkpoint", "OnLoadCheckpoint"),
	callback("on_train", "OnTrain"),
	callback("on_epoch", "OnEpoch"),
	callback("on_training_single_iteration", "OnTrainingSingleIteration"),
	callback("on_data_loading", "OnDataLoading"),
	callback("on_model_forward", "OnModelForward"),
	callback("on_zero_grad", "OnZeroGrad"),
	callback("on_model_backward", "OnModelBackward"),
	callback("on_optimizer_update", "OnOptimizerUpdate"),
	callback("on_save_checkpoint", "OnSaveCheckpoint"),
	callback("on_save_checkpoint", "OnSaveCheckpoint"),
	callback("on_checkpoint_finalization", "OnCheckpointFinalization"),
	callback("on_validation", "OnValidation"),
	callback("on_validation_single_iteration", "OnValidationSingleIteration"),
	callback("on_testing", "OnTesting"),
	callback("on_testing_single_iteration", "OnTestingSingleIteration"),
}

// CallsOf returns the names of the calls that start and end a span with that index. For
// a span without a callback, including index -1, these are the recorder's Start and
// Stop.
func CallsOf(index int) Calls {
	if index < 0 || callbacks[index].Start.Record == "" {
		return Calls{Call{"start", "Start"}, Call{"stop", "Stop"}}
	}
	return callbacks[index]
}
