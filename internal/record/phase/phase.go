// Package phase has the places in the table of package spans of the phases of
// a training run, and the names of the calls that start and end them.
package phase

import "github.com/trainspan/trainspan/spans"

// Positions in the span table.
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

// Timed reports whether spans of that row run a timer.
func Timed(index int) bool { return index >= 0 && spans.At(index).Timed }

// Extension reports whether the reference does not know spans of that row.
func Extension(index int) bool { return index >= 0 && spans.At(index).Extension }

// Call is the name of a call: in records, which have the reference's name, and
// in Go.
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

// CallsOf returns the names of the calls that start and end a span of that row;
// of a span without a callback, -1 among them, those of the recorder.
func CallsOf(index int) Calls {
	if index < 0 || callbacks[index].Start.Record == "" {
		return Calls{Call{"start", "Start"}, Call{"stop", "Stop"}}
	}
	return callbacks[index]
}
