package config

import (
	"cmp"
	"net/url"
	"strings"
	"time"
)

// Outputs configures where telemetry is written. An output is on if it is enabled, or if it has a
// destination and is not disabled.
type Outputs struct {
	// File is the JSON-lines file with the native records.
	File File `key:"file"`
	// Trace is the DFTracer trace.
	Trace Trace `key:"trace"`
	// OTLP sends spans, logs and metrics to a collector or backend.
	OTLP OTLP `key:"otlp"`
	// Prometheus lets a Prometheus server fetch the metrics.
	Prometheus Prometheus `key:"prometheus"`
}

// File is the JSON-lines output.
type File struct {
	// Enabled switches the output on or off.
	Enabled Var[bool] `key:"enabled" env:"TRAINSPAN_FILE_ENABLED" default:"on when there is a path"`
	// Path is the file to write. `{rank}`, `{pid}` and `{host}` are replaced.
	Path string `key:"path" env:"TRAINSPAN_FILE_PATH" rule:"path" default:"required when enabled"`
	// Compat writes one-logger's records byte for byte, without our additions.
	Compat Var[bool] `key:"compat" env:"TRAINSPAN_FILE_COMPAT" default:"false"`
	// Append adds the records to an existing file. Otherwise they go to the next free name,
	// `telemetry.run2.jsonl`.
	Append Var[bool] `key:"append" env:"TRAINSPAN_FILE_APPEND" default:"false"`
}

// Trace is the DFTracer trace output.
type Trace struct {
	// Enabled switches the output on or off.
	Enabled Var[bool] `key:"enabled" env:"DFTRACER_ENABLE" dftracer:"enable" default:"on when there is a path"`
	// Path is a prefix, or a file when it ends in `.pfw` or `.pfw.gz`. `{rank}`, `{pid}` and
	// `{host}` are replaced.
	Path string `key:"path" env:"DFTRACER_LOG_FILE" dftracer:"tracer.log_file,profiler.log_file" rule:"path" default:"./trace"`
	// Dialect is the generation of the format. Every known reader accepts v2.
	Dialect string `key:"dialect" env:"TRAINSPAN_TRACE_DIALECT" rule:"oneof=v1|v2|v22" default:"v2"`
	// Metadata adds arguments to events.
	Metadata Var[bool] `key:"metadata" env:"DFTRACER_INC_METADATA" dftracer:"features.metadata" default:"true"`
	// Compression writes the trace as gzip.
	Compression Var[bool] `key:"compression" env:"DFTRACER_TRACE_COMPRESSION" dftracer:"tracer.compression,profiler.compression" default:"true"`
	// BufferSize is the number of bytes of text in a buffer. A full buffer is written as one gzip
	// member.
	BufferSize int `key:"buffer_size" env:"DFTRACER_WRITE_BUFFER_SIZE" dftracer:"internal.write_buffer_size" rule:"min=0" default:"1048576"`
	// WriteInterval is the longest time that an event waits in the buffer.
	WriteInterval time.Duration `key:"write_interval" env:"DFTRACER_TRACE_INTERVAL_MS:ms" rule:"min=0" default:"500ms"`
	// CoreAffinity adds a record of the processors that this process may use.
	CoreAffinity Var[bool] `key:"core_affinity" env:"DFTRACER_SET_CORE_AFFINITY" dftracer:"features.core_affinity" default:"false"`
	// CommandLine adds the names of the program's flags. Values and other arguments are never
	// written.
	CommandLine Var[bool] `key:"command_line" env:"TRAINSPAN_TRACE_COMMAND_LINE" default:"false"`
	// TIDs writes the lane of an event as `tid`; otherwise it is 0.
	TIDs Var[bool] `key:"tids" env:"DFTRACER_DISABLE_TIDS:not" dftracer:"features.tid" default:"true"`
	// DataDirs lists the folders whose files are traced, if the program reads and writes them through
	// [iofs](../guide/recipes.md#file-access). `all` in the variable means all files. A name with a
	// scheme (`s3://bucket`) must be in a file, because the variable is split at `:`.
	DataDirs []string `key:"data_dirs" env:"DFTRACER_DATA_DIR:dirs" dftracer:"tracer.data_dirs,profiler.data_dirs" rule:"items" default:"all files"`
	// IO traces calls on files.
	IO Var[bool] `key:"io" env:"DFTRACER_DISABLE_IO:not" dftracer:"features.io.enable" default:"true"`
	// POSIX traces the calls of category `POSIX`, such as open64, read and pread.
	POSIX Var[bool] `key:"posix" env:"DFTRACER_DISABLE_POSIX:not" dftracer:"features.io.posix" default:"true"`
	// STDIO traces the calls of category `STDIO`, such as fread and fwrite.
	STDIO Var[bool] `key:"stdio" env:"DFTRACER_DISABLE_STDIO:not" dftracer:"features.io.stdio" default:"true"`
	// AggregateIO writes one record for all calls of a kind on a file in a second.
	AggregateIO Var[bool] `key:"aggregate_io" env:"TRAINSPAN_TRACE_AGGREGATE_IO" default:"false"`
}

