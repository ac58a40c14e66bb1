package otlp_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/config"
	logscollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// signals is a receiver of logs and metrics on 127.0.0.1 that follows a script.
type signals struct {
	protocol string
	script   func(call, records int) reply // nil accepts
	url      string
	release  chan struct{}

	mu      sync.Mutex
	calls   int
	headers map[string]string // of the last request
	gzip    bool
	logs    []*logspb.ResourceLogs
	metrics []*metricspb.ResourceMetrics
}

func forSignals(t *testing.T, f func(t *testing.T, s *signals)) {
	for _, protocol := range protocols {
		t.Run(strings.ReplaceAll(string(protocol), "/", " "), func(t *testing.T) {
			f(t, &signals{protocol: protocol})
		})
	}
}

// start begins to serve; conf is nil for a plain connection.
func (s *signals) start(t *testing.T, conf *tls.Config) *signals {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.release = make(chan struct{})
	s.url = "http://" + listener.Addr().String()
	if conf != nil {
		s.url = "https://" + listener.Addr().String()
	}
	var stop func()
	if s.protocol == config.OTLPHTTP {
		stop = serveHTTP(listener, conf, s.serveHTTP)
	} else {
		stop = serveGRPC(listener, conf, s.note, func(server *grpc.Server) {
			logscollector.RegisterLogsServiceServer(server, &logsService{s: s})
			metricscollector.RegisterMetricsServiceServer(server, &metricsService{s: s})
		})
	}
	t.Cleanup(func() { close(s.release); stop() })
	return s
}

func (s *signals) note(zipped bool, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gzip = zipped
}

// take notes a request and returns how to answer it.
func (s *signals) take(headers map[string]string, request proto.Message) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.headers = headers
	do := accept
	n := 0
	if r, ok := request.(*logscollector.ExportLogsServiceRequest); ok {
		n = len(recordsOf(r.GetResourceLogs()))
	}
	if s.script != nil {
		do = s.script(s.calls, n)
	}
	if do == accept || do == reject2 {
		switch r := request.(type) {
		case *logscollector.ExportLogsServiceRequest:
			s.logs = append(s.logs, r.GetResourceLogs()...)
		case *metricscollector.ExportMetricsServiceRequest:
			s.metrics = append(s.metrics, r.GetResourceMetrics()...)
		}
	}
	return do
}

func (s *signals) serveHTTP(w http.ResponseWriter, q *http.Request) {
	request := map[string]proto.Message{
		"/v1/logs": &logscollector.ExportLogsServiceRequest{}, "/v1/metrics": &metricscollector.ExportMetricsServiceRequest{},
	}[q.URL.Path]
	if request == nil {
		http.Error(w, "no such request", http.StatusBadRequest)
		return
	}
	zipped, ok := readRequest(w, q, request)
	if !ok {
		return
	}
	s.note(zipped, q.URL.Path)
	writeReply(w, q, s.take(headersOf(q), request), partialLogs(), s.release)
}

func partialLogs() *logscollector.ExportLogsServiceResponse {
	return &logscollector.ExportLogsServiceResponse{
		PartialSuccess: &logscollector.ExportLogsPartialSuccess{RejectedLogRecords: 2, ErrorMessage: "two are odd"},
	}
}

// answer handles a gRPC call for both services.
func (s *signals) answer(ctx context.Context, request proto.Message) (reply, error) {
	do := s.take(incoming(ctx), request)
	return do, refusal(ctx, do, s.release)
}

type logsService struct {
	logscollector.UnimplementedLogsServiceServer
	s *signals
}

func (l *logsService) Export(ctx context.Context, r *logscollector.ExportLogsServiceRequest) (*logscollector.ExportLogsServiceResponse, error) {
	do, err := l.s.answer(ctx, r)
	if err != nil {
		return nil, err
	}
	if do == reject2 {
		return partialLogs(), nil
	}
	return &logscollector.ExportLogsServiceResponse{}, nil
}

type metricsService struct {
	metricscollector.UnimplementedMetricsServiceServer
	s *signals
}

func (m *metricsService) Export(ctx context.Context, r *metricscollector.ExportMetricsServiceRequest) (*metricscollector.ExportMetricsServiceResponse, error) {
	if _, err := m.s.answer(ctx, r); err != nil {
		return nil, err
	}
	return &metricscollector.ExportMetricsServiceResponse{}, nil
}

func recordsOf(all []*logspb.ResourceLogs) (records []*logspb.LogRecord) {
	for _, rl := range all {
		for _, sl := range rl.GetScopeLogs() {
			records = append(records, sl.GetLogRecords()...)
		}
	}
	return records
}

// taken returns the accepted log records.
func (s *signals) taken() []*logspb.LogRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return recordsOf(s.logs)
}

func (s *signals) seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}
