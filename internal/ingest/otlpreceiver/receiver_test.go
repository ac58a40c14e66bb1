package otlpreceiver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a receiver for the duration of the test.
func start(t *testing.T, sink otlpreceiver.Sink, o *otlpreceiver.Options) *otlpreceiver.Receiver {
	t.Helper()
	r, err := otlpreceiver.Listen(sink, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// exporters returns the Go SDK's exporters.
func exporters(t *testing.T, endpoint string) map[string]sdktrace.SpanExporter {
	t.Helper()
	out := make(map[string]sdktrace.SpanExporter)
	for _, compress := range []bool{false, true} {
		h := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(endpoint + otlpreceiver.Path)}
		g := []otlptracegrpc.Option{otlptracegrpc.WithEndpointURL(endpoint)}
		name := "plain"
		if compress {
			name = "gzip"
			h = append(h, otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
			g = append(g, otlptracegrpc.WithCompressor("gzip"))
		}
		overHTTP, err := otlptracehttp.New(t.Context(), h...)
		if err != nil {
			t.Fatal(err)
		}
		overGRPC, err := otlptracegrpc.New(t.Context(), g...)
		if err != nil {
			t.Fatal(err)
		}
		out["http "+name], out["grpc "+name] = overHTTP, overGRPC
	}
	return out
}

// However spans come, they are in the file of their process, below their
// parents, with the names of this library.
func TestSDKExporters(t *testing.T) {
	attempt := 2
	dir := t.TempDir()
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir, SessionTag: "job", Attempt: &attempt})
	r := start(t, files.Take, nil)
	pid := 1000
	for name, e := range exporters(t, r.Endpoint()) {
		t.Run(name, func(t *testing.T) {
			pid++
			p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e), sdktrace.WithResource(resource.NewSchemaless(
				attribute.String("service.name", "trainer"), attribute.Int("process.pid", pid), attribute.String("nv.dl.rank", fmt.Sprint(pid-1001)),
				attribute.String("process.command_line", "secret"))))
			tracer := p.Tracer("nemo")
			ctx, loop := tracer.Start(t.Context(), "megatron.train")
			for i := range 3 {
				ctx, step := tracer.Start(ctx, "megatron.train_step", trace.WithAttributes(attribute.Int("megatron.iteration", i)))
				_, fwd := tracer.Start(ctx, "megatron.forward_backward")
				fwd.End()
				step.End()
			}
			loop.End()
			if err := p.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := files.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, want := files.Stats(), (otlpreceiver.FilesStats{Processes: 4, Spans: 28}); st != want {
		t.Errorf("counts are %+v, want %+v", st, want)
	}
	if st := r.Stats(); st.Spans != 28 || st.Refused+st.Rejected != 0 {
		t.Errorf("counts %+v, want 28 spans, none refused or rejected", st)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "otlp-*.pfw.gz"))
	if err != nil || len(paths) != 4 {
		t.Fatalf("%d files, want 4: %v", len(paths), err)
	}
	for _, path := range paths {
		report := dftest.Check(t, path)
		if report.Counts["pipeline/train/X"] != 1 || report.Counts["pipeline/train.iteration/X"] != 3 || report.Counts["compute/forward_backward/X"] != 3 {
			t.Errorf("%s: counts %v, want 1 train, 3 train.iteration, 3 forward_backward", path, report.Counts)
		}
		var steps []int64
		for _, ev := range dftest.Events(t, path) {
			if step, ok := ev.Arg("step"); ok && ev.Name == "train.iteration" {
				steps = append(steps, step.Int64())
			}
			for _, a := range ev.Args {
				if strings.Contains(a.Text(), "secret") {
					t.Errorf("%s: %s has the command line, want none in the file", path, ev.Name)
				}
			}
		}
		if slices.Sort(steps); !slices.Equal(steps, []int64{0, 1, 2}) {
			t.Errorf("%s: steps are %v, want [0 1 2]", path, steps)
		}
	}
}

