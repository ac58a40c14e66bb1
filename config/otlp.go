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
)

// OTLP is the output that sends spans to an OTLP receiver. Each field follows
// the OTEL_EXPORTER_OTLP_* variable of its name.
type OTLP struct {
	// Enabled switches the output on or off; unset means on when an endpoint
	// is given.
	Enabled Var[bool] `key:"enabled"`
	// Protocol is grpc or http/protobuf; empty is http/protobuf.
	Protocol Protocol `key:"protocol"`
	// Endpoint is the base URL of the receiver for all signals; with
	// http/protobuf, /v1/traces is added to it. A bare host:port is accepted
	// with grpc.
	Endpoint string `key:"endpoint"`
	// TracesEndpoint is the URL for spans, used as it stands; it wins over
	// Endpoint. A source that gives only Endpoint takes back the
	// TracesEndpoint of weaker sources.
	TracesEndpoint string `key:"traces_endpoint"`
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
	// full, spans are dropped and counted. Zero is the SDK's 2048.
	QueueSize int `key:"queue_size"`
	// BatchSize is the most spans sent at once, at most QueueSize. Zero is the
	// SDK's 512.
	BatchSize int `key:"batch_size"`
	// BatchDelay is the longest that a span waits for its batch to fill. Zero
	// is the SDK's 5 s.
	BatchDelay time.Duration `key:"batch_delay"`
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

// TracesURL returns the address that spans go to: TracesEndpoint as it stands,
// else Endpoint or the protocol's default, to which http/protobuf adds
// /v1/traces. With grpc it may be a bare host:port.
func (o *OTLP) TracesURL() string {
	if o.TracesEndpoint != "" {
		return o.TracesEndpoint
	}
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
		return strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	return u.JoinPath("v1/traces").String()
}

// EffectiveTimeout returns Timeout or its default.
func (o *OTLP) EffectiveTimeout() time.Duration {
	if o.Timeout == 0 {
		return DefaultOTLPTimeout
	}
	return o.Timeout
}

// UseGzip reports whether requests are compressed.
func (o *OTLP) UseGzip() bool { return o.Compression == "gzip" }
