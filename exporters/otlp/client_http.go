package otlp

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

// newHTTP makes a client that sends requests by http/protobuf. Every setting
// is given, because the client would take the missing ones from the
// environment.
func newHTTP(c *Config, t target, transport *http.Transport) otlptrace.Client {
	options := []otlptracehttp.Option{
		otlptracehttp.WithEndpoint(t.url.Host),
		otlptracehttp.WithURLPath("/"), // noteHTTP puts the whole URL
		otlptracehttp.WithHeaders(c.Headers),
		otlptracehttp.WithTimeout(c.Timeout),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithCompression(otlptracehttp.NoCompression),
		otlptracehttp.WithTLSClientConfig(nil), // the transport has it
		otlptracehttp.WithInsecure(),           // noteHTTP puts the scheme
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}),
		otlptracehttp.WithHTTPClient(newHTTPClient(c, t, transport)),
	}
	if c.Compression == "gzip" {
		options = append(options, otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	}
	return otlptracehttp.NewClient(options...)
}

// newTransport makes the connections of one client.
func newTransport(c *Config, t target) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       t.tls,
		TLSHandshakeTimeout:   10 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          4,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}

// newHTTPClient makes a client that sends everything to the target, whatever
// address a request has.
func newHTTPClient(c *Config, t target, transport *http.Transport) *http.Client {
	return &http.Client{
		Transport: &noteHTTP{transport, t.url},
		Timeout:   c.Timeout,
		// A redirect would carry the headers to a place that nobody chose.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// noteHTTP is a round tripper that notes the outcome of each request.
type noteHTTP struct {
	next http.RoundTripper
	url  *url.URL
}

// RoundTrip implements http.RoundTripper.
func (n *noteHTTP) RoundTrip(r *http.Request) (*http.Response, error) {
	o := outcomeOf(r.Context())
	r = r.Clone(r.Context())
	r.URL, r.Host = n.url, n.url.Host
	answer, err := n.next.RoundTrip(r)
	if err != nil {
		o.answered, o.noAnswer, o.retry = true, true, true
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	_ = answer.Body.Close() // what matters of it was read
	if err != nil {
		o.answered, o.retry = true, true
		return nil, fmt.Errorf("read the response: %w", err)
	}
	o.http(answer)
	if answer.StatusCode/100 == 2 {
		if err := readAnswer(o.answer, answer.Header.Get("Content-Type"), body); err != nil {
			// Something on the way that is no receiver: a portal, a wrong port.
			return nil, fmt.Errorf("%s, but the response is not OTLP (%w): nothing was accepted; check that the endpoint is an OTLP receiver", answer.Status, err)
		}
		o.partial(o.answer)
		body = nil // what it says is known
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	answer.ContentLength = int64(len(body))
	return answer, nil
}

// readAnswer reads a body into an answer. A body of no bytes is an answer that
// says nothing, as protobuf has it.
func readAnswer(r proto.Message, contentType string, body []byte) error {
	if r == nil || len(body) == 0 {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	switch kind {
	case "application/x-protobuf", "application/protobuf":
		return proto.Unmarshal(body, r)
	case "application/json":
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, r)
	}
	// Receivers that name no type, or the wrong one, are believed if they wrote
	// an answer, and nothing that only might be one.
	if protojson.Unmarshal(body, r) == nil {
		return nil
	}
	if proto.Unmarshal(body, r) == nil && len(r.ProtoReflect().GetUnknown()) == 0 {
		return nil
	}
	return fmt.Errorf("content type %q", kind)
}
