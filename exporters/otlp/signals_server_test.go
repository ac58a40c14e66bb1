package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	logscollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/trainspan/trainspan/config"
)

// signals is a receiver of logs and metrics on 127.0.0.1 that follows a script.
type signals struct {
	protocol config.Protocol
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
	if s.protocol == config.OTLPHTTP {
		server := httptest.NewUnstartedServer(http.HandlerFunc(s.serveHTTP))
		server.Listener.Close()
		server.Listener = listener
		if server.TLS = conf; conf != nil {
			server.StartTLS()
		} else {
			server.Start()
		}
		t.Cleanup(func() { close(s.release); server.CloseClientConnections(); server.Close() })
		return s
	}
	options := []grpc.ServerOption{grpc.StatsHandler(&zipNote{s: s})}
	if conf != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(conf)))
	}
	server := grpc.NewServer(options...)
	logscollector.RegisterLogsServiceServer(server, &logsService{s: s})
	metricscollector.RegisterMetricsServiceServer(server, &metricsService{s: s})
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(func() { close(s.release); server.Stop(); <-done })
	return s
}

// take notes a request and tells what to do with it.
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
	body, err := io.ReadAll(q.Body)
	zipped := q.Header.Get("Content-Encoding") == "gzip"
	if err == nil && zipped {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(z)
		}
	}
	requests := map[string]proto.Message{
		"/v1/logs": &logscollector.ExportLogsServiceRequest{}, "/v1/metrics": &metricscollector.ExportMetricsServiceRequest{},
	}
	request := requests[q.URL.Path]
	if err != nil || request == nil || proto.Unmarshal(body, request) != nil {
		http.Error(w, "no such request", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.gzip = zipped
	s.mu.Unlock()
	headers := map[string]string{}
	for name := range q.Header {
		headers[strings.ToLower(name)] = q.Header.Get(name)
	}
	switch s.take(headers, request) {
	case reject2:
		answer, _ := proto.Marshal(partialLogs())
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	case busy:
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	case full:
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case refuse:
		http.Error(w, "you sent "+headers["x-key"], http.StatusForbidden)
	case hang:
		select {
		case <-q.Context().Done():
		case <-s.release:
		}
	case disconnect:
		panic(http.ErrAbortHandler)
	}
}

func partialLogs() *logscollector.ExportLogsServiceResponse {
	return &logscollector.ExportLogsServiceResponse{
		PartialSuccess: &logscollector.ExportLogsPartialSuccess{RejectedLogRecords: 2, ErrorMessage: "two are odd"},
	}
}

// answer is the part of a gRPC call that both services share.
func (s *signals) answer(ctx context.Context, request proto.Message) (reply, error) {
	headers := map[string]string{}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		headers[name] = strings.Join(values, ",")
	}
	do := s.take(headers, request)
	switch do {
	case busy, disconnect:
		return do, status.Error(codes.Unavailable, "come again")
	case full:
		return do, status.Error(codes.ResourceExhausted, "message larger than max")
	case refuse:
		return do, status.Error(codes.PermissionDenied, "you sent "+headers["x-key"])
	case hang:
		select {
		case <-ctx.Done():
		case <-s.release:
		}
		return do, status.Error(codes.Aborted, "too late")
	}
	return do, nil
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

// taken are the log records that were accepted.
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

// zipNote notes whether requests are compressed.
type zipNote struct{ s *signals }

func (z *zipNote) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (z *zipNote) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (z *zipNote) HandleConn(context.Context, stats.ConnStats)                       {}

func (z *zipNote) HandleRPC(_ context.Context, info stats.RPCStats) {
	if h, ok := info.(*stats.InHeader); ok {
		z.s.mu.Lock()
		defer z.s.mu.Unlock()
		z.s.gzip = h.Compression == "gzip"
	}
}
