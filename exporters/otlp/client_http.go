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

// maxAnswer bounds how much of a response is read.
const maxAnswer = 1 << 20

// newHTTP returns a client that sends requests by http/protobuf. It sets every
// option, because the client would take missing ones from the environment.
func newHTTP(c *Config, t target, transport *http.Transport) otlptrace.Client {
	options := []otlptracehttp.Option{
		otlptracehttp.WithEndpoint(t.url.Host),
		otlptracehttp.WithURLPath("/"), // noteHTTP sets the whole URL
		otlptracehttp.WithHeaders(c.Headers),
		otlptracehttp.WithTimeout(c.Timeout),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithCompression(otlptracehttp.NoCompression),
		otlptracehttp.WithTLSClientConfig(nil), // set in the transport
		otlptracehttp.WithInsecure(),           // noteHTTP sets the scheme
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}),
		otlptracehttp.WithHTTPClient(newHTTPClient(c, t, transport)),
	}
	if c.Compression == "gzip" {
		options = append(options, otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	}
	return otlptracehttp.NewClient(options...)
}

// newTransport returns the connections of one client.
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

// newHTTPClient returns a client that sends every request to the target,
// whatever its address.
func newHTTPClient(c *Config, t target, transport *http.Transport) *http.Client {
	return &http.Client{
		Transport: &noteHTTP{transport, t.url},
		Timeout:   c.Timeout,
		// A redirect would send the headers to another place.
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
	_ = answer.Body.Close() // the part that matters was read
	if err != nil {
		o.answered, o.retry = true, true
		return nil, fmt.Errorf("read the response: %w", err)
	}
	o.http(answer)
	if answer.StatusCode/100 == 2 {
		if err := readAnswer(o.answer, answer.Header.Get("Content-Type"), body); err != nil {
			// Another server answered, such as a login portal or one on a wrong port.
			return nil, fmt.Errorf("%s, but the response is not OTLP (%w): nothing was accepted; check that the endpoint is an OTLP receiver", answer.Status, err)
		}
		o.partial(o.answer)
		body = nil // its content is known
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	answer.ContentLength = int64(len(body))
	return answer, nil
}

// readAnswer parses a response body. An empty body is an empty response, as in
// protobuf.
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
	// Without a valid content type, a body counts only if it parses as a JSON
	// response, not if it merely could be a protobuf one.
	if protojson.Unmarshal(body, r) == nil {
		return nil
	}
	if proto.Unmarshal(body, r) == nil && len(r.ProtoReflect().GetUnknown()) == 0 {
		return nil
	}
	return fmt.Errorf("content type %q", kind)
}