const jsonBody = `{"resourceSpans":[{"resource":{"attributes":[{"key":"process.pid","value":{"intValue":"77"}}]},"unknownMember":1,
 "scopeSpans":[{"scope":{"name":"one_logger"},"spans":[
 {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"training_loop","kind":1,
  "startTimeUnixNano":"1700000000000000000","endTimeUnixNano":1700000009000000000,"attributes":[]},
 {"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"eee19b7ec3c1b173","parentSpanId":"eee19b7ec3c1b174","name":"training_single_iteration","kind":1,
  "startTimeUnixNano":"1700000001000000000","endTimeUnixNano":"1700000002000000000","attributes":[{"key":"step","value":{"doubleValue":4}}]},
 {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b172","parentSpanId":"eee19b7ec3c1b173","name":"span_start_event_for_training_single_iteration","kind":1,
  "startTimeUnixNano":"1700000001000000000","endTimeUnixNano":"1700000001000000000"},
 {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b171","parentSpanId":"eee19b7ec3c1b170","name":"span_start_event_for_epoch","kind":1,
  "startTimeUnixNano":"1700000003000000000","endTimeUnixNano":"1700000003000000000"},
 {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b169","parentSpanId":"eee19b7ec3c1b168","name":"update_event_for_validation_loop","kind":1,
  "startTimeUnixNano":"1700000004000000000","endTimeUnixNano":"1700000004000000000"},
 {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b167","name":"update_event_for_nothing","kind":1,
  "startTimeUnixNano":"1700000005000000000","endTimeUnixNano":"1700000005000000000"}
 ]}]}]}`

func post(t *testing.T, url, media, encoding string, body []byte) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", media)
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, text
}

func TestJSON(t *testing.T) {
	dir := t.TempDir()
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir})
	r := start(t, files.Take, nil)
	for encoding, body := range map[string][]byte{"": []byte(jsonBody), "gzip": gziptest.Pack([]byte(jsonBody))} {
		answer, text := post(t, r.Endpoint()+"/v1/traces", "application/json; charset=utf-8", encoding, body)
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/json" || string(text) != "{}" {
			t.Errorf("encoding %q: %s %s %q, want 200, application/json, {}", encoding, answer.Status, answer.Header, text)
		}
	}
	if err := files.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := files.Stats(); st.Spans != 3 || st.Duplicates != 3 { // the others are events of spans
		t.Errorf("counts %+v, want 3 spans and 3 duplicates", st)
	}
	host, _ := os.Hostname()
	found, seen := false, map[string]int{}
	for _, ev := range dftest.Events(t, filepath.Join(dir, "otlp-"+host+"-77.pfw.gz")) {
		seen[ev.Name]++
		if ev.Phase == dftracer.PhaseComplete && ev.Name == "train.iteration" {
			step, _ := ev.Arg("step")
			found = tracefile.KindOf(step) == tracefile.KindInt && step.Int64() == 4 && ev.Dur == 1_000_000 && ev.Parent > 0
		}
	}
	if !found {
		t.Error("the iteration is not in the file as it was sent")
	}
	// The start of a span is written at once; an event without a parent stays a
	// span.
	if seen["epoch.block"] != 1 || seen["evaluate"] != 0 || seen["update_event_for_nothing"] != 1 {
		t.Errorf("file has %v, want 1 epoch.block, no evaluate, 1 event record", seen)
	}
}

