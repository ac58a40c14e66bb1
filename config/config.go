// Package config defines the structs that describe one training job's
// telemetry, and reads them from YAML or JSON files, from the environment and
// from code. It opens no exporter and no connection, and names every problem of
// a configuration at once.
//
// A configuration written in code is a composite literal:
//
//	base := config.Base{
//		ApplicationName: "charlm",
//		SessionTag:      config.Value("run-42"),
//		WorldSize:       config.Func(func() int { return 4 }),
//		Training:        &config.Training{GlobalBatchSize: config.Value(32)},
//	}
//	if err := base.Validate(); err != nil {
//		return err
//	}
//
// The zero value of every field means "not given"; [Base.WithDefaults] fills in
// the defaults. Only the application name is required.
//
// [Load] merges a file, the environment and code: code takes precedence over
// the environment, and the environment over the file. [DetectRanks] reads the
// variables that launchers set. Nothing in this package reads the environment
// before one of them is called.
//
// The tags of a field describe it completely: key is its name in a file, alias
// the name that one-logger gives it, env its variables, the strongest first,
// and how their text is written, dftracer its keys in DFTracer's own file, rule
// the values that are allowed, default the value without a setting, and clears
// the fields of weaker sources that it replaces.
// docs/reference/configuration.md has the same reference as a page.
package config

import "time"

// Config is the root of a configuration file: the job, which spans are
// exported, and where to. Its zero value configures no output.
type Config struct {
	// Base describes the job. In a file its fields stand at the top level.
	Base
	// Export chooses the spans for the native exporters.
	Export Export `key:"export"`
	// Outputs configures what is written where.
	Outputs Outputs `key:"outputs"`
	// OTel holds the settings of OpenTelemetry as a whole.
	OTel OTel `key:"otel"`
	// Ranks is this process's place in the job. The environment or code sets it. A file cannot,
	// because it serves all ranks.
	Ranks Ranks
	// Warnings lists what [Load] found suspicious but accepted, such as a variable with a
	// misspelt name. trainspan.Start logs it.
	Warnings []Problem
	// origins holds where [Load] found the settings and sections, for the positions
	// in problems.
	origins map[string]origin
}

// Base describes the job: who it is, how many ranks it has, and how telemetry behaves in this one.
// A Base may be copied; copies share Training and CustomMetadata unless made with [Clone].
type Base struct {
	// ApplicationName names the application. It must not be blank.
	ApplicationName string `key:"application_name" env:"TRAINSPAN_APPLICATION_NAME" rule:"filled" default:"the service name"`
	// SessionTag groups the runs that belong together.
	SessionTag Var[string] `key:"session_tag" alias:"session_tag_or_fn" env:"TRAINSPAN_SESSION_TAG" default:"the launcher's job, or this run"`
	// WorldSize is the number of ranks of the job.
	WorldSize Var[int] `key:"world_size" alias:"world_size_or_fn" env:"TRAINSPAN_WORLD_SIZE:launcher" rule:"min=1" default:"the launcher's, else 1"`
	// IsBaselineRun marks a run that others are compared with.
	IsBaselineRun Var[bool] `key:"is_baseline_run" alias:"is_baseline_run_or_fn" env:"TRAINSPAN_IS_BASELINE_RUN" default:"false"`
	// CustomMetadata is written with the first record of the job, in this order. Values are texts,
	// bools, numbers or lists of these.
	CustomMetadata Metadata `key:"custom_metadata" env:"TRAINSPAN_CUSTOM_METADATA" rule:"keys"`
	// ErrorStrategy is what happens to errors inside telemetry.
	ErrorStrategy ErrorStrategy `key:"error_strategy" alias:"error_handling_strategy" env:"TRAINSPAN_ERROR_STRATEGY" rule:"oneof=propagate_exceptions|disable_quietly_and_report_metric_error" default:"see [disabled ranks](#disabled-ranks)"`
	// EnableForCurrentRank switches telemetry on in this process.
	EnableForCurrentRank Var[bool] `key:"enable_for_current_rank" env:"TRAINSPAN_ENABLE_FOR_CURRENT_RANK" rule:"called" default:"true"`
	// Logger configures the library's own messages.
	Logger Logger `key:"logger" alias:"logger_config"`
	// SummaryDataSchemaVersion is only recorded.
	SummaryDataSchemaVersion string `key:"summary_data_schema_version" env:"TRAINSPAN_SUMMARY_DATA_SCHEMA_VERSION" default:"1.0.0"`
	// ExplicitTimeWindow is how far from now a time given to a callback may be. A negative value
	// accepts every time.
	ExplicitTimeWindow time.Duration `key:"explicit_time_window" env:"TRAINSPAN_EXPLICIT_TIME_WINDOW" default:"10m"`
	// Training describes the training job; nil when it comes later or never.
	Training *Training `key:"training" alias:"telemetry_config"`
}

