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

// outcome is the result of one request, in the protocol's terms. The clients
// hide it behind error texts, so it is noted on the way back, in the context of
// the request.
type outcome struct {
	answer proto.Message // destination for an HTTP response

	answered bool // the backend answered, or the connection failed
	noAnswer bool // it is known that no response came
	retry    bool
	tooLarge bool
	absent   bool // the backend does not support the signal
	after    time.Duration
	rejected int64  // in a response that accepted the rest
	message  string // of a partial success
}

type outcomeKey struct{}

func withOutcome(ctx context.Context, o *outcome) context.Context {
	return context.WithValue(ctx, outcomeKey{}, o)
}

// outcomeOf returns the outcome in a request's context, or an unused one.
func outcomeOf(ctx context.Context) *outcome {
	if o, ok := ctx.Value(outcomeKey{}).(*outcome); ok {
		return o
	}
	return new(outcome)
}

// failure returns why the client returned an error, or nil if the backend took
// everything.
func (o *outcome) failure(ctx context.Context, err error, w *wire) *delivery.Error {
	switch {
	case o.rejected > 0:
		return &delivery.Error{Err: w.errorf("rejected %d %s: %s", o.rejected, w.unit, o.message), Rejected: int(o.rejected)}
	case o.message != "" || err == nil: // a warning of a backend that took everything
		return nil
	case !o.answered && ctx.Err() != nil:
		return &delivery.Error{Err: w.errorf("no response in time"), Retry: true, NoAnswer: true}
	}
	var place *url.Error
	if errors.As(err, &place) { // its URL is not the one used
		err = place.Err
	}
	return &delivery.Error{Err: w.errorf("%v", err), Retry: o.retry, NoAnswer: o.noAnswer, After: o.after, TooLarge: o.tooLarge}
}

// partial notes the partial success in a response.
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

// grpc notes the status of a call, by the OTLP specification's table. from
// reports whether the status came from the server; otherwise the client made
// it.
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
		// Without a pause the problem is the size of the message, or the server's
		// memory limit.
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

// http notes the status of a response, by the OTLP specification's table.
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

// retryAfter parses a Retry-After header: seconds or a date.
func retryAfter(text string) time.Duration {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(max(0, n)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