// Invalid requests are refused in the form of the request, as the protocol
// requires.
func TestRefusedHTTP(t *testing.T) {
	r := start(t, func(context.Context, *otlpreceiver.Batch) error { return nil }, &otlpreceiver.Options{MaxBody: 1000})
	large := []byte(`{"resourceSpans":[` + strings.Repeat(" ", 2000) + `]}`)
	for name, c := range map[string]struct {
		path, media, encoding string
		body                  []byte
		status                int
		code                  codes.Code
	}{
		"broken JSON":       {"/v1/traces", "application/json", "", []byte(`{"resourceSpans":`), 400, codes.InvalidArgument},
		"wrong type":        {"/v1/traces", "application/json", "", []byte(`{"resourceSpans":7}`), 400, codes.InvalidArgument},
		"broken id":         {"/v1/traces", "application/json", "", []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xyz"}]}]}]}`), 400, codes.InvalidArgument},
		"broken protobuf":   {"/v1/traces", "application/x-protobuf", "", []byte("\xff\xff\xff"), 400, codes.InvalidArgument},
		"broken gzip":       {"/v1/traces", "application/json", "gzip", []byte("no gzip"), 400, codes.InvalidArgument},
		"cut gzip":          {"/v1/traces", "application/json", "gzip", gziptest.Pack([]byte(`{"resourceSpans":[]}`))[:20], 400, codes.InvalidArgument},
		"large":             {"/v1/traces", "application/json", "", large, 413, codes.ResourceExhausted},
		"large when opened": {"/v1/traces", "application/json", "gzip", gziptest.Pack(large), 413, codes.ResourceExhausted},
		"media type":        {"/v1/traces", "text/plain", "", []byte("{}"), 415, codes.InvalidArgument},
		"encoding":          {"/v1/traces", "application/json", "zstd", []byte("{}"), 415, codes.InvalidArgument},
		"path":              {"/v1/logs", "application/json", "", []byte("{}"), 404, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			answer, text := post(t, r.Endpoint()+c.path, c.media, c.encoding, c.body)
			if answer.StatusCode != c.status {
				t.Errorf("%s, want %d", answer.Status, c.status)
			}
			var st rpcstatus.Status
			if c.media == "application/json" {
				if err := json.Unmarshal(text, &st); err != nil {
					t.Errorf("answer is not JSON: %v: %q", err, text)
				}
			} else if err := proto.Unmarshal(text, &st); err != nil {
				t.Errorf("answer is not a Status: %v: %q", err, text)
			}
			if codes.Code(st.GetCode()) != c.code || st.GetMessage() == "" {
				t.Errorf("status is %v, want code %s and a message", &st, c.code)
			}
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.Endpoint()+"/v1/traces", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %s, want 405 and Allow: POST", answer.Status)
	}
}

func dial(t *testing.T, r *otlpreceiver.Receiver) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(r.Endpoint(), "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func request(spans int) *collectorpb.ExportTraceServiceRequest {
	list := make([]*tracepb.Span, spans)
	for i := range list {
		list[i] = &tracepb.Span{Name: "span"}
	}
	return &collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: list}}}}}
}

func TestRefusedGRPC(t *testing.T) {
	sink := func(context.Context, *otlpreceiver.Batch) error { return nil }
	r := start(t, sink, &otlpreceiver.Options{MaxBody: 100_000})
	conn := dial(t, r)
	_, err := collectorpb.NewTraceServiceClient(conn).Export(t.Context(), request(50_000))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("large request: %v, want ResourceExhausted", err)
	}
	var answer collectorpb.ExportTraceServiceResponse
	err = conn.Invoke(t.Context(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export", []byte("\xff\xff\xff"), &answer,
		grpc.ForceCodec(bytesCodec{}))
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("broken request: %v, want InvalidArgument", err)
	}
}

// bytesCodec sends bytes unchanged.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (bytesCodec) Unmarshal(b []byte, v any) error { return proto.Unmarshal(b, v.(proto.Message)) }
func (bytesCodec) Name() string                    { return "proto" }

// Senders of too much are asked to retry later, in both protocols.
func TestTooMuch(t *testing.T) {
	var mu sync.Mutex
	taken := 0
	sink := func(_ context.Context, b *otlpreceiver.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		taken += b.Len()
		return nil
	}
	r := start(t, sink, &otlpreceiver.Options{MaxRate: 1})
	client := collectorpb.NewTraceServiceClient(dial(t, r))
	if _, err := client.Export(t.Context(), request(10_000)); err != nil {
		t.Fatal(err)
	}
	_, err := client.Export(t.Context(), request(1))
	if st := status.Convert(err); st.Code() != codes.ResourceExhausted || len(st.Details()) != 1 {
		t.Errorf("Export() = %v, details %v; want ResourceExhausted with one detail", err, st.Details())
	}
	body, err := proto.Marshal(request(1))
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := post(t, r.Endpoint()+"/v1/traces", "application/x-protobuf", "", body)
	if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") != "1" {
		t.Errorf("%s %v, want 429 with Retry-After: 1", answer.Status, answer.Header)
	}
	if st := r.Stats(); taken != 10_000 || st.Refused != 2 || st.Spans != 10_000 {
		t.Errorf("%d spans were accepted, counts %+v; want 10,000 and 2 refused requests", taken, st)
	}
}

