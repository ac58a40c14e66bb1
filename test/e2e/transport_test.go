package e2e

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/test/e2e/servers"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

const (
	keyHeader = "x-api-key"
	secret    = "a long secret value"
)

// relay is a proxy for Jaeger that rejects requests without a key and forwards
// the others unchanged.
type relay struct {
	collectorpb.UnimplementedTraceServiceServer
	url  string
	next collectorpb.TraceServiceClient // with gRPC

	mu              sync.Mutex
	refused, zipped int
}

// admit records a request and reports whether it may pass.
func (r *relay) admit(key string, zipped bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if zipped {
		r.zipped++
	}
	if key != secret {
		r.refused++
	}
	return key == secret
}

func newRelay(t *testing.T, protocol string, j *servers.JaegerServer) *relay {
	t.Helper()
	r := &relay{}
	if protocol == config.OTLPHTTP {
		transport := &http.Transport{}
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: j.HTTP})
		proxy.Transport = transport
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if !r.admit(q.Header.Get(keyHeader), q.Header.Get("Content-Encoding") == "gzip") {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			proxy.ServeHTTP(w, q)
		}))
		t.Cleanup(func() { s.Close(); transport.CloseIdleConnections() })
		r.url = s.URL
		return r
	}
	conn, err := grpc.NewClient(j.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	r.next = collectorpb.NewTraceServiceClient(conn)
	r.url = "http://" + serveGRPC(t, r, grpc.StatsHandler(compression{}))
	t.Cleanup(func() { _ = conn.Close() }) // its server has stopped
	return r
}

// serveGRPC runs an OTLP service until the end of the test and returns its
// address.
func serveGRPC(t *testing.T, service collectorpb.TraceServiceServer, options ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	collectorpb.RegisterTraceServiceServer(s, service)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// Export implements the OTLP service.
func (r *relay) Export(ctx context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	zipped, _ := ctx.Value(compression{}).(*bool)
	key := strings.Join(metadata.ValueFromIncomingContext(ctx, keyHeader), ",")
	if !r.admit(key, zipped != nil && *zipped) {
		return nil, status.Error(codes.Unauthenticated, "who are you?")
	}
	return r.next.Export(ctx, request)
}

// compression stores in a call's context whether the request is compressed.
type compression struct{}

func (compression) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, compression{}, new(bool))
}
func (compression) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		if zipped, ok := ctx.Value(compression{}).(*bool); ok {
			*zipped = h.Compression == gzip.Name
		}
	}
}
func (compression) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (compression) HandleConn(context.Context, stats.ConnStats)                       {}

// deliverDemo runs the demo with an exporter and checks that Jaeger has all of
// it.
func deliverDemo(t *testing.T, q *servers.Query, cfg otlp.Config) {
	t.Helper()
	name, w := service(t), &spanKeeper{}
	tel := configure(t, newBuilder(name).WithSpanProcessor(w), cfg)
	if err := demo(t.Context(), tel); err != nil {
		t.Fatal(err)
	}
	if s := tel.Stats(); s.ExportedSpans != int64(len(w.spans)) || s.DroppedSpans != 0 {
		t.Fatalf("%d spans ended, want them all exported: %+v", len(w.spans), s)
	}
	compare(t, spansOf(t, q, name, len(w.spans)), w.spans)
}

var protocols = map[string]string{"grpc": config.OTLPGRPC, "http": config.OTLPHTTP}

// TestTransports delivers the demo with every pair of protocol and compression,
// plain and with TLS of a private authority.
func TestTransports(t *testing.T) {
	private := newAuthority(t)
	open := startJaeger(t, servers.JaegerOptions{})
	closed := startJaeger(t, servers.JaegerOptions{CertFile: private.cert, KeyFile: private.key})
	for name, protocol := range protocols {
		for _, zip := range []string{"none", "gzip"} {
			t.Run(name+"-"+zip, func(t *testing.T) {
				cfg := send(protocol, "http://"+address(open, protocol))
				cfg.Compression = zip
				deliverDemo(t, open.Query, cfg)
			})
			t.Run(name+"-"+zip+"-tls", func(t *testing.T) {
				cfg := send(protocol, "https://"+address(closed, protocol))
				cfg.Compression, cfg.Certificate = zip, private.ca
				deliverDemo(t, closed.Query, cfg)
			})
		}
		t.Run(name+"-unknown-authority", func(t *testing.T) {
			cfg := send(protocol, "https://"+address(closed, protocol))
			cfg.Certificate = newAuthority(t).ca
			loseDemo(t, cfg)
		})
	}
}

