package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/test/e2e/servers"
	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestBackendOfTheCollectorIsAway checks that a full queue to a backend that is away is
// not the matter of the senders: no request fails, and the files have every span.
func TestBackendOfTheCollectorIsAway(t *testing.T) {
	program := collectorProgram(t)
	for config, queue := range map[string]string{
		"agent":  "otlp_grpc/gateway: {sending_queue: {sizer: requests, queue_size: 1, num_consumers: 1, batch: null}}",
		"single": "otlp_grpc/jaeger: {sending_queue: {queue_size: 1, num_consumers: 1}}",
	} {
		t.Run(config, func(t *testing.T) {
			dir := t.TempDir()
			extra := filepath.Join(dir, "extra.yaml")
			if err := os.WriteFile(extra, []byte("exporters: {"+queue+"}\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			f := &fleet{ranks: 1, steps: 40, dirs: []string{filepath.Join(dir, "traces")}}
			c, err := servers.StartCollector(untilDeadline(t), program,
				[]string{filepath.Join("..", "..", "integrations", "collector", "config", config+".yaml"), extra},
				[]string{"TRACE_DIR=" + f.dirs[0], "QUEUE_DIR=" + filepath.Join(dir, "queue"), "GATEWAY=127.0.0.1:1", "JAEGER_GRPC=127.0.0.1:1"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Stop)
			conn, err := grpc.NewClient(c.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }() // no request is in progress
			began := time.Now()
			for step := range f.steps {
				request := fleetBatch(0, step, 1, began)
				if _, err := collector.NewTraceServiceClient(conn).Export(t.Context(), request); err != nil {
					t.Fatalf("spans of step %d: %v", step, err)
				}
				events := &collectorlogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
					Resource:  request.ResourceSpans[0].Resource,
					ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{{EventName: "event", TimeUnixNano: uint64(began.UnixNano())}}}},
				}}}
				if _, err := collectorlogs.NewLogsServiceClient(conn).Export(t.Context(), events); err != nil {
					t.Fatalf("event of step %d: %v", step, err)
				}
			}
			until.Nil(t, func() error { return refused(t.Context(), c.Metrics) })
			c.Stop()
			if n := f.inFiles(t).total(); n != f.spans() {
				t.Errorf("%d spans are in trace files, want %d", n, f.spans())
			}
			if t.Failed() {
				t.Log(c.Log())
			}
		})
	}
}

var refusedSpans = regexp.MustCompile(`(?m)^otelcol_exporter_enqueue_failed_spans\S* [1-9]`)

// refused checks that a queue of the Collector has refused spans.
func refused(ctx context.Context, address string) error {
	page, err := metricsOf(ctx, address)
	if err != nil {
		return err
	}
	if !refusedSpans.Match(page) {
		return errors.New("no queue of the Collector has refused spans")
	}
	return nil
}