// Logger configures the library's own messages.
type Logger struct {
	// Level is the least severe level that is logged.
	Level string `key:"level" alias:"log_level" env:"TRAINSPAN_LOG_LEVEL" rule:"oneof=DEBUG|INFO|WARNING|ERROR|CRITICAL" default:"INFO, see [disabled ranks](#disabled-ranks)"`
	// Format is a line format in Python's %-style, for Python jobs that share the file.
	Format string `key:"format" alias:"log_format" env:"TRAINSPAN_LOG_FORMAT" default:"%(name)s - %(levelname)s - %(message)s"`
	// InfoPath is a file for messages of INFO and above, as lines of text. `{rank}`, `{pid}` and
	// `{host}` are replaced; processes may share a file.
	InfoPath string `key:"info_path" alias:"log_file_path_for_info" env:"TRAINSPAN_LOG_INFO_PATH" rule:"path" default:"no file"`
	// ErrorPath is the same for messages of ERROR and above.
	ErrorPath string `key:"error_path" alias:"log_file_path_for_err" env:"TRAINSPAN_LOG_ERROR_PATH" rule:"path" default:"no file"`
}

// Training describes the training job. An unset number is unknown, and figures that need it are
// not reported.
type Training struct {
	// PerfTag names the configuration that determines the performance, so that equal jobs are
	// compared. A list counts as PerfTags.
	PerfTag Var[string] `key:"perf_tag" alias:"perf_tag_or_fn" env:"TRAINSPAN_PERF_TAG" clears:"perf_tags" default:"the application name"`
	// PerfTags replaces PerfTag for a job with several tags. A list of one stays a list in the
	// records. The stronger source of the two decides.
	PerfTags Var[[]string] `key:"perf_tags" env:"TRAINSPAN_PERF_TAGS" clears:"perf_tag"`
	// GlobalBatchSize is the number of samples in one iteration over all ranks.
	GlobalBatchSize Var[int] `key:"global_batch_size" alias:"global_batch_size_or_fn" env:"TRAINSPAN_GLOBAL_BATCH_SIZE" rule:"min=1"`
	// MicroBatchSize is the number of samples that one rank handles at once.
	MicroBatchSize Var[int] `key:"micro_batch_size" alias:"micro_batch_size_or_fn" env:"TRAINSPAN_MICRO_BATCH_SIZE"`
	// SeqLength is the number of tokens in one sample.
	SeqLength Var[int] `key:"seq_length" alias:"seq_length_or_fn" env:"TRAINSPAN_SEQ_LENGTH"`
	// FlopsPerSample is the number of floating point operations of one sample. It must be positive
	// if throughput is logged.
	FlopsPerSample Var[int] `key:"flops_per_sample" alias:"flops_per_sample_or_fn" env:"TRAINSPAN_FLOPS_PER_SAMPLE"`
	// PeakFlops is the number of operations that one device can do in a second, dense and of the
	// data type in use, for [MFU](../guide/report.md#limits).
	PeakFlops Var[int] `key:"peak_flops" env:"TRAINSPAN_PEAK_FLOPS"`
	// TrainIterationsTarget is the planned number of iterations.
	TrainIterationsTarget Var[int] `key:"train_iterations_target" alias:"train_iterations_target_or_fn" env:"TRAINSPAN_TRAIN_ITERATIONS_TARGET"`
	// TrainSamplesTarget is the planned number of samples.
	TrainSamplesTarget Var[int] `key:"train_samples_target" alias:"train_samples_target_or_fn" env:"TRAINSPAN_TRAIN_SAMPLES_TARGET"`
	// LogEveryNTrainIterations is the number of iterations between two metrics updates.
	LogEveryNTrainIterations Var[int] `key:"log_every_n_train_iterations" env:"TRAINSPAN_LOG_EVERY_N_TRAIN_ITERATIONS" rule:"min=1" default:"50"`
	// IsLogThroughputEnabled asks for throughput figures.
	IsLogThroughputEnabled Var[bool] `key:"is_log_throughput_enabled" alias:"is_log_throughput_enabled_or_fn" env:"TRAINSPAN_IS_LOG_THROUGHPUT_ENABLED" rule:"called" default:"false"`
	// IsTrainIterationsEnabled is only recorded.
	IsTrainIterationsEnabled Var[bool] `key:"is_train_iterations_enabled" alias:"is_train_iterations_enabled_or_fn" env:"TRAINSPAN_IS_TRAIN_ITERATIONS_ENABLED" default:"true"`
	// IsValidationIterationsEnabled is only recorded.
	IsValidationIterationsEnabled Var[bool] `key:"is_validation_iterations_enabled" alias:"is_validation_iterations_enabled_or_fn" env:"TRAINSPAN_IS_VALIDATION_ITERATIONS_ENABLED" default:"true"`
	// IsTestIterationsEnabled is only recorded.
	IsTestIterationsEnabled Var[bool] `key:"is_test_iterations_enabled" alias:"is_test_iterations_enabled_or_fn" env:"TRAINSPAN_IS_TEST_ITERATIONS_ENABLED" default:"true"`
	// IsSaveCheckpointEnabled asks for checkpoint metrics.
	IsSaveCheckpointEnabled Var[bool] `key:"is_save_checkpoint_enabled" alias:"is_save_checkpoint_enabled_or_fn" env:"TRAINSPAN_IS_SAVE_CHECKPOINT_ENABLED" default:"true"`
	// SaveCheckpointStrategy is how checkpoints are written: before training goes on, or in the
	// background.
	SaveCheckpointStrategy string `key:"save_checkpoint_strategy" env:"TRAINSPAN_SAVE_CHECKPOINT_STRATEGY" rule:"oneof=sync|async" default:"sync"`
	// CustomMetadata is written with the training configuration. A blank key is accepted.
	CustomMetadata Metadata `key:"custom_metadata" env:"TRAINSPAN_TRAINING_CUSTOM_METADATA"`
}

