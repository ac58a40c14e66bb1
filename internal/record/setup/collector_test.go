package setup_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/config"
	logscollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// collector is a receiver for all three signals on 127.0.0.1.
type collector struct {
	protocol string
	url      string
	script   func(signal string, call int) bool // whether to accept the call; metrics are always accepted

	mu        sync.Mutex
	calls     map[string]int
	requests  []proto.Message
	resources map[string]*resourcepb.Resource // the latest of each signal
}

func newCollector(t *testing.T, protocol string) *collector {
	t.Helper()
	c := &collector{protocol: protocol, calls: map[string]int{}, resources: map[string]*resourcepb.Resource{}}
	if protocol == config.OTLPHTTP {
		s := httptest.NewServer(http.HandlerFunc(c.serveHTTP))
		t.Cleanup(s.Close)
		c.url = s.URL
		return c
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	tracecollector.RegisterTraceServiceServer(s, &traceService{c: c})
	logscollector.RegisterLogsServiceServer(s, &logsService{c: c})
	metricscollector.RegisterMetricsServiceServer(s, &metricsService{c: c})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(listener) }() // ends with Stop
	t.Cleanup(func() { s.Stop(); <-done })
	c.url = "http://" + listener.Addr().String()
	return c
}

// job returns a configuration that sends all signals to the collector.
func (c *collector) job() config.Config {
	cfg := job()
	cfg.Training = &config.Training{
		PerfTag: config.Value("perf"), GlobalBatchSize: config.Value(4), SeqLength: config.Value(8),
		FlopsPerSample: config.Value(1000), IsLogThroughputEnabled: config.Value(true), LogEveryNTrainIterations: config.Value(1), TrainIterationsTarget: config.Value(100), TrainSamplesTarget: config.Value(400),
	}
	cfg.Ranks.LocalRank = config.Value(0)
	cfg.Outputs.OTLP = config.OTLP{Endpoint: c.url, Protocol: c.protocol}
	return cfg
}

func (c *collector) take(r proto.Message) bool {
	signal, call := c.note(r)
	if signal != "metrics" && c.script != nil && !c.script(signal, call) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	return true
}

func (c *collector) note(r proto.Message) (signal string, call int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r := r.(type) {
	case *tracecollector.ExportTraceServiceRequest:
		signal = "traces"
		c.resources[signal] = r.GetResourceSpans()[0].GetResource()
	case *logscollector.ExportLogsServiceRequest:
		signal = "logs"
		c.resources[signal] = r.GetResourceLogs()[0].GetResource()
	case *metricscollector.ExportMetricsServiceRequest:
		signal = "metrics"
		c.resources[signal] = r.GetResourceMetrics()[0].GetResource()
	}
	c.calls[signal]++
	return signal, c.calls[signal]
}

func (c *collector) serveHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	r := map[string]proto.Message{
		"/v1/traces": &tracecollector.ExportTraceServiceRequest{}, "/v1/logs": &logscollector.ExportLogsServiceRequest{},
		"/v1/metrics": &metricscollector.ExportMetricsServiceRequest{},
	}[q.URL.Path]
	if r == nil {
		http.NotFound(w, q) // like a receiver that does not support the signal
		return
	}
	if err != nil || proto.Unmarshal(body, r) != nil {
		http.Error(w, "no such request", http.StatusBadRequest)
		return
	}
	if !c.take(r) {
		http.Error(w, "refused", http.StatusForbidden)
	}
}

func (c *collector) answer(r proto.Message) error {
	if !c.take(r) {
		return status.Error(codes.PermissionDenied, "refused")
	}
	return nil
}

type traceService struct {
	tracecollector.UnimplementedTraceServiceServer
	c *collector
}

func (s *traceService) Export(_ context.Context, r *tracecollector.ExportTraceServiceRequest) (*tracecollector.ExportTraceServiceResponse, error) {
	return &tracecollector.ExportTraceServiceResponse{}, s.c.answer(r)
}

type logsService struct {
	logscollector.UnimplementedLogsServiceServer
	c *collector
}

func (s *logsService) Export(_ context.Context, r *logscollector.ExportLogsServiceRequest) (*logscollector.ExportLogsServiceResponse, error) {
	return &logscollector.ExportLogsServiceResponse{}, s.c.answer(r)
}

type metricsService struct {
	metricscollector.UnimplementedMetricsServiceServer
	c *collector
}

func (s *metricsService) Export(_ context.Context, r *metricscollector.ExportMetricsServiceRequest) (*metricscollector.ExportMetricsServiceResponse, error) {
	return &metricscollector.ExportMetricsServiceResponse{}, s.c.answer(r)
}

// metrics returns the metrics of the latest export.
func (c *collector) metrics() (all []*metricspb.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, request := range slices.Backward(c.requests) {
		if r, ok := request.(*metricscollector.ExportMetricsServiceRequest); ok {
			for _, sm := range r.GetResourceMetrics()[0].GetScopeMetrics() {
				all = append(all, sm.GetMetrics()...)
			}
			return all
		}
	}
	return nil
}

// number returns the sum of a counter's data points, or a gauge's value.
func (c *collector) number(name string) float64 {
	for _, m := range c.metrics() {
		if m.GetName() != name {
			continue
		}
		sum := 0.0
		for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
			sum += p.GetAsDouble() + float64(p.GetAsInt())
		}
		for _, p := range m.GetHistogram().GetDataPoints() {
			sum += float64(p.GetCount())
		}
		return sum
	}
	return -1
}

func (c *collector) logs() (all []*logspb.LogRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, request := range c.requests {
		if r, ok := request.(*logscollector.ExportLogsServiceRequest); ok {
			for _, sl := range r.GetResourceLogs()[0].GetScopeLogs() {
				all = append(all, sl.GetLogRecords()...)
			}
		}
	}
	return all
}

func (c *collector) seen(signal string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[signal]
}