// Simple senders set no ids: their spans are all kept.
func TestSpansWithoutIDs(t *testing.T) {
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: t.TempDir()})
	if err := files.Take(t.Context(), batch(t, request(3).GetResourceSpans())); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := files.Stats(); st.Spans != 3 || st.Duplicates != 0 {
		t.Errorf("stats %+v, want 3 spans, no duplicates", st)
	}
}

// While all slots are busy, senders of both protocols are asked to retry later.
func TestBusy(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	defer wait.Wait()
	sink := func(context.Context, *otlpreceiver.Batch) error {
		in <- struct{}{}
		<-out
		return nil
	}
	r := start(t, sink, &otlpreceiver.Options{MaxConcurrent: 1})
	client := collectorpb.NewTraceServiceClient(dial(t, r))
	wait.Go(func() { _, _ = client.Export(context.Background(), request(1)) })
	<-in
	_, err := client.Export(t.Context(), request(1))
	if st := status.Convert(err); st.Code() != codes.ResourceExhausted || len(st.Details()) != 1 {
		t.Errorf("Export() = %v, details %v; want ResourceExhausted with one detail", err, st.Details())
	}
	answer, _ := post(t, r.Endpoint()+"/v1/traces", "application/json", "", []byte("{}"))
	if answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status %s, want 429", answer.Status)
	}
	close(out)
}

// A sink that fails or panics does not make senders retry.
func TestSinkFails(t *testing.T) {
	for name, sink := range map[string]otlpreceiver.Sink{
		"error": func(context.Context, *otlpreceiver.Batch) error { return errors.New("no room") },
		"panic": func(context.Context, *otlpreceiver.Batch) error { panic("no room") },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, sink, nil)
			answer, err := collectorpb.NewTraceServiceClient(dial(t, r)).Export(t.Context(), request(3))
			if err != nil || answer.GetPartialSuccess().GetRejectedSpans() != 3 || !strings.Contains(answer.GetPartialSuccess().GetErrorMessage(), "no room") {
				t.Errorf(`Export() = %v, %v; want 3 rejected spans, "no room"`, answer, err)
			}
			if st := r.Stats(); st.Rejected != 3 {
				t.Errorf("counts %+v, want 3 rejected", st)
			}
		})
	}
}

// Spans of processes that write their own files are left out.
func TestRecorded(t *testing.T) {
	dir := t.TempDir()
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir, Recorded: "host:1"})
	r := start(t, files.Take, nil)
	for pid, value := range map[int]string{1: "host:1", 2: "host:2"} {
		e, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(r.Endpoint()+otlpreceiver.Path))
		if err != nil {
			t.Fatal(err)
		}
		p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e), sdktrace.WithResource(resource.NewSchemaless(
			attribute.Int("process.pid", pid), attribute.String(otlpreceiver.AttrRecorded, value))))
		_, s := p.Tracer("x").Start(t.Context(), "span")
		s.End()
		if err := p.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, want := files.Stats(), (otlpreceiver.FilesStats{Processes: 1, Spans: 1, Recorded: 1}); st != want {
		t.Errorf("counts are %+v, want %+v", st, want)
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(jsonBody))
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","links":[{"spanId":""}],"events":[{"name":"x"}]}]}]}]}`))
	dir := f.TempDir()
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir, MaxProcesses: 4})
	f.Cleanup(func() { _ = files.Close(context.Background()) })
	r, err := otlpreceiver.Listen(files.Take, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = r.Shutdown(context.Background()) })
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, _ := post(t, r.Endpoint()+"/v1/traces", "application/json", "", body)
		if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusBadRequest && answer.StatusCode != http.StatusTooManyRequests {
			t.Errorf("status %s, want 200, 400 or 429", answer.Status)
		}
		http.DefaultClient.CloseIdleConnections()
	})
}
