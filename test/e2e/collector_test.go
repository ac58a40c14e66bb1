package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/test/e2e/servers"
	"go.opentelemetry.io/otel/trace"
)

// buildingCollector builds the Collector once.
var buildingCollector = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // limits a test that hangs
	defer cancel()
	return servers.Collector(ctx, "../..")
})

// collectorProgram returns the path of the Collector. It skips the test if the
// Collector cannot be built, and fails if a file of this repository is missing.
func collectorProgram(t *testing.T) string {
	t.Helper()
	program, err := buildingCollector()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Fatal(err)
	case err != nil:
		t.Skipf("the Collector cannot be built here, so this is not tested: %v", err)
	}
	return program
}

// logsToFile extends the example configuration: logs and metrics also go to
// files that the test reads.
const logsToFile = `exporters:
  file/logs: {path: "%s", flush_interval: 50ms}
  file/metrics: {path: "%s", flush_interval: 50ms}
service:
  pipelines:
    logs: {exporters: [dftracer, file/logs]}
    metrics: {receivers: [otlp], exporters: [file/metrics]}
`

// TestCollector sends a job to our Collector in its example configuration, with
// Jaeger behind it: events of open spans arrive at once, spans reach Jaeger,
// and the trace file of the process is complete.
func TestCollector(t *testing.T) {
	program := collectorProgram(t)
	j := startJaeger(t, servers.JaegerOptions{})
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			logs, metrics := filepath.Join(dir, "logs.json"), filepath.Join(dir, "metrics.json")
			extra := filepath.Join(dir, "extra.yaml")
			if err := os.WriteFile(extra, fmt.Appendf(nil, logsToFile, logs, metrics), 0o644); err != nil {
				t.Fatal(err)
			}
			c, err := servers.StartCollector(untilDeadline(t), program,
				[]string{filepath.Join("..", "..", "integrations", "collector", "config", "single.yaml"), extra},
				[]string{"TRACE_DIR=" + dir, "JAEGER_GRPC=" + j.GRPC})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Stop)
			address := c.GRPC
			if protocol == config.OTLPHTTP {
				address = c.HTTP
			}
			service, w := service(t), &spanKeeper{}
			watched(t, service, config.OTLP{Protocol: protocol, Endpoint: "http://" + address, BatchDelay: 100 * time.Millisecond}, w, logs)
			compare(t, spansOf(t, j.Query, service, len(w.spans)), w.spans)
			c.Stop()
			checkTrace(t, dir, w)
			if info, err := os.Stat(metrics); err != nil || info.Size() == 0 {
				t.Errorf("no metrics arrived: %v", err)
			}
			if t.Failed() {
				t.Log(c.Log())
			}
		})
	}
}

// watched runs a job and checks its events while its training loop is open.
func watched(t *testing.T, service string, o config.OTLP, w *spanKeeper, logs string) {
	t.Helper()
	cfg := job(service)
	cfg.Outputs.OTLP = o
	b, outputs, err := setup.NewBuilder(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	tel, err := b.WithSpanProcessor(w).ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(errors.Join(err, outputs.Close(t.Context())))
	}
	t.Cleanup(func() { _ = tel.Shutdown(context.Background()) }) // does nothing after the test's own call
	cb := callbacks.New(tel)
	cb.OnAppStart(t.Context())
	open, _ := cb.OnTrainStart(t.Context(), callbacks.TrainStart{})
	l := &loop{net: newNetwork(16, 8, 8), cb: cb}
	for range 10 {
		l.step(t.Context())
	}
	want := trace.SpanContextFromContext(open)
	until.Nil(t, func() error {
		all, err := readLogs(logs)
		if err != nil {
			return err
		}
		for _, event := range []string{spans.EventSpanStart, spans.EventTrainingMetricsUpdate} {
			if !all[logKey{event, want.TraceID().String(), want.SpanID().String()}] {
				return fmt.Errorf("no log record %s of the open training loop", event)
			}
		}
		return nil
	})
	cb.OnTrainEnd(t.Context())
	cb.OnAppEnd(t.Context())
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if s := tel.Stats(); s.ExportedSpans != int64(len(w.spans)) || s.EndedSpans != s.ExportedSpans {
		t.Errorf("%d spans ended, want them all exported: %+v", len(w.spans), s)
	}
}

// logKey identifies the event of a log record.
type logKey struct{ event, trace, span string }

