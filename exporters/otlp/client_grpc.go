package otlp

import (
	"context"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
)

// connectParams make a connection retry soon after its backend has come back;
// gRPC's own pauses grow to two minutes.
var connectParams = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 500 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
	MinConnectTimeout: 10 * time.Second,
}

// reconnectTime is how long a call at the end waits for a connection that failed before.
const reconnectTime = 100 * time.Millisecond

// newGRPC returns a client that sends requests by gRPC. It sets every option,
// because the client would take missing ones from the environment.
func newGRPC(c *Config, t target) otlptrace.Client {
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(t.url.Host),
		otlptracegrpc.WithHeaders(c.Headers),
		otlptracegrpc.WithTimeout(c.Timeout),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: false}), // package delivery retries
		otlptracegrpc.WithDialOption(dialOptions(c)...),
	}
	if t.tls != nil {
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(t.tls)))
	} else {
		options = append(options, otlptracegrpc.WithTLSCredentials(nil), otlptracegrpc.WithInsecure())
	}
	return otlptracegrpc.NewClient(options...)
}

// dialOptions returns the options that the clients of all signals share.
func dialOptions(c *Config) []grpc.DialOption {
	compressor := encoding.Identity
	if c.Compression == "gzip" {
		compressor = gzip.Name
	}
	return []grpc.DialOption{
		grpc.WithUnaryInterceptor(noteGRPC),
		grpc.WithConnectParams(connectParams),
		grpc.WithDefaultCallOptions(grpc.UseCompressor(compressor)),
	}
}

// noteGRPC is an interceptor that notes the outcome of each call.
func noteGRPC(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if delivery.Ending(ctx) {
		// While a connection waits to be made again, calls fail with an error found
		// seconds ago, and also while it is being made. There may be no later attempt.
		conn.ResetConnectBackoff()
		soon, stop := context.WithTimeout(ctx, reconnectTime)
		conn.WaitForStateChange(soon, connectivity.TransientFailure) // returns at once in another state
		stop()
	}
	var header, trailer metadata.MD // of a response; an error may come with either
	options = append(options, grpc.Header(&header), grpc.Trailer(&trailer))
	err := next(ctx, method, request, reply, conn, options...)
	o := outcomeOf(ctx)
	o.grpc(err, len(header)+len(trailer) > 0)
	if err == nil {
		o.partial(reply)
	}
	return err
}
