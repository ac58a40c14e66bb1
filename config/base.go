package config

import "time"

// Base describes the job: who it is, how many ranks it has, and how telemetry
// behaves in this one. Only ApplicationName is required; [Base.WithDefaults] says
// what holds for the rest. A Base may be copied; copies share Training and CustomMetadata until
// [Clone] parts them.
type Base struct {
	// ApplicationName names the application. It must hold more than blanks.
	ApplicationName string `key:"application_name" env:"TRAINSPAN_APPLICATION_NAME"`
	// SessionTag groups the runs that belong together. Unset, it names the job of
	// the launcher, or this run; with several ranks, which cannot agree on a name
	// for the run, it is the application name.
	SessionTag Var[string] `key:"session_tag" alias:"session_tag_or_fn" env:"TRAINSPAN_SESSION_TAG"`
	// WorldSize is the number of ranks of the job, at least 1. Unset is what the
	// launcher says, else 1.
	WorldSize Var[int] `key:"world_size" alias:"world_size_or_fn" env:"TRAINSPAN_WORLD_SIZE:launcher"`
	// IsBaselineRun marks a run that others are compared with. Unset is false.
	IsBaselineRun Var[bool] `key:"is_baseline_run" alias:"is_baseline_run_or_fn" env:"TRAINSPAN_IS_BASELINE_RUN"`
	// CustomMetadata travels with the first record of the job, in this order.
	CustomMetadata Metadata `key:"custom_metadata" env:"TRAINSPAN_CUSTOM_METADATA"`
	// ErrorStrategy says what happens to telemetry errors; empty is
	// DisableQuietly where telemetry is off for this rank, else PropagateErrors.
	ErrorStrategy ErrorStrategy `key:"error_strategy" alias:"error_handling_strategy" env:"TRAINSPAN_ERROR_STRATEGY"`
	// EnableForCurrentRank switches telemetry on in this process. Unset is true.
	EnableForCurrentRank Var[bool] `key:"enable_for_current_rank" env:"TRAINSPAN_ENABLE_FOR_CURRENT_RANK"`
	// Logger is about the library's own messages.
	Logger Logger `key:"logger" alias:"logger_config"`
	// SummaryDataSchemaVersion is reported as it stands; empty is "1.0.0".
	SummaryDataSchemaVersion string `key:"summary_data_schema_version" env:"TRAINSPAN_SUMMARY_DATA_SCHEMA_VERSION"`
	// ExplicitTimeWindow is how far from now a time given to a callback may
	// lie. Zero is 600 s, a negative window accepts every time.
	ExplicitTimeWindow time.Duration `key:"explicit_time_window" env:"TRAINSPAN_EXPLICIT_TIME_WINDOW"`
	// Training describes the training job; nil when it comes later or never.
	Training *Training `key:"training" alias:"telemetry_config"`
}

// Logger says how the library reports about itself.
type Logger struct {
	// Level is the least severe message logged: DEBUG, INFO, WARNING, ERROR or
	// CRITICAL; empty means INFO, or CRITICAL
	// where telemetry is off for this rank and no error strategy was given.
	Level string `key:"level" alias:"log_level" env:"TRAINSPAN_LOG_LEVEL"`
	// Format is the line format in Python's %-style; empty is
	// "%(name)s - %(levelname)s - %(message)s". It is read for files shared
	// with Python jobs and reported, and it does not shape slog's output.
	Format string `key:"format" alias:"log_format" env:"TRAINSPAN_LOG_FORMAT"`
	// InfoPath is the file to which messages of INFO and above are added as
	// lines of text, if Level lets them through; empty means no file: nothing is
	// written to the working directory unasked. {rank}, {pid} and {host} in it
	// are replaced; several processes may share a file.
	InfoPath string `key:"info_path" alias:"log_file_path_for_info" env:"TRAINSPAN_LOG_INFO_PATH"`
	// ErrorPath is the same for messages of ERROR and above.
	ErrorPath string `key:"error_path" alias:"log_file_path_for_err" env:"TRAINSPAN_LOG_ERROR_PATH"`
}