// readLogs reads the logs that the Collector has written so far.
func readLogs(path string) (map[logKey]bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	all := map[logKey]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			ResourceLogs []struct {
				ScopeLogs []struct {
					LogRecords []struct {
						EventName string `json:"eventName"`
						TraceID   string `json:"traceId"`
						SpanID    string `json:"spanId"`
					} `json:"logRecords"`
				} `json:"scopeLogs"`
			} `json:"resourceLogs"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			break // the line is incomplete
		}
		for _, rl := range line.ResourceLogs {
			for _, sl := range rl.ScopeLogs {
				for _, r := range sl.LogRecords {
					all[logKey{r.EventName, r.TraceID, r.SpanID}] = true
				}
			}
		}
	}
	return all, lines.Err()
}

// metricsOf returns the page of a Collector's own metrics.
func metricsOf(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // only read
	return io.ReadAll(response.Body)
}

// served checks the metrics that show that trace files are complete.
func served(ctx context.Context, address string) error {
	text, err := metricsOf(ctx, address)
	if err != nil {
		return err
	}
	for _, want := range []string{"\notelcol_dftracer_lost_lines 0\n", "\notelcol_dftracer_spans_written "} {
		if !strings.Contains(string(text), want) {
			return fmt.Errorf("the Collector does not serve %q", want)
		}
	}
	return nil
}

// traceIn returns the only trace file in a folder.
func traceIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.pfw.gz"))
	if err != nil || len(files) != 1 {
		t.Fatalf("trace files %q, want one: %v", files, err)
	}
	return files[0]
}

// TestCollectorJoinsTraces spreads a job over traces: the Collector's trace
// file of the process is complete nevertheless. The segments add up, and every
// event is in it once, although it arrived as a log record and with its span.
func TestCollectorJoinsTraces(t *testing.T) {
	program := collectorProgram(t)
	dir := t.TempDir()
	c, err := servers.StartCollector(untilDeadline(t), program,
		[]string{filepath.Join("..", "..", "integrations", "collector", "config", "single.yaml")}, []string{"TRACE_DIR=" + dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	cfg, w := job(service(t)), &spanKeeper{}
	cfg.Outputs.OTLP = config.OTLP{
		Protocol: config.OTLPGRPC, Endpoint: "http://" + c.GRPC, BatchDelay: 50 * time.Millisecond,
		TraceSplit: config.TracePerWindow, TraceWindow: 4,
	}
	b, outputs, err := setup.NewBuilder(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	tel, err := b.WithSpanProcessor(w).ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(errors.Join(err, outputs.Close(t.Context())))
	}
	cb, l := callbacks.New(tel), &loop{net: newNetwork(16, 8, 8)}
	l.cb = cb
	cb.OnAppStart(t.Context())
	cb.OnTrainStart(t.Context(), callbacks.TrainStart{})
	for range 20 {
		l.step(t.Context())
	}
	cb.OnTrainEnd(t.Context())
	cb.OnAppEnd(t.Context())
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	until.Nil(t, func() error { return served(t.Context(), c.Metrics) })
	c.Stop()
	path := traceIn(t, dir)
	if report, err := dftracer.ValidateFile(path, nil); err != nil || !report.OK() {
		t.Errorf("%v %v; want a valid trace", err, report.Err())
	}
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // only read
	total, pieces, updates := map[string]int64{}, map[string]int{}, map[string]int{}
	for ev, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		switch key, at := ev.Meta(); {
		case ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer:
			total[ev.Name] += ev.Dur
			pieces[ev.Name]++
		case key == spans.EventTrainingMetricsUpdate:
			updates[at]++
		}
	}
	long := 0
	for _, s := range w.spans {
		name := spans.At(spans.Index(s.Name())).Event
		if name != "train" && name != "ai_root" {
			continue
		}
		long++
		// Each end of a segment is rounded to a microsecond.
		if off := total[name] - s.EndTime().Sub(s.StartTime()).Microseconds(); pieces[name] != 1+5 || off > 6 || off < -6 {
			t.Errorf("%d segments of %s, together %d µs off; want 6, at most 6 µs", pieces[name], name, off)
		}
	}
	if long != 2 || pieces["forward"] != 20 || len(updates) == 0 {
		t.Errorf("%d long spans, %d forward passes, updates %v; want 2, 20, some", long, pieces["forward"], updates)
	}
	for at, n := range updates {
		if n != 1 {
			t.Errorf("the update of %s is there %d times, want 1", at, n)
		}
	}
	if t.Failed() {
		t.Log(c.Log())
	}
}

// checkTrace compares the trace file of the Collector with the spans that ended
// in the process.
func checkTrace(t *testing.T, dir string, w *spanKeeper) {
	t.Helper()
	r, err := dftracer.OpenReader(traceIn(t, dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // only read
	type key struct {
		cat, name string
		dur       int64
	}
	counts := map[key]int{}
	for _, s := range w.spans {
		info, ok := spans.Lookup(s.Name())
		if !ok {
			t.Fatalf("span %s of the job is not in the trace", s.Name())
		}
		counts[key{info.Category, info.Event, s.EndTime().UnixMicro() - s.StartTime().UnixMicro()}]++
	}
	found := 0
	for ev, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer {
			found++
			counts[key{ev.Cat, ev.Name, ev.Dur}]--
		}
	}
	if found != len(w.spans) {
		t.Errorf("the trace file has %d spans, want %d", found, len(w.spans))
	}
	for k, n := range counts {
		if n != 0 {
			t.Errorf("trace has %d too few of %+v", n, k)
		}
	}
}
