package config

import "time"

// DefaultSchemaVersion is the summary data schema version that holds when
// [Base.SummaryDataSchemaVersion] is empty.
const DefaultSchemaVersion = "1.0.0"

// DefaultExplicitTimeWindow is how far an explicit time may lie from now when
// [Base.ExplicitTimeWindow] is zero.
const DefaultExplicitTimeWindow = 600 * time.Second

// Base describes the job: who it is, how many ranks it has, and how telemetry
// behaves in this one. ApplicationName, SessionTag and WorldSize are required.
// A Base may be copied; copies share Training and CustomMetadata until
// [Base.Clone] parts them.
type Base struct {
	// ApplicationName names the application. It must hold more than blanks.
	ApplicationName string `key:"application_name"`
	// SessionTag groups the runs that belong together.
	SessionTag Var[string] `key:"session_tag" alias:"session_tag_or_fn"`
	// WorldSize is the number of ranks of the job, at least 1.
	WorldSize Var[int] `key:"world_size" alias:"world_size_or_fn"`
	// IsBaselineRun marks a run that others are compared with. Unset is false.
	IsBaselineRun Var[bool] `key:"is_baseline_run" alias:"is_baseline_run_or_fn"`
	// CustomMetadata travels with the first record of the job, in this order.
	CustomMetadata Metadata `key:"custom_metadata"`
	// ErrorStrategy says what happens to telemetry errors; empty means that
	// EffectiveErrorStrategy decides.
	ErrorStrategy ErrorStrategy `key:"error_strategy" alias:"error_handling_strategy"`
	// EnableForCurrentRank switches telemetry on in this process. Unset is true.
	EnableForCurrentRank Var[bool] `key:"enable_for_current_rank"`
	// Logger is about the library's own messages.
	Logger Logger `key:"logger" alias:"logger_config"`
	// SummaryDataSchemaVersion is reported as it stands; empty is "1.0.0".
	SummaryDataSchemaVersion string `key:"summary_data_schema_version"`
	// ExplicitTimeWindow is how far from now a time given to a callback may
	// lie. Zero is 600 s, a negative window accepts every time.
	ExplicitTimeWindow time.Duration `key:"explicit_time_window"`
	// Training describes the training job; nil when it comes later or never.
	Training *Training `key:"training" alias:"telemetry_config"`
}

// Logger says how the library reports about itself.
type Logger struct {
	// Level is the least severe message logged; empty means INFO, or CRITICAL
	// as Base.EffectiveLogLevel tells.
	Level LogLevel `key:"level" alias:"log_level"`
	// Format is the line format in Python's %-style; empty is
	// "%(name)s - %(levelname)s - %(message)s". It is read for files shared
	// with Python jobs and reported, and it does not shape slog's output.
	Format string `key:"format" alias:"log_format"`
	// InfoPath is the file for messages of INFO and above; empty means no
	// file: nothing is written to the working directory unasked.
	InfoPath string `key:"info_path" alias:"log_file_path_for_info"`
	// ErrorPath is the file for messages of ERROR and above; empty as above.
	ErrorPath string `key:"error_path" alias:"log_file_path_for_err"`
}

// Enabled reports whether telemetry is on in this process. It calls the
// function of EnableForCurrentRank, if there is one.
func (b *Base) Enabled() bool { return b.EnableForCurrentRank.Or(true) }

// EffectiveErrorStrategy returns the strategy that holds: the one given, else
// [DisableQuietly] where telemetry is off for this rank, else [PropagateErrors].
func (b *Base) EffectiveErrorStrategy() ErrorStrategy {
	switch {
	case b.ErrorStrategy != "":
		return b.ErrorStrategy
	case !b.Enabled():
		return DisableQuietly
	}
	return PropagateErrors
}

// EffectiveLogLevel returns the log level that holds: the one given, else
// [LogCritical] where telemetry is off for this rank and no error strategy was
// given, else [LogInfo].
func (b *Base) EffectiveLogLevel() LogLevel {
	switch {
	case b.Logger.Level != "":
		return b.Logger.Level
	case b.ErrorStrategy == "" && !b.Enabled():
		return LogCritical
	}
	return LogInfo
}

// SchemaVersion returns SummaryDataSchemaVersion or its default.
func (b *Base) SchemaVersion() string {
	if b.SummaryDataSchemaVersion == "" {
		return DefaultSchemaVersion
	}
	return b.SummaryDataSchemaVersion
}

// TimeWindow returns how far an explicit time may lie from now. limited is
// false when every time is accepted; the window is then zero.
func (b *Base) TimeWindow() (window time.Duration, limited bool) {
	switch {
	case b.ExplicitTimeWindow < 0:
		return 0, false
	case b.ExplicitTimeWindow == 0:
		return DefaultExplicitTimeWindow, true
	}
	return b.ExplicitTimeWindow, true
}

// Clone returns a copy that shares no slice and no pointer with b. Functions
// are shared.
func (b *Base) Clone() Base {
	c := *b
	c.CustomMetadata = b.CustomMetadata.Clone()
	if b.Training != nil {
		t := b.Training.Clone()
		c.Training = &t
	}
	return c
}
