package otlp_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// reply is how a receiver answers a request.
type reply int

const (
	accept     reply = iota
	reject2          // takes all but two spans
	busy             // asks for a retry
	full             // answers that the request is too large
	refuse           // always refuses
	hang             // never answers
	disconnect       // closes the connection (with gRPC: unavailable)
)

// callNote is called with the compression and the path of each gRPC call.
type callNote func(zipped bool, path string)

func (f callNote) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (f callNote) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (f callNote) HandleConn(context.Context, stats.ConnStats)                       {}

func (f callNote) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		f(h.Compression == "gzip", h.FullMethod)
	}
}

// serveGRPC serves until stop is called; conf is nil for a plain connection.
func serveGRPC(listener net.Listener, conf *tls.Config, note callNote, register func(*grpc.Server)) (stop func()) {
	options := []grpc.ServerOption{grpc.StatsHandler(note), grpc.MaxRecvMsgSize(64 << 20)}
	if conf != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(conf)))
	}
	s := grpc.NewServer(options...)
	register(s)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(listener) }() // ends with Stop
	return func() { s.Stop(); <-done }
}

// serveHTTP serves until stop is called; conf is nil for a plain connection.
func serveHTTP(listener net.Listener, conf *tls.Config, handler http.HandlerFunc) (stop func()) {
	s := httptest.NewUnstartedServer(handler)
	s.Listener.Close()
	s.Listener = listener
	if s.TLS = conf; conf != nil {
		s.StartTLS()
	} else {
		s.Start()
	}
	return func() { s.CloseClientConnections(); s.Close() }
}

// incoming returns the headers of a gRPC call.
func incoming(ctx context.Context) map[string]string {
	headers := map[string]string{}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		headers[name] = strings.Join(values, ",")
	}
	return headers
}

// refusal returns the gRPC error for a reply that takes nothing.
func refusal(ctx context.Context, do reply, release <-chan struct{}) error {
	switch do {
	case busy, disconnect:
		return status.Error(codes.Unavailable, "come again")
	case full:
		return status.Error(codes.ResourceExhausted, "message larger than max")
	case refuse:
		return status.Error(codes.PermissionDenied, "you sent "+incoming(ctx)["x-key"]+"\nand a second line")
	case hang: // the client must notice the end of the call's time first
		<-release
		return status.Error(codes.Aborted, "too late")
	}
	return nil
}

// readRequest reads an HTTP request, and reports whether it was compressed. An
// invalid request is answered.
func readRequest(w http.ResponseWriter, q *http.Request, request proto.Message) (zipped, ok bool) {
	zipped = q.Header.Get("Content-Encoding") == "gzip"
	var body io.Reader = q.Body
	var err error
	if zipped {
		body, err = gzip.NewReader(q.Body)
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(body)
	}
	if err == nil {
		err = proto.Unmarshal(text, request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return zipped, err == nil
}

// headersOf returns the headers of an HTTP request, in lower case as in gRPC.
func headersOf(q *http.Request) map[string]string {
	headers := map[string]string{}
	for name := range q.Header {
		headers[strings.ToLower(name)] = q.Header.Get(name)
	}
	return headers
}

// writeReply answers an HTTP request.
func writeReply(w http.ResponseWriter, q *http.Request, do reply, partial proto.Message, release <-chan struct{}) {
	switch do {
	case accept:
		w.Header().Set("Content-Type", "application/x-protobuf")
	case reject2:
		answer, _ := proto.Marshal(partial)
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	case busy:
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	case full:
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case refuse:
		http.Error(w, "you sent "+q.Header.Get("x-key")+"\nand a second line", http.StatusForbidden)
	case hang:
		select {
		case <-q.Context().Done():
		case <-release:
		}
	case disconnect:
		panic(http.ErrAbortHandler)
	}
}

// closedPort returns an address where nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// silentPort accepts connections and never answers.
func silentPort(t *testing.T) string {
	t.Helper()
	address, _ := silentServer(t)
	return address
}

// silentServer returns a silentPort, and a context that is done when a client
// has connected.
func silentServer(t *testing.T) (address string, until context.Context) {
	t.Helper()
	came, once := make(chan struct{}), sync.Once{}
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
			once.Do(func() { close(came) })
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	return l.Addr().String(), deadline{context.Background(), came}
}

// turningAway returns an address that closes each connection without an answer,
// and the number of closed connections. close frees the address.
func turningAway(t *testing.T) (address string, gone *atomic.Int64, close func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone = new(atomic.Int64)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c) // until the client has noticed
			c.Close()
			gone.Add(1)
		}
	})
	close = func() { l.Close(); serving.Wait() }
	t.Cleanup(close)
	return l.Addr().String(), gone, close
}

// deadline is a context whose deadline is an event.
type deadline struct {
	context.Context
	over <-chan struct{}
}

func (d deadline) Deadline() (time.Time, bool) { return time.Now().Add(time.Minute), true }
func (d deadline) Done() <-chan struct{}       { return d.over }
func (d deadline) Err() error {
	select {
	case <-d.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// within fails the test if f hangs.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(5 * time.Minute): // only a safeguard
		t.Fatal("no result after five minutes, want one")
	}
}
