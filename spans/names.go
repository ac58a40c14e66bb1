// Package spans defines the names of spans and events, and the table that maps
// the training-telemetry names to DFTracer's.
//
//	info, ok := spans.Lookup(spans.ModelForward)
//	// info.Category == "compute", info.Event == "forward"
package spans

// Names of the standard spans in one-logger's spelling (TestingIteration really
// is in upper case there).
const (
	Application       = "application"
	DistributedInit   = "distributed_code_initialization"
	DataLoaderInit    = "data_loader_initialization"
	ModelInit         = "model_initialization"
	OptimizerInit     = "optimizer_initialization"
	CheckpointLoad    = "checkpoint_load"
	TrainingLoop      = "training_loop"
	TrainingIteration = "training_single_iteration"
	DataLoading       = "data_loading"
	ModelForward      = "model_forward"
	ZeroGrad          = "zero_grad"
	ModelBackward     = "model_backward"
	OptimizerUpdate   = "optimizer_update"
	// CheckpointSave starts a span named CheckpointSaveSync or CheckpointSaveAsync,
	// as configured. No span has this name itself.
	CheckpointSave             = "checkpoint_save"
	CheckpointSaveSync         = "checkpoint_save_sync"
	CheckpointSaveAsync        = "checkpoint_save_async"
	CheckpointSaveFinalization = "checkpoint_save_finalization"
	ValidationLoop             = "validation_loop"
	ValidationIteration        = "validation_single_iteration"
	TestingLoop                = "testing_loop"
	TestingIteration           = "TESTING_SINGLE_ITERATION"

	// Epoch is not in one-logger's grammar, which has no span for an epoch.
	Epoch = "epoch"

	// The parts of a start are not in one-logger's grammar either: what a process
	// does before training, except for the initializations. In a trace they have
	// the category startup and the last word as their name. Goodput accounting has
	// a category for each.
	StartupInterpreter = "startup_interpreter" // until the program's first line
	StartupImports     = "startup_imports"     // importing libraries
	StartupRendezvous  = "startup_rendezvous"  // waiting for the other processes
	StartupDevice      = "startup_device"      // opening a device and loading its libraries
	StartupModel       = "startup_model"       // moving the model to its device, wrapping it
	StartupFirstBatch  = "startup_first_batch" // until the loader returns its first batch
	StartupCompile     = "startup_compile"     // compilation before the first step

	// GraphCompile is in neither one-logger's grammar nor the table: a span for
	// building and compiling a graph, started by telemetry.Provider.StartSpan.
	// Goodput accounting counts it as warm-up. Its category is CategoryCompile.
	GraphCompile = "graph_compile"
)

// CategoryCompile is the DFTracer category of building and compiling device
// programs.
const CategoryCompile = "compile"

// Attributes that set the category and the name of an OpenTelemetry span in a
// trace file. They do not become arguments there.
const (
	AttrCategory = "dftracer.cat"
	AttrName     = "dftracer.name"
)

// Names of the events.
const (
	EventSpanStart                     = "span_start"
	EventSpanStop                      = "span_stop"
	EventError                         = "error"
	EventTelemetryDataError            = "telemetry_data_error"
	EventOneLoggerInitialization       = "one_logger_initialization"
	EventUpdateTrainingTelemetryConfig = "update_training_telemetry_config"
	EventTrainingMetricsUpdate         = "training_metrics_update"
	EventValidationMetricsUpdate       = "validation_metrics_update"
	EventTestingMetricsUpdate          = "testing_metrics_update"
	EventSaveCheckpointSuccess         = "save_checkpoint_success"
	EventSyncCheckpointMetricsUpdate   = "sync_checkpoint_metrics_update"

	// EventSaveCheckpointFailure and EventAsyncCheckpointMetricsUpdate are not in
	// one-logger's grammar, which reports neither failed saves nor the time of
	// asynchronous ones.
	EventSaveCheckpointFailure        = "save_checkpoint_failure"
	EventAsyncCheckpointMetricsUpdate = "async_checkpoint_metrics_update"
)
