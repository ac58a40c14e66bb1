package config

import (
	"net/url"
	"strings"
	"time"
)

// Where spans go if no endpoint is given, as the OpenTelemetry specification has
// it.
const (
	defaultGRPCEndpoint = "http://localhost:4317"
	defaultHTTPEndpoint = "http://localhost:4318"
)

// OTLP is the output that sends spans, logs and metrics to an OTLP receiver.
// Each field follows the OTEL_EXPORTER_OTLP_* variable of its name.
type OTLP struct {
	// Enabled switches the output on or off; unset means on when an endpoint
	// is given.
	Enabled Var[bool] `key:"enabled" env:"OTEL_TRACES_EXPORTER:exporters"`
	// Protocol is grpc or http/protobuf; empty is http/protobuf.
	Protocol string `key:"protocol" env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,OTEL_EXPORTER_OTLP_PROTOCOL"`
	// Endpoint is the base URL of the receiver for all signals; with
	// http/protobuf, /v1/traces, /v1/logs or /v1/metrics is added to it. A bare
	// host:port is accepted with grpc.
	Endpoint string `key:"endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	// TracesEndpoint is the URL for spans, used as it stands; it wins over
	// Endpoint. A source that gives only Endpoint takes back the
	// TracesEndpoint of weaker sources.
	TracesEndpoint string `key:"traces_endpoint" env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"`
	// LogsEndpoint and MetricsEndpoint are the same for logs and metrics.
	LogsEndpoint    string `key:"logs_endpoint" env:"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"`
	MetricsEndpoint string `key:"metrics_endpoint" env:"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"`
	// Logs says whether the events of spans that are still open are sent as
	// log records. Unset is true, where LogsURL knows an address.
	Logs Var[bool] `key:"logs" env:"OTEL_LOGS_EXPORTER:exporters"`
	// Metrics says whether metrics are sent. Unset is true, where MetricsURL
	// knows an address.
	Metrics Var[bool] `key:"metrics" env:"OTEL_METRICS_EXPORTER:exporters"`
	// MetricsInterval is the time between two exports of metrics. Zero is one
	// minute.
	MetricsInterval time.Duration `key:"metrics_interval" env:"OTEL_METRIC_EXPORT_INTERVAL:ms"`
	// Headers are sent with every request. They never appear in print.
	Headers Headers `key:"headers" env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS,OTEL_EXPORTER_OTLP_HEADERS"`
	// Timeout is the longest that one request may take. Zero is 10 s.
	Timeout time.Duration `key:"timeout" env:"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,OTEL_EXPORTER_OTLP_TIMEOUT:ms"`
	// Compression is "gzip" or "none"; empty is none.
	Compression string `key:"compression" env:"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION,OTEL_EXPORTER_OTLP_COMPRESSION"`
	// Insecure asks for a plain connection with grpc where the endpoint has no
	// scheme to say so. Unset is false.
	Insecure Var[bool] `key:"insecure" env:"OTEL_EXPORTER_OTLP_TRACES_INSECURE,OTEL_EXPORTER_OTLP_INSECURE"`
	// Certificate is a PEM file with the authorities to trust.
	Certificate string `key:"certificate" env:"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE,OTEL_EXPORTER_OTLP_CERTIFICATE"`
	// ClientCertificate and ClientKey are PEM files that prove who we are;
	// both or neither.
	ClientCertificate string `key:"client_certificate" env:"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE,OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"`
	ClientKey         string `key:"client_key" env:"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY,OTEL_EXPORTER_OTLP_CLIENT_KEY"`
	// QueueSize is the number of spans that may wait to be sent; when it is
	// full, spans are dropped and counted, or, with a SpillDir, moved there.
	// Zero is the SDK's 2048.
	QueueSize int `key:"queue_size" env:"OTEL_BSP_MAX_QUEUE_SIZE"`
	// BatchSize is the most spans sent at once, at most QueueSize. Zero is the
	// SDK's 512.
	BatchSize int `key:"batch_size" env:"OTEL_BSP_MAX_EXPORT_BATCH_SIZE"`
	// BatchDelay is the longest that a span waits for its batch to fill. Zero
	// is the SDK's 5 s.
	BatchDelay time.Duration `key:"batch_delay" env:"OTEL_BSP_SCHEDULE_DELAY:ms"`
	// SpillDir is the folder where spans are written that cannot be delivered;
	// empty means that they are dropped. It is made when it is first needed.
	SpillDir string `key:"spill_dir" env:"TRAINSPAN_OTLP_SPILL_DIR"`
	// SpillBytes bounds the files in SpillDir, those of other processes and of
	// earlier runs included. Past it spans are dropped and counted. Zero is
	// 256 MiB.
	SpillBytes int `key:"spill_bytes" env:"TRAINSPAN_OTLP_SPILL_BYTES"`
	// Segment is how long a span of the long kind may stay open before a
	// finished segment of it is sent. Zero is ten minutes, negative sends such
	// spans in one piece.
	Segment time.Duration `key:"segment" env:"TRAINSPAN_OTLP_SEGMENT"`
	// TraceSplit, TraceWindow and TraceBudget say how the spans of a run are
	// spread over traces; see [Traces].
	TraceSplit  string `key:"trace_split" env:"TRAINSPAN_OTLP_TRACE_SPLIT"`
	TraceWindow int    `key:"trace_window" env:"TRAINSPAN_OTLP_TRACE_WINDOW"`
	TraceBudget int    `key:"trace_budget" env:"TRAINSPAN_OTLP_TRACE_BUDGET"`
}

// TracesURL returns the address that spans go to: TracesEndpoint as it stands,
// else Endpoint or the protocol's default, to which http/protobuf adds
// /v1/traces. With grpc it may be a bare host:port.
func (o *OTLP) TracesURL() string {
	if o.TracesEndpoint != "" {
		return o.TracesEndpoint
	}
	return o.signalURL("v1/traces")
}

// LogsURL is what TracesURL is to spans. Where only a TracesEndpoint is given,
// logs go to the same receiver, if that address tells where its logs belong;
// else LogsURL is empty: nothing is sent to a place that nobody chose.
func (o *OTLP) LogsURL() string { return o.besides(o.LogsEndpoint, "v1/logs") }

// MetricsURL is what LogsURL is, for metrics.
func (o *OTLP) MetricsURL() string { return o.besides(o.MetricsEndpoint, "v1/metrics") }

// besides is the address of a signal that goes where the spans go.
func (o *OTLP) besides(own, path string) string {
	switch {
	case own != "":
		return own
	case o.Endpoint != "" || o.TracesEndpoint == "":
		return o.signalURL(path)
	case o.Protocol == OTLPGRPC:
		return o.TracesEndpoint
	}
	if base, ok := strings.CutSuffix(o.TracesEndpoint, "v1/traces"); ok {
		return base + path
	}
	return ""
}

// signalURL is the address for a signal below Endpoint.
func (o *OTLP) signalURL(path string) string {
	base := o.Endpoint
	if o.Protocol == OTLPGRPC {
		if base == "" {
			return defaultGRPCEndpoint
		}
		return base
	}
	if base == "" {
		base = defaultHTTPEndpoint
	}
	u, err := url.Parse(base)
	if err != nil {
		return strings.TrimSuffix(base, "/") + "/" + path
	}
	return u.JoinPath(path).String()
}
