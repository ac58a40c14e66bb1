// Package otlpreceiver receives spans that programs send by OTLP on the
// loopback interface of this machine: gRPC and HTTP on one port, protobuf and
// JSON, with or without gzip.
//
//	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: "out"})
//	r, err := otlpreceiver.Listen(files.Take, nil)
//	// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=r.Endpoint()+"/v1/traces"
//	...
//	err = errors.Join(r.Shutdown(ctx), files.Close(ctx))
//
// [Files] writes them as trace files, one for each process, with this library's
// names for all known vocabularies (package vocab).
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
	"github.com/trainspan/trainspan/internal/tracefile/otlpspan"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // for compressed requests
)

// Defaults of Options.
const (
	DefaultMaxBody       = 16 << 20
	DefaultMaxConcurrent = 16
	DefaultMaxRate       = 200_000
)

// Sink accepts the spans of a request. It must not change them. It is called
// concurrently. After an error the sender is informed that the spans were
// rejected, so that it does not send them again, unless the error matches ErrLater.
// All of them are rejected unless the error is a Rejected.
type Sink func(ctx context.Context, b *Batch) error

// Rejected is an error of a Sink about some spans of a request. The others were accepted.
type Rejected struct {
	Spans int64
	Err   error
}

func (e *Rejected) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Rejected) Unwrap() error { return e.Err }

// Batch is the content of a request.
type Batch struct {
	// Body is the ExportTraceServiceRequest in protobuf. A request in JSON is
	// converted to it.
	Body []byte
	// Spans are the spans in Body.
	Spans []otlpspan.ResourceSpans
	// From is the other end of the connection, nil if unknown.
	From net.Addr
}

// NewBatch returns the content of a request in protobuf. Its error is one for the
// sender.
func NewBatch(body []byte, from net.Addr) (*Batch, error) {
	switch err := otlpspan.Check(body); {
	case errors.Is(err, otlpspan.ErrParts), errors.Is(err, otlpspan.ErrNesting):
		return nil, tooMany(err)
	case err != nil:
		return nil, broken(err)
	}
	return &Batch{Body: body, Spans: otlpspan.Resources(body), From: from}, nil
}

// Len returns the number of spans.
func (b *Batch) Len() (n int) {
	for i := range b.Spans {
		n += b.Spans[i].Len
	}
	return n
}

// ErrLater is matched by temporary errors of a Sink: the sender is asked to
// retry later.
var ErrLater = errors.New("otlpreceiver: try again later")

// ErrUnsaved is an ErrLater: spans could not be put where they outlive this process.
var ErrUnsaved = fmt.Errorf("cannot save spans: %w", ErrLater)

// Options configures a Receiver. The zero value, and nil, mean the defaults.
type Options struct {
	// MaxBody is the size of the largest request in bytes, before and after
	// decompression; 0 means 16 MiB.
	MaxBody int
	// MaxConcurrent is how many requests are read at once; 0 means 16. Others wait
	// for a moment and are then asked to retry later. Requests larger than 1 MiB
	// are handled one at a time.
	MaxConcurrent int
	// MaxRate is how many spans a second are accepted, averaged over some seconds;
	// 0 means 200,000. Faster senders are asked to retry later.
	MaxRate int
	// Token is required in each request, as "x-trainspan-token: TOKEN" or
	// "authorization: Bearer TOKEN"; if it is empty, none is required.
	Token string
	// Logger logs errors that do not belong to a request; nil means slog.Default.
	Logger *slog.Logger
}

// Stats counts since the start.
type Stats struct {
	Requests int64 // accepted requests
	Spans    int64 // spans in them
	Refused  int64 // requests that were invalid, too large, or too many
	Rejected int64 // spans that the sink did not accept
}

// Receiver is a listening server. It is safe for concurrent use.
type Receiver struct {
	o      Options
	sink   Sink
	server *http.Server
	grpc   *grpc.Server
	listen net.Listener
	slots  chan struct{}
	large  chan struct{} // held by the large request that is being handled
	rate   rate
	served chan struct{}

	requests, spans, refused, rejected atomic.Int64
}

// Endpoint returns the URL without a path. With the path /v1/traces it is the
// value for OTEL_EXPORTER_OTLP_TRACES_ENDPOINT.
func (r *Receiver) Endpoint() string { return "http://" + r.listen.Addr().String() }

// Stats returns the current counts.
func (r *Receiver) Stats() Stats {
	return Stats{Requests: r.requests.Load(), Spans: r.spans.Load(), Refused: r.refused.Load(), Rejected: r.rejected.Load()}
}

// Shutdown ends the receiver when the requests in progress are done, at the
// latest when the context ends.
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

// slot waits until a request may be read.
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

// take passes the spans of a request to the sink. The response is empty if all
// were accepted.
func (r *Receiver) take(ctx context.Context, b *Batch) (*collectorpb.ExportTraceServiceResponse, error) {
	n := int64(b.Len())
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
		some := &Rejected{Spans: n}
		errors.As(err, &some)
		r.rejected.Add(some.Spans)
		answer.PartialSuccess = &collectorpb.ExportTracePartialSuccess{RejectedSpans: some.Spans, ErrorMessage: err.Error()}
	}
	r.requests.Add(1)
	r.spans.Add(n)
	return answer, nil
}

// offer calls the sink; a panic becomes its error.
func (r *Receiver) offer(ctx context.Context, b *Batch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = r.panicked(p)
		}
	}()
	return r.sink(ctx, b)
}

// panicked logs a panic and returns its error.
func (r *Receiver) panicked(p any) error {
	err := fmt.Errorf("panicked: %v", p)
	r.o.Logger.Error("OTLP receiver", "error", err, "see", helptopic.Receiver)
	return err
}
