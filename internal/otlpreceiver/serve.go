package otlpreceiver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // requests may be compressed

	"github.com/trainspan/trainspan/internal/see"
)

// Listen starts a receiver on a free port of 127.0.0.1, or of ::1 where there
// is no other loopback.
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
	r.server.Protocols.SetUnencryptedHTTP2(true) // which gRPC speaks
	go func() {
		defer close(r.served)
		if err := r.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Warn("OTLP receiver has ended", "error", err, "see", see.Receiver)
		}
	}()
	return r, nil
}

// ServeHTTP serves both protocols, told apart by their content type.
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
