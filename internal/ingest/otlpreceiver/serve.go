package otlpreceiver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/platform/environ"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // for compressed requests
)

// Listen starts a receiver on a free port of 127.0.0.1, or of ::1 if there is
// no other loopback.
func Listen(sink Sink, options *Options) (*Receiver, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = DefaultMaxConcurrent
	}
	if o.MaxRate <= 0 {
		o.MaxRate = DefaultMaxRate
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		var other error
		if l, other = net.Listen("tcp", "[::1]:0"); other != nil {
			return nil, fmt.Errorf("otlpreceiver: %w", err)
		}
	}
	r := &Receiver{o: o, sink: sink, listen: l, slots: make(chan struct{}, o.MaxConcurrent), large: make(chan struct{}, 1), served: make(chan struct{})}
	r.rate = rate{perSecond: float64(o.MaxRate), tokens: rateBurst * float64(o.MaxRate)}
	r.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(o.MaxBody), grpc.ForceServerCodec(rawCodec{}))
	r.grpc.RegisterService(serviceDesc(), grpcService{r: r})
	r.server = &http.Server{
		Handler: r, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 10 * time.Minute, MaxHeaderBytes: 64 << 10,
		Protocols: new(http.Protocols),
	}
	r.server.Protocols.SetHTTP1(true)
	r.server.Protocols.SetUnencryptedHTTP2(true) // gRPC uses it
	go func() {
		defer close(r.served)
		if err := r.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Warn("OTLP receiver has ended", "error", err, "see", helptopic.Receiver)
		}
	}()
	return r, nil
}

// ServeHTTP handles both protocols; the content type distinguishes them.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	isGRPC := req.ProtoMajor == 2 && strings.HasPrefix(req.Header.Get("Content-Type"), "application/grpc")
	err := r.admit(req)
	if err == nil {
		free, ok := r.slot(req.Context())
		if ok {
			defer free()
		} else {
			err = errBusy
		}
	}
	if err != nil {
		r.refused.Add(1)
		if isGRPC {
			refuseGRPC(w, err)
		} else {
			refuse(w, mediaOf(req), err)
		}
		return
	}
	if isGRPC {
		r.grpc.ServeHTTP(w, req)
		return
	}
	r.serveHTTP(w, req)
}

// Refusals of requests that are not allowed.
var (
	errHost   = &httpError{http.StatusForbidden, codes.PermissionDenied, "the Host header does not name this machine's loopback address; use the address in OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}
	errOrigin = &httpError{http.StatusForbidden, codes.PermissionDenied, "requests from web pages are rejected"}
	errToken  = &httpError{http.StatusUnauthorized, codes.Unauthenticated, "the token is missing or wrong; send the headers in OTEL_EXPORTER_OTLP_TRACES_HEADERS, which trainspan run gives its command, or start it with --otlp-token-file or --otlp-no-token"}
)

// admit checks that a request is allowed before its body is read. A page in a
// browser could name any address: Host reveals it if its own name resolves to
// loopback, otherwise Origin does.
func (r *Receiver) admit(req *http.Request) error {
	if !isLoopback(req.Host) {
		return errHost
	}
	for _, origin := range req.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || !isLoopback(u.Host) {
			return errOrigin
		}
	}
	if r.o.Token != "" && !hasToken(req.Header, r.o.Token) {
		return errToken
	}
	return nil
}

// isLoopback reports whether the host of an address, with or without a port, is
// a name of loopback. Old clients send none.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// hasToken looks for the token in our header, and in the one that Collector
// clients use. It compares in constant time.
func hasToken(h http.Header, token string) bool {
	want := sha256.Sum256([]byte(token))
	given := h.Values(environ.TokenHeader)
	for _, v := range h.Values("Authorization") {
		if scheme, text, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
			given = append(given, text)
		}
	}
	ok := 0
	for _, text := range given {
		sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
		ok |= subtle.ConstantTimeCompare(sum[:], want[:])
	}
	return ok == 1
}

// httpError is a refusal.
type httpError struct {
	status int
	code   codes.Code
	text   string
}

func (e *httpError) Error() string { return e.text }

var (
	errBusy      = &httpError{http.StatusTooManyRequests, codes.ResourceExhausted, "too many spans; retry later"}
	errUnsaved   = &httpError{http.StatusServiceUnavailable, codes.Unavailable, "cannot save the spans now; retry later"}
	errPath      = &httpError{http.StatusNotFound, codes.NotFound, "only " + Path + " is served here"}
	errMethod    = &httpError{http.StatusMethodNotAllowed, codes.Unimplemented, "only POST is served here"}
	errMediaType = &httpError{http.StatusUnsupportedMediaType, codes.InvalidArgument, "the content type is neither " + mediaProtobuf + " nor " + mediaJSON}
	errEncoding  = &httpError{http.StatusUnsupportedMediaType, codes.InvalidArgument, "the content encoding is not gzip"}
)

func tooMany(err error) error {
	return &httpError{http.StatusRequestEntityTooLarge, codes.ResourceExhausted, err.Error()}
}

func broken(err error) error {
	return &httpError{http.StatusBadRequest, codes.InvalidArgument, "cannot read the request: " + err.Error()}
}

// largeBody is the size above which requests are handled one at a time.
const largeBody = 1 << 20

// turn is the right to handle a large request. The zero value does not have it.
type turn struct {
	r    *Receiver
	mine bool
}

// wait waits for the turn for a moment, if a body is large.
func (t *turn) wait(ctx context.Context, size int) error {
	if size <= largeBody || t.mine {
		return nil
	}
	patience := time.NewTimer(slotWait)
	defer patience.Stop()
	select {
	case t.r.large <- struct{}{}:
		t.mine = true
		return nil
	case <-ctx.Done():
	case <-patience.C:
	}
	return errBusy
}

func (t *turn) end() {
	if t.mine {
		<-t.r.large
	}
}

// rateBurst is for how many seconds unused rate is saved.
const rateBurst = 5

// rate is a token bucket.
type rate struct {
	perSecond float64

	mu     sync.Mutex
	tokens float64
	at     time.Time
}

// allow takes n tokens if there are any, so that one large request passes.
func (r *rate) allow(n float64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && now.After(r.at) {
		r.tokens = min(r.tokens+now.Sub(r.at).Seconds()*r.perSecond, rateBurst*r.perSecond)
	}
	r.at = now
	if r.tokens <= 0 {
		return false
	}
	r.tokens -= n
	return true
}
