package telemetry

import "github.com/trainspan/trainspan/spans"

// Positions in the span table of the spans that the engine treats specially.
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

// verbs are the names by which the reference's messages call the callback
// that starts or ends a span.
type verbs struct{ start, end string }

var callbackNames = [spans.Count]verbs{
	{"on_app_start", "on_app_end"},
	{"on_distributed_init_start", "on_distributed_init_end"},
	{"on_dataloader_init_start", "on_dataloader_init_end"},
	{"on_model_init_start", "on_model_init_end"},
	{"on_optimizer_init_start", "on_optimizer_init_end"},
	{"on_load_checkpoint_start", "on_load_checkpoint_end"},
	{"on_train_start", "on_train_end"},
	{"on_epoch_start", "on_epoch_end"},
	{"on_training_single_iteration_start", "on_training_single_iteration_end"},
	{"on_data_loading_start", "on_data_loading_end"},
	{"on_model_forward_start", "on_model_forward_end"},
	{"on_zero_grad_start", "on_zero_grad_end"},
	{"on_model_backward_start", "on_model_backward_end"},
	{"on_optimizer_update_start", "on_optimizer_update_end"},
	{"on_save_checkpoint_start", "on_save_checkpoint_end"},
	{"on_save_checkpoint_start", "on_save_checkpoint_end"},
	{"on_checkpoint_finalization_start", "on_checkpoint_finalization_end"},
	{"on_validation_start", "on_validation_end"},
	{"on_validation_single_iteration_start", "on_validation_single_iteration_end"},
	{"on_testing_start", "on_testing_end"},
	{"on_testing_single_iteration_start", "on_testing_single_iteration_end"},
}

func verbsOf(index int) verbs {
	if index < 0 {
		return verbs{"start", "stop"}
	}
	return callbackNames[index]
}