// The values of [Trace.Dialect].
const (
	TraceV1  = "v1"  // the first generation, with hashes as numbers
	TraceV2  = "v2"  // hashes as hex strings
	TraceV22 = "v22" // numbers for phases, and no brackets
)

// OTLP is the output that sends spans, logs and metrics to an OTLP receiver. Each field follows the
// OTEL_EXPORTER_OTLP_* variable of its name.
type OTLP struct {
	// Enabled switches the output on or off. The variable switches it on if it lists `otlp`, and
	// off otherwise.
	Enabled Var[bool] `key:"enabled" env:"OTEL_TRACES_EXPORTER:exporters" default:"on when there is an endpoint"`
	// Protocol is how data is sent.
	Protocol string `key:"protocol" env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,OTEL_EXPORTER_OTLP_PROTOCOL" rule:"oneof=grpc|http/protobuf" default:"http/protobuf"`
	// Endpoint is the base URL of the receiver for all signals. With http, `/v1/traces`, `/v1/logs`
	// or `/v1/metrics` is added. With grpc host:port is accepted too.
	Endpoint string `key:"endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" clears:"traces_endpoint,logs_endpoint,metrics_endpoint" default:"http://localhost:4318, with grpc http://localhost:4317"`
	// TracesEndpoint is the URL for spans; it replaces Endpoint and nothing is added to it.
	TracesEndpoint string `key:"traces_endpoint" env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" default:"from endpoint"`
	// LogsEndpoint is the same for logs. Its default follows a TracesEndpoint that ends in
	// `/v1/traces`.
	LogsEndpoint string `key:"logs_endpoint" env:"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT" default:"from endpoint"`
	// MetricsEndpoint is the same for metrics.
	MetricsEndpoint string `key:"metrics_endpoint" env:"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" default:"from endpoint"`
	// Logs sends the events of open spans as log records while OTLP is on. The variable means true
	// if it lists `otlp`.
	Logs Var[bool] `key:"logs" env:"OTEL_LOGS_EXPORTER:exporters" default:"true"`
	// Metrics sends metrics while OTLP is on. The variable means true if it lists `otlp`.
	Metrics Var[bool] `key:"metrics" env:"OTEL_METRICS_EXPORTER:exporters" default:"true"`
	// MetricsInterval is the time between two exports of metrics.
	MetricsInterval time.Duration `key:"metrics_interval" env:"OTEL_METRIC_EXPORT_INTERVAL:ms" rule:"min=0" default:"1m"`
	// Headers are sent with every request. Their values are never shown.
	Headers Headers `key:"headers" env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS,OTEL_EXPORTER_OTLP_HEADERS"`
	// Timeout is the longest that one request may take.
	Timeout time.Duration `key:"timeout" env:"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,OTEL_EXPORTER_OTLP_TIMEOUT:ms" rule:"min=0" default:"10s"`
	// Compression is how requests are compressed.
	Compression string `key:"compression" env:"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION,OTEL_EXPORTER_OTLP_COMPRESSION" rule:"oneof=gzip|none" default:"none"`
	// Insecure switches TLS off with grpc, if the endpoint has no scheme.
	Insecure Var[bool] `key:"insecure" env:"OTEL_EXPORTER_OTLP_TRACES_INSECURE,OTEL_EXPORTER_OTLP_INSECURE" default:"false"`
	// Certificate is a PEM file with the authorities to trust.
	Certificate string `key:"certificate" env:"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE,OTEL_EXPORTER_OTLP_CERTIFICATE" default:"the system's"`
	// ClientCertificate is a PEM file; set it together with ClientKey.
	ClientCertificate string `key:"client_certificate" env:"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE,OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"`
	// ClientKey is a PEM file; set it together with ClientCertificate.
	ClientKey string `key:"client_key" env:"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY,OTEL_EXPORTER_OTLP_CLIENT_KEY"`
	// QueueSize is the number of spans that may wait to be sent. When it is full, spans are dropped
	// and counted, or moved to SpillDir.
	QueueSize int `key:"queue_size" env:"OTEL_BSP_MAX_QUEUE_SIZE" rule:"min=0" default:"2048"`
	// BatchSize is the most spans sent at once, at most QueueSize.
	BatchSize int `key:"batch_size" env:"OTEL_BSP_MAX_EXPORT_BATCH_SIZE" rule:"min=0" default:"512"`
	// BatchDelay is the longest that a span waits for its batch to fill.
	BatchDelay time.Duration `key:"batch_delay" env:"OTEL_BSP_SCHEDULE_DELAY:ms" rule:"min=0" default:"5s"`
	// SpillDir is the folder for spans that cannot be delivered; without one they are dropped. See
	// [OTLP](signals.md#otlp).
	SpillDir string `key:"spill_dir" env:"TRAINSPAN_OTLP_SPILL_DIR" rule:"nozero"`
	// SpillBytes is the most bytes of all files in SpillDir. Above it spans are dropped and counted.
	SpillBytes int `key:"spill_bytes" env:"TRAINSPAN_OTLP_SPILL_BYTES" rule:"min=0" default:"268435456"`
	// Segment is how long a long span may stay open before a finished segment of it is sent.
	// Negative sends such spans in one piece.
	Segment time.Duration `key:"segment" env:"TRAINSPAN_OTLP_SEGMENT" default:"10m"`
	// TraceSplit is when a new trace begins; see [OTLP](signals.md#otlp).
	TraceSplit string `key:"trace_split" env:"TRAINSPAN_OTLP_TRACE_SPLIT" rule:"oneof=per-attempt|per-epoch|per-window" default:"per-attempt"`
	// TraceWindow is the number of training iterations in one trace with per-window.
	TraceWindow int `key:"trace_window" env:"TRAINSPAN_OTLP_TRACE_WINDOW" rule:"min=0" default:"1000"`
	// TraceBudget is the most spans of one trace over all ranks, at least 32. Negative is no limit.
	TraceBudget int `key:"trace_budget" env:"TRAINSPAN_OTLP_TRACE_BUDGET" default:"20000"`
	// perSignal holds the values of single signals, nil if no variable sets one.
	perSignal *signalValues
}

