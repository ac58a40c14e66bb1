package otlpreceiver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const token = "0123456789abcdef0123456789abcdef"

// A request without the token is refused, and so are web pages, even with the
// token.
func TestAccess(t *testing.T) {
	taken := 0
	sink := func(context.Context, *otlpreceiver.Batch) error { taken++; return nil }
	guarded := start(t, sink, &otlpreceiver.Options{Token: token})
	open := start(t, sink, nil)
	body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: of(7, span(1, 0, 0, 1))})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		r      *otlpreceiver.Receiver
		host   string
		header map[string]string
		want   int
	}{
		"the token":                      {guarded, "127.0.0.1:4318", map[string]string{"x-trainspan-token": token}, 200},
		"the token as a bearer's":        {guarded, "127.0.0.1:4318", map[string]string{"Authorization": "Bearer " + token}, 200},
		"beside another authorization":   {guarded, "127.0.0.1:4318", map[string]string{"Authorization": "Basic abc", "x-trainspan-token": token}, 200},
		"another name of loopback":       {guarded, "localhost:4318", map[string]string{"x-trainspan-token": token}, 200},
		"IPv6":                           {guarded, "[::1]:4318", map[string]string{"x-trainspan-token": token}, 200},
		"no token":                       {guarded, "127.0.0.1:4318", nil, 401},
		"another one":                    {guarded, "127.0.0.1:4318", map[string]string{"x-trainspan-token": strings.ToUpper(token)}, 401},
		"its beginning":                  {guarded, "127.0.0.1:4318", map[string]string{"x-trainspan-token": token[:31]}, 401},
		"an empty one":                   {guarded, "127.0.0.1:4318", map[string]string{"x-trainspan-token": ""}, 401},
		"another scheme":                 {guarded, "127.0.0.1:4318", map[string]string{"Authorization": "Basic " + token}, 401},
		"a name that leads to loopback":  {guarded, "evil.example:4318", map[string]string{"x-trainspan-token": token}, 403},
		"the same, without a token":      {open, "evil.example:4318", nil, 403},
		"a name like ours":               {open, "localhost.evil.example", nil, 403},
		"an address of the network":      {open, "10.0.0.1:4318", nil, 403},
		"a page":                         {open, "127.0.0.1:4318", map[string]string{"Origin": "https://evil.example"}, 403},
		"a page of a file":               {open, "127.0.0.1:4318", map[string]string{"Origin": "null"}, 403},
		"a page of this machine":         {open, "127.0.0.1:4318", map[string]string{"Origin": "http://localhost:3000"}, 200},
		"nothing is asked for":           {open, "127.0.0.1:4318", nil, 200},
		"nothing is asked for and given": {open, "127.0.0.1:4318", map[string]string{"x-trainspan-token": "x"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			for _, overHTTP2 := range []bool{false, true} {
				req := httptest.NewRequest(http.MethodPost, "http://"+c.host+otlpreceiver.Path, strings.NewReader(string(body)))
				req.Header.Set("Content-Type", "application/x-protobuf")
				if overHTTP2 {
					req.ProtoMajor, req.ProtoMinor, req.Proto = 2, 0, "HTTP/2.0"
				}
				for k, v := range c.header {
					req.Header.Set(k, v)
				}
				before, w := taken, httptest.NewRecorder()
				c.r.ServeHTTP(w, req)
				if w.Code != c.want || (taken > before) != (c.want == 200) {
					t.Errorf("status %d, want %d; %d batches were taken", w.Code, c.want, taken-before)
				}
				if text := w.Body.String(); c.want == 401 && (!strings.Contains(text, "OTEL_EXPORTER_OTLP_TRACES_HEADERS") || strings.Contains(text, token)) {
					t.Errorf("answer is %q, want the environment variable of the headers, without the token", text)
				}
			}
		})
	}
}

// The SDK's exporters send the token from the variable as trainspan run sets
// it.
func TestAccessOfSDKs(t *testing.T) {
	r := start(t, func(context.Context, *otlpreceiver.Batch) error { return nil }, &otlpreceiver.Options{Token: token + ",=%"})
	for name, c := range map[string]struct {
		headers string
		well    bool
	}{
		"token":       {"x-key=a%20b,x-trainspan-token=" + token + "%2C%3D%25", true},
		"bearer":      {"authorization=Bearer%20" + token + "%2C%3D%25", true},
		"wrong token": {"x-trainspan-token=" + token, false},
		"no token":    {"x-key=a", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", c.headers)
			overHTTP, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(r.Endpoint()+otlpreceiver.Path))
			if err != nil {
				t.Fatal(err)
			}
			overGRPC, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpointURL(r.Endpoint()))
			if err != nil {
				t.Fatal(err)
			}
			for protocol, e := range map[string]sdktrace.SpanExporter{"http": overHTTP, "grpc": overGRPC} {
				err := e.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "x"}}.Snapshots())
				if (err == nil) != c.well {
					t.Errorf("%s: export: %v, want success: %v", protocol, err, c.well)
				}
				if err := e.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// By gRPC the refusals have the codes that clients expect.
func TestAccessByGRPC(t *testing.T) {
	r := start(t, func(context.Context, *otlpreceiver.Batch) error { return nil }, &otlpreceiver.Options{Token: token})
	address := strings.TrimPrefix(r.Endpoint(), "http://")
	for name, c := range map[string]struct {
		authority string
		header    []string
		want      codes.Code
	}{
		"token":         {"localhost", []string{"x-trainspan-token", token}, codes.OK},
		"no token":      {"localhost", nil, codes.Unauthenticated},
		"wrong token":   {"localhost", []string{"x-trainspan-token", "x"}, codes.Unauthenticated},
		"another host":  {"evil.example", []string{"x-trainspan-token", token}, codes.PermissionDenied},
		"a page's call": {"localhost", []string{"x-trainspan-token", token, "origin", "https://evil.example"}, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(c.authority))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() //nolint:errcheck // it ends with the test
			_, err = collectorpb.NewTraceServiceClient(conn).Export(metadata.AppendToOutgoingContext(t.Context(), c.header...), &collectorpb.ExportTraceServiceRequest{})
			if got := status.Code(err); got != c.want {
				t.Errorf("Export = %v (%v), want %v", got, err, c.want)
			}
		})
	}
}
