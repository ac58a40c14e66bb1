package config

// ErrorStrategy says what happens to an error inside the telemetry code. The
// zero value means "not given"; see [Base.WithDefaults].
type ErrorStrategy string

// The error strategies. Their values are the spellings used in files.
const (
	// PropagateErrors hands every telemetry error to the caller.
	PropagateErrors ErrorStrategy = "propagate_exceptions"
	// DisableQuietly reports the first telemetry error to every exporter and
	// then switches telemetry off, so that training never notices.
	DisableQuietly ErrorStrategy = "disable_quietly_and_report_metric_error"
)

// The values of [Training.SaveCheckpointStrategy].
const (
	// CheckpointSync writes a checkpoint before training goes on.
	CheckpointSync = "sync"
	// CheckpointAsync writes a checkpoint in the background.
	CheckpointAsync = "async"
)

// The values of [Export.Mode].
const (
	// ExportAll exports every span.
	ExportAll = "EXPORT_ALL_SPANS"
	// Whitelist exports only the spans named.
	Whitelist = "WHITELIST_SPANS"
	// Blacklist exports every span but those named.
	Blacklist = "BLACKLIST_SPANS"
)

// The values of [Trace.Dialect].
const (
	// TraceV1 is the first generation of the format, with hashes as numbers.
	TraceV1 = "v1"
	// TraceV2 has hashes as hex strings; every known reader accepts it.
	TraceV2 = "v2"
	// TraceV22 is the newest, with numbers for phases and no brackets.
	TraceV22 = "v22"
)

// The values of [OTLP.Protocol], as OTEL_EXPORTER_OTLP_PROTOCOL has them.
const (
	OTLPGRPC = "grpc"
	OTLPHTTP = "http/protobuf"
)
