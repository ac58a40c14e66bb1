package otlp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// outcome is what one request came to, in the protocol's own terms. The
// clients hide it behind error texts, so it is noted on the way back, in the
// context of the request.
type outcome struct {
	answer proto.Message // what an answer by http is read into

	answered bool // the backend answered, or the connection failed
	noAnswer bool // it is known that nothing came back
	retry    bool
	tooLarge bool
	absent   bool // the backend does not know the signal at all
	after    time.Duration
	rejected int64  // of an answer that took the rest
	message  string // of a partial success
}

type outcomeKey struct{}

func withOutcome(ctx context.Context, o *outcome) context.Context {
	return context.WithValue(ctx, outcomeKey{}, o)
}

// outcomeOf returns the note of a request; one that nobody reads if it has none.
func outcomeOf(ctx context.Context) *outcome {
	if o, ok := ctx.Value(outcomeKey{}).(*outcome); ok {
		return o
	}
	return new(outcome)
}

// failure returns the reason why the client returned an error, nil if the backend took
// everything.
func (o *outcome) failure(ctx context.Context, err error, w *wire) *delivery.Error {
	switch {
	case o.rejected > 0:
		return &delivery.Error{Err: w.errorf("rejected %d %s: %s", o.rejected, w.unit, o.message), Rejected: int(o.rejected)}
	case o.message != "" || err == nil: // a warning of a backend that took all
		return nil
	case !o.answered && ctx.Err() != nil:
		return &delivery.Error{Err: w.errorf("no response in time"), Retry: true, NoAnswer: true}
	}
	var place *url.Error
	if errors.As(err, &place) { // it names a URL that is not the one used
		err = place.Err
	}
	return &delivery.Error{Err: w.errorf("%v", err), Retry: o.retry, NoAnswer: o.noAnswer, After: o.after, TooLarge: o.tooLarge}
}

// partial notes what a backend says of a request that it took.
func (o *outcome) partial(answer any) {
	switch r := answer.(type) {
	case *collectorpb.ExportTraceServiceResponse:
		o.rejected, o.message = r.GetPartialSuccess().GetRejectedSpans(), r.GetPartialSuccess().GetErrorMessage()
	case *logspb.ExportLogsServiceResponse:
		o.rejected, o.message = r.GetPartialSuccess().GetRejectedLogRecords(), r.GetPartialSuccess().GetErrorMessage()
	case *metricspb.ExportMetricsServiceResponse:
		o.rejected, o.message = r.GetPartialSuccess().GetRejectedDataPoints(), r.GetPartialSuccess().GetErrorMessage()
	}
	o.rejected = max(0, o.rejected)
}

// grpc notes the status of a call, by the OTLP specification's table. from reports
// whether the status came from the other side; if not, the client made it.
func (o *outcome) grpc(err error, from bool) {
	o.answered, o.noAnswer = true, !from
	s := status.Convert(err)
	pause, asked := retryInfo(s)
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		o.retry, o.after = true, pause
	case codes.Unimplemented:
		o.absent = true
	case codes.ResourceExhausted:
		// Without a pause it is the size of the message that the server, or
		// its limit on memory, minds.
		o.retry, o.tooLarge, o.after = asked, !asked, pause
	}
}

func retryInfo(s *status.Status) (time.Duration, bool) {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return max(0, info.GetRetryDelay().AsDuration()), true
		}
	}
	return 0, false
}

// http notes the status of an answer, by the OTLP specification's table.
func (o *outcome) http(r *http.Response) {
	o.answered = true
	switch r.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		o.retry, o.after = true, retryAfter(r.Header.Get("Retry-After"))
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		o.absent = true
	case http.StatusRequestEntityTooLarge:
		o.tooLarge = true
	}
}

// retryAfter reads the header of that name: seconds or a date.
func retryAfter(text string) time.Duration {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(max(0, n)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
