package config

import "log/slog"

// ErrorStrategy says what happens to an error inside the telemetry code. The
// zero value means "not given"; see [Base.EffectiveErrorStrategy].
type ErrorStrategy string

// The error strategies. Their values are the spellings used in files.
const (
	// PropagateErrors hands every telemetry error to the caller.
	PropagateErrors ErrorStrategy = "propagate_exceptions"
	// DisableQuietly reports the first telemetry error to every exporter and
	// then switches telemetry off, so that training never notices.
	DisableQuietly ErrorStrategy = "disable_quietly_and_report_metric_error"
)

// LogLevel is the least severe message that the library logs about itself. The
// zero value means "not given"; see [Base.EffectiveLogLevel].
type LogLevel string

// The log levels, from the least to the most severe.
const (
	LogDebug    LogLevel = "DEBUG"
	LogInfo     LogLevel = "INFO"
	LogWarning  LogLevel = "WARNING"
	LogError    LogLevel = "ERROR"
	LogCritical LogLevel = "CRITICAL"
)

// Slog returns the level as log/slog counts it. Critical lies four above
// slog.LevelError; an unset or unknown level counts as [LogInfo].
func (l LogLevel) Slog() slog.Level {
	switch l {
	case LogDebug:
		return slog.LevelDebug
	case LogWarning:
		return slog.LevelWarn
	case LogError:
		return slog.LevelError
	case LogCritical:
		return slog.LevelError + 4
	}
	return slog.LevelInfo
}

// CheckpointStrategy says whether a checkpoint is written while training
// waits. The zero value counts as [CheckpointSync].
type CheckpointStrategy string

// The checkpoint strategies. Their values are the spellings used in files.
const (
	// CheckpointSync writes a checkpoint before training goes on.
	CheckpointSync CheckpointStrategy = "sync"
	// CheckpointAsync writes a checkpoint in the background.
	CheckpointAsync CheckpointStrategy = "async"
)

// ExportMode says which spans reach the exporters. The zero value means "not
// given" and counts as [Blacklist].
type ExportMode string

// The export modes. Their values are the spellings used in files.
const (
	// ExportAll exports every span.
	ExportAll ExportMode = "EXPORT_ALL_SPANS"
	// Whitelist exports only the spans named.
	Whitelist ExportMode = "WHITELIST_SPANS"
	// Blacklist exports every span but those named.
	Blacklist ExportMode = "BLACKLIST_SPANS"
)

// TraceDialect is the generation of a DFTracer trace. The zero value counts as
// [TraceV2].
type TraceDialect string

// The trace dialects, as package dftracer has them.
const (
	// TraceV1 is the first generation, with hashes as numbers.
	TraceV1 TraceDialect = "v1"
	// TraceV2 has hashes as hex strings; every known reader accepts it.
	TraceV2 TraceDialect = "v2"
	// TraceV22 is the newest, with numbers for phases and no brackets.
	TraceV22 TraceDialect = "v22"
)

// Protocol is the way OTLP travels. The zero value counts as [OTLPHTTP].
type Protocol string

// The OTLP protocols. Their values are those of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	OTLPGRPC Protocol = "grpc"
	OTLPHTTP Protocol = "http/protobuf"
)
