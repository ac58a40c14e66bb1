package otlp_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/config"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// protocols are the transports of every transport test.
var protocols = []string{config.OTLPGRPC, config.OTLPHTTP}

// receiver is a backend on 127.0.0.1 that follows a script.
type receiver struct {
	t        *testing.T
	protocol string
	script   func(call int, spans []*tracepb.Span) reply
	tls      *tls.Config

	address string
	url     string
	stop    func()
	release chan struct{}

	mu      sync.Mutex
	calls   int
	taken   []*tracepb.ResourceSpans
	headers map[string]string // of the last request
	gzip    bool
	path    string
	clients int // requests with a client certificate
}

// start begins to serve; address may have a port to use again.
func (r *receiver) start(address string) *receiver {
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.address = listener.Addr().String()
	scheme := "http://"
	if r.tls != nil {
		scheme = "https://"
	}
	r.url = scheme + r.address
	r.release = make(chan struct{})
	end := r.serve(listener)
	var once sync.Once
	r.stop = func() { once.Do(func() { close(r.release); end() }) }
	r.t.Cleanup(func() { r.stop() })
	return r
}

func (r *receiver) serve(listener net.Listener) (stop func()) {
	if r.protocol == config.OTLPHTTP {
		return serveHTTP(listener, r.tls, r.serveHTTP)
	}
	note := func(zipped bool, path string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.gzip, r.path = zipped, path
	}
	return serveGRPC(listener, r.tls, note, func(s *grpc.Server) {
		collectorpb.RegisterTraceServiceServer(s, &grpcService{r: r})
	})
}

type grpcService struct {
	collectorpb.UnimplementedTraceServiceServer
	r *receiver
}

func (g *grpcService) Export(ctx context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	do := g.r.take(incoming(ctx), request)
	if err := refusal(ctx, do, g.r.release); err != nil {
		return nil, err
	}
	if do == reject2 {
		return partialAnswer(), nil
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

func partialAnswer() *collectorpb.ExportTraceServiceResponse {
	return &collectorpb.ExportTraceServiceResponse{
		PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 2, ErrorMessage: "two are odd"},
	}
}

func (r *receiver) serveHTTP(w http.ResponseWriter, q *http.Request) {
	var request collectorpb.ExportTraceServiceRequest
	zipped, ok := readRequest(w, q, &request)
	if !ok {
		return
	}
	r.mu.Lock()
	r.gzip, r.path = zipped, q.URL.RequestURI()
	if q.TLS != nil && len(q.TLS.PeerCertificates) > 0 {
		r.clients++
	}
	r.mu.Unlock()
	writeReply(w, q, r.take(headersOf(q), &request), partialAnswer(), r.release)
}

// take notes a request and returns how to answer it.
func (r *receiver) take(headers map[string]string, request *collectorpb.ExportTraceServiceRequest) reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.headers = headers
	do := accept
	if r.script != nil {
		do = r.script(r.calls, spansOf(request.GetResourceSpans()))
	}
	if do == accept || do == reject2 {
		r.taken = append(r.taken, request.GetResourceSpans()...)
	}
	return do
}

// names returns the names of the accepted spans.
func (r *receiver) names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range spansOf(r.taken) {
		names = append(names, s.GetName())
	}
	return names
}

func (r *receiver) seen() (calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func spansOf(all []*tracepb.ResourceSpans) (spans []*tracepb.Span) {
	for _, rs := range all {
		for _, ss := range rs.GetScopeSpans() {
			spans = append(spans, ss.GetSpans()...)
		}
	}
	return spans
}

func sequence(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("s", i))
	}
	return names
}
