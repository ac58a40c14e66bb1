package config

import (
	"net/url"
	"strings"
	"time"
)

// Defaults of the OTLP output, as the OpenTelemetry specification has them.
const (
	DefaultGRPCEndpoint = "http://localhost:4317"
	DefaultHTTPEndpoint = "http://localhost:4318"
	DefaultOTLPTimeout  = 10 * time.Second

	// DefaultMetricsInterval is the time between two exports of metrics.
	DefaultMetricsInterval = time.Minute
)

// OTLP is the output that sends spans, logs and metrics to an OTLP receiver.
// Each field follows the OTEL_EXPORTER_OTLP_* variable of its name.
type OTLP struct {
	// Enabled switches the output on or off; unset means on when an endpoint
	// is given.
	Enabled Var[bool] `key:"enabled"`
	// Protocol is grpc or http/protobuf; empty is http/protobuf.
	Protocol Protocol `key:"protocol"`
	// Endpoint is the base URL of the receiver for all signals; with
	// http/protobuf, /v1/traces, /v1/logs or /v1/metrics is added to it. A bare
	// host:port is accepted with grpc.
	Endpoint string `key:"endpoint"`
	// TracesEndpoint is the URL for spans, used as it stands; it wins over
	// Endpoint. A source that gives only Endpoint takes back the
	// TracesEndpoint of weaker sources.
	TracesEndpoint string `key:"traces_endpoint"`
	// LogsEndpoint and MetricsEndpoint are the same for logs and metrics.
	LogsEndpoint    string `key:"logs_endpoint"`
	MetricsEndpoint string `key:"metrics_endpoint"`
	// Logs says whether the events of spans that are still open are sent as
	// log records. Unset is true, where LogsURL knows an address.
	Logs Var[bool] `key:"logs"`
	// Metrics says whether metrics are sent. Unset is true, where MetricsURL
	// knows an address.
	Metrics Var[bool] `key:"metrics"`
	// MetricsInterval is the time between two exports of metrics. Zero is one
	// minute.
	MetricsInterval time.Duration `key:"metrics_interval"`
	// Headers are sent with every request. They never appear in print.
	Headers Headers `key:"headers"`
	// Timeout is the longest that one request may take. Zero is 10 s.
	Timeout time.Duration `key:"timeout"`
	// Compression is "gzip" or "none"; empty is none.
	Compression string `key:"compression"`
	// Insecure asks for a plain connection with grpc where the endpoint has no
	// scheme to say so. Unset is false.
	Insecure Var[bool] `key:"insecure"`
	// Certificate is a PEM file with the authorities to trust.
	Certificate string `key:"certificate"`
	// ClientCertificate and ClientKey are PEM files that prove who we are;
	// both or neither.
	ClientCertificate string `key:"client_certificate"`
	ClientKey         string `key:"client_key"`
	// QueueSize is the number of spans that may wait to be sent; when it is
	// full, spans are dropped and counted, or, with a SpillDir, moved there.
	// Zero is the SDK's 2048.
	QueueSize int `key:"queue_size"`
	// BatchSize is the most spans sent at once, at most QueueSize. Zero is the
	// SDK's 512.
	BatchSize int `key:"batch_size"`
	// BatchDelay is the longest that a span waits for its batch to fill. Zero
	// is the SDK's 5 s.
	BatchDelay time.Duration `key:"batch_delay"`
	// SpillDir is the folder where spans are written that cannot be delivered;
	// empty means that they are dropped. It is made when it is first needed.
	SpillDir string `key:"spill_dir"`
	// SpillBytes bounds the files in SpillDir, those of other processes and of
	// earlier runs included. Past it spans are dropped and counted. Zero is
	// 256 MiB.
	SpillBytes int `key:"spill_bytes"`
	// Segment is how long a span of the long kind may stay open before a
	// finished segment of it is sent. Zero is ten minutes, negative sends such
	// spans in one piece.
	Segment time.Duration `key:"segment"`
	// TraceSplit, TraceWindow and TraceBudget say how the spans of a run are
	// spread over traces; see [Traces].
	TraceSplit  TraceSplit `key:"trace_split"`
	TraceWindow int        `key:"trace_window"`
	TraceBudget int        `key:"trace_budget"`
}

// Traces are the settings of how a run is spread over traces.
func (o *OTLP) Traces() Traces {
	return Traces{Split: o.TraceSplit, Window: o.TraceWindow, Budget: o.TraceBudget}
}

// Active reports whether the output itself is on; see also [Config.OTLPActive].
func (o *OTLP) Active() bool {
	return o.Enabled.Or(o.Endpoint != "" || o.TracesEndpoint != "")
}

// EffectiveProtocol returns Protocol or [OTLPHTTP].
func (o *OTLP) EffectiveProtocol() Protocol {
	if o.Protocol == "" {
		return OTLPHTTP
	}
	return o.Protocol
}

// LogsActive reports whether the output, when it is active, sends logs.
func (o *OTLP) LogsActive() bool { return o.Logs.Or(true) && o.LogsURL() != "" }

// MetricsActive reports whether the output, when it is active, sends metrics.
func (o *OTLP) MetricsActive() bool { return o.Metrics.Or(true) && o.MetricsURL() != "" }

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
	case o.EffectiveProtocol() == OTLPGRPC:
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
	if o.EffectiveProtocol() == OTLPGRPC {
		if base == "" {
			return DefaultGRPCEndpoint
		}
		return base
	}
	if base == "" {
		base = DefaultHTTPEndpoint
	}
	u, err := url.Parse(base)
	if err != nil {
		return strings.TrimSuffix(base, "/") + "/" + path
	}
	return u.JoinPath(path).String()
}

// EffectiveTimeout returns Timeout or its default.
func (o *OTLP) EffectiveTimeout() time.Duration {
	if o.Timeout == 0 {
		return DefaultOTLPTimeout
	}
	return o.Timeout
}

// EffectiveMetricsInterval returns MetricsInterval or its default.
func (o *OTLP) EffectiveMetricsInterval() time.Duration {
	if o.MetricsInterval == 0 {
		return DefaultMetricsInterval
	}
	return o.MetricsInterval
}

// UseGzip reports whether requests are compressed.
func (o *OTLP) UseGzip() bool { return o.Compression == "gzip" }
