// Package otlpreceiver takes the spans that programs send by OTLP, on the
// loopback interface of this machine: gRPC and HTTP on one port, protobuf and
// JSON, compressed with gzip or not.
//
//	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: "out"})
//	r, err := otlpreceiver.Listen(files.Take, nil)
//	// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=r.Endpoint()+"/v1/traces"
//	...
//	err = errors.Join(r.Shutdown(ctx), files.Close(ctx))
//
// [Files] writes them as trace files, one for each process, in the names of this
// library whatever vocabulary they come in (package vocabulary).
package otlpreceiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/internal/platform/helptopic"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // requests may be compressed
)

// Defaults of Options.
const (
	DefaultMaxBody       = 16 << 20
	DefaultMaxConcurrent = 16
	DefaultMaxRate       = 200_000
)

// Sink takes the spans of a request; it may keep them, and not change them. It is
// called concurrently. Of an error the sender learns that the spans were rejected, so
// that it does not send them again, unless the error matches ErrLater.
type Sink func(ctx context.Context, b *Batch) error

// Batch is what a request brings.
type Batch struct {
	Spans []*tracepb.ResourceSpans
	// Body is the same as an ExportTraceServiceRequest in protobuf, nil where it came in
	// another form.
	Body []byte
	// From is the other end of the connection, nil where it is not known.
	From net.Addr
}

// ErrLater is matched by errors of a Sink that pass by themselves: the sender is
// asked to come back.
var ErrLater = errors.New("otlpreceiver: try again later")

// ErrUnsaved is an ErrLater: spans were taken and could not be put where they outlive
// this process.
var ErrUnsaved = fmt.Errorf("cannot save spans: %w", ErrLater)

// Options configures a Receiver. The zero value, and nil, mean the defaults.
type Options struct {
	// MaxBody is the size of the largest request in bytes, compressed or not; 0
	// is 16 MiB.
	MaxBody int
	// MaxConcurrent is how many requests are read at once; 0 is 16. Others wait
	// for a moment and are then asked to come back. Of those larger than 1 MiB one
	// is taken at a time.
	MaxConcurrent int
	// MaxRate is how many spans a second are taken, over some seconds; 0 is
	// 200,000. Senders of more are asked to come back.
	MaxRate int
	// Token is what each request has to bring, as "x-trainspan-token: TOKEN" or
	// "authorization: Bearer TOKEN"; empty takes requests without.
	Token string
	// Logger gets what goes wrong beside the requests; nil is slog.Default.
	Logger *slog.Logger
}

// Stats counts since the start.
type Stats struct {
	Requests int64 // that were taken
	Spans    int64 // of them
	Refused  int64 // requests that were broken, too large, or too many
	Rejected int64 // spans that the sink did not take
}

// Receiver is a listening server. It is safe for concurrent use.
type Receiver struct {
	o      Options
	sink   Sink
	server *http.Server
	grpc   *grpc.Server
	listen net.Listener
	slots  chan struct{}
	large  chan struct{} // held by the request that is being taken of those that are large
	rate   rate
	served chan struct{}

	requests, spans, refused, rejected atomic.Int64
}

// Endpoint is the URL without a path. With the path /v1/traces it is the one
// for OTEL_EXPORTER_OTLP_TRACES_ENDPOINT.
func (r *Receiver) Endpoint() string { return "http://" + r.listen.Addr().String() }

// Stats returns the counts of this moment.
func (r *Receiver) Stats() Stats {
	return Stats{Requests: r.requests.Load(), Spans: r.spans.Load(), Refused: r.refused.Load(), Rejected: r.rejected.Load()}
}

// Shutdown ends the receiver when the requests under way are done, at the latest
// with the context.
func (r *Receiver) Shutdown(ctx context.Context) error {
	err := r.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("otlpreceiver: %w", err), r.server.Close())
	}
	r.grpc.Stop()
	<-r.served
	return err
}

// slotWait is how long a request waits for others to be read.
const slotWait = time.Second

// slot lets a request in.
func (r *Receiver) slot(ctx context.Context) (free func(), ok bool) {
	wait := time.NewTimer(slotWait)
	defer wait.Stop()
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots }, true
	case <-ctx.Done():
	case <-wait.C:
	}
	return nil, false
}

// take returns the spans of a request to the sink. answer is nil if all were taken.
func (r *Receiver) take(ctx context.Context, b *Batch) (*collectorpb.ExportTraceServiceResponse, error) {
	n := int64(count(b.Spans))
	if !r.rate.allow(float64(n), time.Now()) {
		r.refused.Add(1)
		return nil, errBusy
	}
	answer := &collectorpb.ExportTraceServiceResponse{}
	if err := r.offer(ctx, b); errors.Is(err, ErrUnsaved) {
		r.refused.Add(1)
		return nil, errUnsaved
	} else if errors.Is(err, ErrLater) {
		r.refused.Add(1)
		return nil, errBusy
	} else if err != nil {
		r.rejected.Add(n)
		answer.PartialSuccess = &collectorpb.ExportTracePartialSuccess{RejectedSpans: n, ErrorMessage: err.Error()}
	}
	r.requests.Add(1)
	r.spans.Add(n)
	return answer, nil
}

// offer calls the sink; a panic in it is its error.
func (r *Receiver) offer(ctx context.Context, b *Batch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panicked: %v", p)
			r.o.Logger.Error("OTLP receiver", "error", err, "see", helptopic.Receiver)
		}
	}()
	return r.sink(ctx, b)
}

func count(spans []*tracepb.ResourceSpans) (n int) {
	for _, rs := range spans {
		for _, ss := range rs.GetScopeSpans() {
			n += len(ss.GetSpans())
		}
	}
	return n
}
