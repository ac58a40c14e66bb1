package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/trainspan/trainspan/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// protocols are what every test of a transport runs over.
var protocols = []config.Protocol{config.OTLPGRPC, config.OTLPHTTP}

// reply is what a receiver does with a request.
type reply int

const (
	accept     reply = iota
	reject2          // takes all but two spans
	busy             // asks to come again
	full             // says the request is too large
	refuse           // takes nothing, ever
	hang             // never answers
	disconnect       // closes the connection (with gRPC: unavailable)
)

// receiver is a backend on 127.0.0.1 that follows a script.
type receiver struct {
	t        *testing.T
	protocol config.Protocol
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

// start begins to serve; address may name a port to take again.
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
	if r.protocol == config.OTLPGRPC {
		r.startGRPC(listener)
	} else {
		r.startHTTP(listener)
	}
	end := r.stop
	var once sync.Once
	r.stop = func() { once.Do(func() { close(r.release); end() }) }
	r.t.Cleanup(func() { r.stop() })
	return r
}

func (r *receiver) startGRPC(listener net.Listener) {
	options := []grpc.ServerOption{grpc.StatsHandler((*compression)(r)), grpc.MaxRecvMsgSize(64 << 20)}
	if r.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(r.tls)))
	}
	s := grpc.NewServer(options...)
	collectorpb.RegisterTraceServiceServer(s, &grpcService{r: r})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(listener) }() // ends with Stop
	r.stop = func() { s.Stop(); <-done }
}

// compression notes whether requests are compressed.
type compression receiver

func (c *compression) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (c *compression) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gzip = h.Compression == "gzip"
		c.path = h.FullMethod
	}
}
func (c *compression) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *compression) HandleConn(context.Context, stats.ConnStats)                       {}

type grpcService struct {
	collectorpb.UnimplementedTraceServiceServer
	r *receiver
}

func (g *grpcService) Export(ctx context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	headers := map[string]string{}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		headers[name] = strings.Join(values, ",")
	}
	switch g.r.take(headers, request) {
	case reject2:
		return partialAnswer(), nil
	case busy, disconnect:
		return nil, status.Error(codes.Unavailable, "come again")
	case full:
		return nil, status.Error(codes.ResourceExhausted, "message larger than max")
	case refuse:
		return nil, status.Error(codes.PermissionDenied, "you sent "+headers["x-key"]+"\nand a second line")
	case hang:
		select {
		case <-ctx.Done():
		case <-g.r.release:
		}
		return nil, status.Error(codes.Aborted, "too late")
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

func partialAnswer() *collectorpb.ExportTraceServiceResponse {
	return &collectorpb.ExportTraceServiceResponse{
		PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 2, ErrorMessage: "two are odd"},
	}
}

func (r *receiver) startHTTP(listener net.Listener) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(r.serveHTTP))
	s.Config.ErrorLog = nil
	s.Listener.Close()
	s.Listener = listener
	if r.tls != nil {
		s.TLS = r.tls
		s.StartTLS()
	} else {
		s.Start()
	}
	r.stop = func() { s.CloseClientConnections(); s.Close() }
}

func (r *receiver) serveHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	zipped := q.Header.Get("Content-Encoding") == "gzip"
	if err == nil && zipped {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(z)
		}
	}
	var request collectorpb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.gzip, r.path = zipped, q.URL.RequestURI()
	if q.TLS != nil && len(q.TLS.PeerCertificates) > 0 {
		r.clients++
	}
	r.mu.Unlock()
	headers := map[string]string{}
	for name := range q.Header {
		headers[strings.ToLower(name)] = q.Header.Get(name)
	}
	switch r.take(headers, &request) {
	case accept:
		w.Header().Set("Content-Type", "application/x-protobuf")
	case reject2:
		answer, _ := proto.Marshal(partialAnswer())
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	case busy:
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	case full:
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case refuse:
		http.Error(w, "you sent "+headers["x-key"]+"\nand a second line", http.StatusForbidden)
	case hang:
		select {
		case <-q.Context().Done():
		case <-r.release:
		}
	case disconnect:
		panic(http.ErrAbortHandler)
	}
}

// take notes a request and tells what to do with it.
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

// names are those of the spans that were taken.
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

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// silentPort takes connections and never says a word.
func silentPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	return l.Addr().String()
}

// within fails the test if f hangs.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("hangs")
	}
}

func sequence(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("s", i))
	}
	return names
}
