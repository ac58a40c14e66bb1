package otlpreceiver_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// nested puts bytes into nested fields, the first number innermost.
func nested(b []byte, numbers ...protowire.Number) []byte {
	for _, n := range numbers {
		b = protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
	}
	return b
}

// Tiny messages would take gigabytes in memory: the request is refused before
// that.
func TestTooManyMessages(t *testing.T) {
	sink := func(context.Context, *otlpreceiver.Batch) error {
		t.Error("the request was accepted, want it rejected")
		return nil
	}
	r := start(t, sink, nil)
	const many = 1<<20 + 1
	attributes := nested(bytes.Repeat([]byte{9<<3 | 2, 0}, many), 2, 2, 1)
	for name, body := range map[string][]byte{
		"spans":      nested(bytes.Repeat([]byte{2<<3 | 2, 0}, many), 2, 1),
		"attributes": attributes,
		"resources":  bytes.Repeat([]byte{1<<3 | 2, 0}, many),
	} {
		answer, text := post(t, r.Endpoint()+"/v1/traces", "application/x-protobuf", "gzip", gziptest.Pack(body))
		if answer.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %s, want 413: %.80s", name, answer.Status, text)
		}
	}
	list := `{"resourceSpans":[{"scopeSpans":[{"spans":[{}` + strings.Repeat(",{}", many) + `]}]}]}`
	if answer, text := post(t, r.Endpoint()+"/v1/traces", "application/json", "", []byte(list)); answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("JSON: %s, want 413: %.80s", answer.Status, text)
	}
	var answer collectorpb.ExportTraceServiceResponse
	err := dial(t, r).Invoke(t.Context(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export", attributes, &answer, grpc.ForceCodec(bytesCodec{}))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("gRPC: %v, want ResourceExhausted", err)
	}
	if st := r.Stats(); st.Refused != 5 || st.Requests != 0 {
		t.Errorf("stats %+v, want 5 refused, no request", st)
	}
}

// A large body with few messages is accepted.
func TestLargeText(t *testing.T) {
	taken := 0
	r := start(t, func(_ context.Context, b *otlpreceiver.Batch) error {
		for s := range b.Spans[0].Spans() {
			taken += len(s.Name)
		}
		return nil
	}, nil)
	const size = 100 << 10
	list := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"` + strings.Repeat("x", size) + `"}]}]}]}`
	if answer, text := post(t, r.Endpoint()+"/v1/traces", "application/json", "", []byte(list)); answer.StatusCode != http.StatusOK || taken != size {
		t.Errorf("%s, name of %d bytes; want 200 and %d: %.80s", answer.Status, taken, size, text)
	}
}

// Nested values are accepted up to a depth.
func TestNesting(t *testing.T) {
	sink := func(context.Context, *otlpreceiver.Batch) error { return nil }
	r := start(t, sink, nil)
	large := nested(bytes.Repeat([]byte("x"), 64<<10), 3, 1) // a request that is examined
	for depth, want := range map[int]int{63: http.StatusOK, 64: http.StatusOK, 65: http.StatusRequestEntityTooLarge, 10_000: http.StatusRequestEntityTooLarge} {
		numbers := make([]protowire.Number, depth) // the outermost last
		for i := range numbers {
			numbers[depth-1-i] = protowire.Number(1 + 4*(i%2)) // lists of values
		}
		for i, n := range []protowire.Number{1, 2, 2, 9, 2} { // path to the value of a span's attribute
			numbers[depth-1-i] = n
		}
		body := append(nested(nil, numbers...), large...)
		if answer, text := post(t, r.Endpoint()+"/v1/traces", "application/x-protobuf", "", body); answer.StatusCode != want {
			t.Errorf("%d levels: %s, want %d: %.80q", depth, answer.Status, want, text)
		}
	}
}

// Large requests are handled one at a time, small ones concurrently with them.
func TestLargeRequestsTakeTurns(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	defer wait.Wait()
	sink := func(_ context.Context, b *otlpreceiver.Batch) error {
		if len(b.Body) > 1<<20 {
			in <- struct{}{}
			<-out
		}
		return nil
	}
	r := start(t, sink, nil)
	large, small := request(150_000), request(1)
	body, err := proto.Marshal(large)
	if err != nil {
		t.Fatal(err)
	}
	client := collectorpb.NewTraceServiceClient(dial(t, r))
	wait.Go(func() { _, _ = client.Export(context.Background(), large) })
	<-in
	if answer, _ := post(t, r.Endpoint()+"/v1/traces", "application/x-protobuf", "gzip", gziptest.Pack(body)); answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status %s, want 429", answer.Status)
	}
	if _, err := client.Export(t.Context(), large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("Export() = %v, want ResourceExhausted", err)
	}
	if _, err := client.Export(t.Context(), small); err != nil {
		t.Error(err)
	}
	close(out)
}

// spanForTest is a typical span of an SDK.
var spanForTest = &tracepb.Span{
	TraceId: make([]byte, 16), SpanId: make([]byte, 8), ParentSpanId: make([]byte, 8), Name: "megatron.forward_backward",
	StartTimeUnixNano: 1 << 60, EndTimeUnixNano: 1<<60 + 1e6, Attributes: func() (list []*commonpb.KeyValue) {
		for _, key := range []string{"megatron.iteration", "rank", "world_size", "loss", "tokens", "thread.id", "nv.dl.step"} {
			list = append(list, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 7}}})
		}
		return list
	}(),
}

// A request of ordinary spans with the maximum size is accepted completely.
func TestLargestRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 16 MiB of spans: make test-long")
	}
	taken := 0
	sink := func(_ context.Context, b *otlpreceiver.Batch) error {
		taken = b.Len()
		return nil
	}
	r := start(t, sink, nil)
	req := request(0)
	for range 60_000 {
		req.ResourceSpans[0].ScopeSpans[0].Spans = append(req.ResourceSpans[0].ScopeSpans[0].Spans, spanForTest)
	}
	body, err := proto.Marshal(req)
	if err != nil || len(body) > otlpreceiver.DefaultMaxBody {
		t.Fatalf("request has %d bytes, want at most %d: %v", len(body), otlpreceiver.DefaultMaxBody, err)
	}
	if answer, text := post(t, r.Endpoint()+"/v1/traces", "application/x-protobuf", "", body); answer.StatusCode != http.StatusOK || taken != 60_000 {
		t.Errorf("%s: %s; %d spans accepted, want 200 and 60,000", answer.Status, text, taken)
	}
}