// The values of [OTLP.Protocol], as OTEL_EXPORTER_OTLP_PROTOCOL has them.
const (
	OTLPGRPC = "grpc"
	OTLPHTTP = "http/protobuf"
)

// Traces configures how the spans of a run are spread over traces, so that a backend can open each
// of them, as TraceSplit, TraceWindow and TraceBudget of [OTLP]. A rank keeps to its share of the
// budget; a trace that is full is followed by another one. The zero Traces is one trace for each
// start of the job, with the default budget.
type Traces struct {
	Split          string
	Window, Budget int
}

// The values of [Traces.Split] and [OTLP.TraceSplit].
const (
	TracePerAttempt = "per-attempt" // one trace for each start of the job
	TracePerEpoch   = "per-epoch"   // a trace for every epoch
	TracePerWindow  = "per-window"  // a trace for every window of iterations
)

// MinTraceBudget is the smallest share of the budget of a trace that one rank is given.
const MinTraceBudget = 32

// Prometheus is the output that metrics can be fetched from by http. It is on when it has an
// address.
type Prometheus struct {
	// Address is the host:port on which metrics can be fetched, such as `127.0.0.1:9464`; port 0
	// takes a free one. It must be on loopback.
	Address string `key:"address" env:"TRAINSPAN_PROMETHEUS_ADDRESS" default:"off"`
	// AllowRemote accepts an address that other machines can reach, without authentication.
	AllowRemote Var[bool] `key:"allow_remote" env:"TRAINSPAN_PROMETHEUS_ALLOW_REMOTE" default:"false"`
}

// TracesURL returns the address for spans: TracesEndpoint as it is, else
// Endpoint or the protocol's default, to which http/protobuf adds /v1/traces.
// With grpc it may be a bare host:port.
func (o *OTLP) TracesURL() string { return o.signalURL(o.TracesEndpoint, "traces") }

// LogsURL returns the address for logs. If only a TracesEndpoint is set, logs
// go to the same receiver if that address shows the one for logs; otherwise
// LogsURL is empty and nothing is sent.
func (o *OTLP) LogsURL() string { return o.signalURL(o.LogsEndpoint, "logs") }

// MetricsURL returns the address for metrics, with the rules of LogsURL.
func (o *OTLP) MetricsURL() string { return o.signalURL(o.MetricsEndpoint, "metrics") }

func (o *OTLP) signalURL(own, signal string) string {
	grpc, beside := o.Protocol == OTLPGRPC, o.Endpoint == "" && o.TracesEndpoint != ""
	base, below := strings.CutSuffix(o.TracesEndpoint, "v1/traces")
	switch {
	case own != "":
		return own
	case beside && grpc:
		return o.TracesEndpoint
	case beside && below:
		return base + "v1/" + signal
	case beside:
		return ""
	case grpc: // the defaults of the OpenTelemetry specification
		return cmp.Or(o.Endpoint, "http://localhost:4317")
	}
	u, err := url.Parse(cmp.Or(o.Endpoint, "http://localhost:4318"))
	if err != nil {
		return strings.TrimSuffix(o.Endpoint, "/") + "/v1/" + signal
	}
	return u.JoinPath("v1", signal).String()
}