func address(j *servers.JaegerServer, protocol string) string {
	if protocol == config.OTLPHTTP {
		return j.HTTP
	}
	return j.GRPC
}

// loseDemo runs the demo with an exporter whose backend accepts nothing, and
// checks that every span is reported as lost. It returns the counts by cause.
func loseDemo(t *testing.T, cfg otlp.Config) map[string]int64 {
	t.Helper()
	w, r := &spanKeeper{}, &reports{}
	cfg.RetryFor = time.Second
	tel := configure(t, newBuilder(service(t)).WithSpanProcessor(w).WithShutdownTimeout(2*time.Second).WithLogger(r.logger()), cfg)
	if err := demo(t.Context(), tel); err != nil {
		t.Fatal(err)
	}
	_ = tel.Shutdown(context.Background()) // the error repeats the counts
	s, all := tel.Stats(), int64(len(w.spans))
	if s.EndedSpans != all || s.DroppedSpans != all || s.ExportedSpans != 0 || s.PendingSpans != 0 {
		t.Errorf("%d spans ended, want them all dropped: %+v", all, s)
	}
	if single, sum := r.lost(); single != all || sum != all {
		t.Errorf("the log has %d lost spans, and %d at the end, want %d", single, sum, all)
	}
	if strings.Contains(r.String(), secret) {
		t.Error("the log contains the secret, want it hidden")
	}
	return s.Drops
}

// TestRequiredHeader puts a relay that requires a key before Jaeger.
func TestRequiredHeader(t *testing.T) {
	j := startJaeger(t, servers.JaegerOptions{})
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			r := newRelay(t, protocol, j)
			cfg := send(protocol, r.url)
			cfg.Compression = "gzip"
			cfg.Headers = config.Headers{keyHeader: secret}
			deliverDemo(t, j.Query, cfg)
			if r.refused != 0 || r.zipped == 0 {
				t.Errorf("%d requests were refused, %d compressed; want 0, some", r.refused, r.zipped)
			}
		})
		t.Run(name+"-wrong", func(t *testing.T) {
			r := newRelay(t, protocol, j)
			cfg := send(protocol, r.url)
			cfg.Headers = config.Headers{keyHeader: secret + " of another"}
			drops := loseDemo(t, cfg)
			if len(drops) != 1 || drops["refused by the backend"] == 0 || r.refused == 0 {
				t.Errorf("dropped %v, %d requests refused; want spans refused by the backend only", drops, r.refused)
			}
		})
	}
}

// TestPartialSuccess has a backend that accepts a batch except for three spans.
func TestPartialSuccess(t *testing.T) {
	p := &rejectingReceiver{}
	w, r := &spanKeeper{}, &reports{}
	cfg := send(config.OTLPGRPC, "http://"+serveGRPC(t, p))
	cfg.BatchDelay = time.Minute // one batch
	tel := configure(t, newBuilder(service(t)).WithSpanProcessor(w).WithLogger(r.logger()), cfg)
	if err := demo(t.Context(), tel); err != nil {
		t.Fatal(err)
	}
	_ = tel.Shutdown(context.Background()) // the counts have more detail
	s, all := tel.Stats(), int64(len(w.spans))
	if s.EndedSpans != all || s.ExportedSpans != all-rejected || s.DroppedSpans != rejected || s.Drops["refused by the backend"] != rejected {
		t.Errorf("%d spans ended, %+v; want %d rejected, the rest exported", all, s, rejected)
	}
	if single, sum := r.lost(); single != rejected || sum != rejected {
		t.Errorf("the log has %d lost spans, and %d at the end, want %d", single, sum, rejected)
	}
	if !strings.Contains(r.String(), "three are odd") {
		t.Error("the log lacks the backend's message")
	}
	if p.calls != 1 {
		t.Errorf("%d calls, want 1: what was taken must not be sent again", p.calls)
	}
}

const rejected = 3

type rejectingReceiver struct {
	collectorpb.UnimplementedTraceServiceServer
	calls int
}

// Export implements the OTLP service.
func (p *rejectingReceiver) Export(_ context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	p.calls++
	if len(flatten(request.GetResourceSpans())) < rejected {
		return nil, errors.New("the batch is too small for this test")
	}
	return &collectorpb.ExportTraceServiceResponse{PartialSuccess: &collectorpb.ExportTracePartialSuccess{
		RejectedSpans: rejected, ErrorMessage: "three are odd",
	}}, nil
}