// Export selects the spans that reach the native exporters. The zero value is the default:
// everything but the spans of single iterations. The filter looks only at a span's own name, never
// at its parents.
type Export struct {
	// Mode is the meaning of SpanNames.
	Mode string `key:"mode" env:"TRAINSPAN_EXPORT_MODE" rule:"oneof=EXPORT_ALL_SPANS|WHITELIST_SPANS|BLACKLIST_SPANS" default:"BLACKLIST_SPANS"`
	// SpanNames lists the spans of a whitelist or a blacklist; any text is a span name. Leave it
	// empty to export all.
	SpanNames []string `key:"span_names" env:"TRAINSPAN_EXPORT_SPAN_NAMES" rule:"items" default:"the spans of single iterations"`
}

// UsesDefaultNames reports whether the default names are meant: a blacklist without a list of its
// own.
func (e *Export) UsesDefaultNames() bool {
	return (e.Mode == "" || e.Mode == Blacklist) && e.SpanNames == nil
}

// OTel holds the settings of OpenTelemetry as a whole.
type OTel struct {
	// SDKDisabled switches off everything that goes through OpenTelemetry; the file and the trace
	// are still written.
	SDKDisabled Var[bool] `key:"sdk_disabled" env:"OTEL_SDK_DISABLED" default:"false"`
	// ServiceName is the resource's service.name; it replaces the same key of ResourceAttributes.
	ServiceName string `key:"service_name" env:"OTEL_SERVICE_NAME" default:"the resource attribute, else the application name"`
	// ResourceAttributes describe the process. Values are texts, bools or numbers.
	ResourceAttributes Metadata `key:"resource_attributes" env:"OTEL_RESOURCE_ATTRIBUTES" rule:"keys=scalars"`
}

// ErrorStrategy is what happens to an error inside the telemetry code. The zero value means "not
// given"; see [Base.WithDefaults].
type ErrorStrategy string

// The error strategies. Their values are the spellings used in files.
const (
	// PropagateErrors hands every telemetry error to the caller.
	PropagateErrors ErrorStrategy = "propagate_exceptions"
	// DisableQuietly reports the first telemetry error to every exporter and then switches
	// telemetry off, so that training never notices.
	DisableQuietly ErrorStrategy = "disable_quietly_and_report_metric_error"
)

// The values of [Training.SaveCheckpointStrategy].
const (
	CheckpointSync  = "sync"
	CheckpointAsync = "async"
)

// The values of [Export.Mode].
const (
	ExportAll = "EXPORT_ALL_SPANS"
	Whitelist = "WHITELIST_SPANS" // only the spans named
	Blacklist = "BLACKLIST_SPANS" // every span but those named
)
