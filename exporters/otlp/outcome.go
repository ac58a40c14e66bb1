package otlp

import (
	"context"
	"net/http"
	"strconv"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// outcome is what one request came to, in the protocol's own terms. The
// clients hide it behind error texts, so it is noted on the way back, in the
// context of the request.
type outcome struct {
	answered bool // the backend answered, or the connection failed
	retry    bool
	tooLarge bool
	after    time.Duration
	rejected int64  // of an answer that took the rest
	message  string // of a partial success
}

type outcomeKey struct{}

func withOutcome(ctx context.Context, o *outcome) context.Context {
	return context.WithValue(ctx, outcomeKey{}, o)
}

// outcomeOf gives the note of a request; one that nobody reads if it has none.
func outcomeOf(ctx context.Context) *outcome {
	if o, ok := ctx.Value(outcomeKey{}).(*outcome); ok {
		return o
	}
	return new(outcome)
}

func (o *outcome) partial(r *collectorpb.ExportTraceServiceResponse) {
	if p := r.GetPartialSuccess(); p != nil {
		o.rejected = max(0, p.GetRejectedSpans())
		o.message = p.GetErrorMessage()
	}
}

// grpc notes the status of a call, by the OTLP specification's table.
func (o *outcome) grpc(err error) {
	o.answered = true
	s := status.Convert(err)
	pause, asked := retryInfo(s)
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		o.retry, o.after = true, pause
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
