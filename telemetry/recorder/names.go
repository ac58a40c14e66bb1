package recorder

import "github.com/trainspan/trainspan/spans"

// Positions in the span table of the spans that the recorder treats specially.
const (
	indexApplication     = 0
	indexDistributed     = 1
	indexDataLoaderInit  = 2
	indexModelInit       = 3
	indexOptimizerInit   = 4
	indexLoad            = 5
	indexTraining        = 6
	indexEpoch           = 7
	indexIteration       = 8
	indexDataLoading     = 9
	indexForward         = 10
	indexZeroGrad        = 11
	indexBackward        = 12
	indexOptimizerUpdate = 13
	indexSaveSync        = 14
	indexSaveAsync       = 15
	indexFinalize        = 16
	indexValidation      = 17
	indexValidationI     = 18
	indexTesting         = 19
	indexTestingI        = 20
)

// callName is the name of a call: in records, which have the reference's name,
// and in Go.
type callName struct{ record, text string }

// callNames are the names of the calls that start and end a span.
type callNames struct{ start, end callName }

func callback(record, text string) callNames {
	return callNames{
		callName{record + "_start", text + "Start"}, callName{record + "_end", text + "End"},
	}
}

var callbackNames = [spans.Count]callNames{
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

func namesOf(index int) callNames {
	if index < 0 || callbackNames[index].start.record == "" { // no callback is for it
		return callNames{callName{"start", "Start"}, callName{"stop", "Stop"}}
	}
	return callbackNames[index]
}
