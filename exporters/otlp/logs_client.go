package otlp

import (
	"context"
	"net/http"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc/credentials"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/delivery"
)

// logClient sends batches of log records, one request each.
type logClient struct {
	wire
	absent   atomic.Bool // the backend does not know log records
	exporter sdklog.Exporter
}

// newLogClient makes no connection.
func newLogClient(ctx context.Context, c *Config, t target) (*logClient, error) {
	client := &logClient{wire: wire{cfg: c, place: t.place(), unit: "log records"}}
	var err error
	if c.Protocol == config.OTLPGRPC {
		client.exporter, err = newLogGRPC(ctx, c, t)
	} else {
		client.transport = newTransport(c, t)
		client.exporter, err = newLogHTTP(ctx, c, t, client.transport)
	}
	if err != nil {
		return nil, client.errorf("%v", err)
	}
	return client, nil
}

// newLogGRPC gives every setting, because the client would take the missing
// ones from the environment.
func newLogGRPC(ctx context.Context, c *Config, t target) (sdklog.Exporter, error) {
	options := []otlploggrpc.Option{
		otlploggrpc.WithEndpoint(t.url.Host),
		otlploggrpc.WithHeaders(c.Headers),
		otlploggrpc.WithTimeout(c.Timeout),
		otlploggrpc.WithRetry(otlploggrpc.RetryConfig{Enabled: false}), // the queue does
		otlploggrpc.WithDialOption(dialOptions(c)...),
	}
	if t.tls != nil {
		options = append(options, otlploggrpc.WithTLSCredentials(credentials.NewTLS(t.tls)))
	} else {
		options = append(options, otlploggrpc.WithTLSCredentials(nil), otlploggrpc.WithInsecure())
	}
	return otlploggrpc.New(ctx, options...)
}

// newLogHTTP gives every setting, for the same reason.
func newLogHTTP(ctx context.Context, c *Config, t target, transport *http.Transport) (sdklog.Exporter, error) {
	compression := otlploghttp.NoCompression
	if c.Compression == "gzip" {
		compression = otlploghttp.GzipCompression
	}
	return otlploghttp.New(ctx,
		otlploghttp.WithEndpoint(t.url.Host),
		otlploghttp.WithURLPath("/"), // noteHTTP puts the whole URL
		otlploghttp.WithHeaders(c.Headers),
		otlploghttp.WithTimeout(c.Timeout),
		otlploghttp.WithCompression(compression),
		otlploghttp.WithTLSClientConfig(nil), // the transport has it
		otlploghttp.WithInsecure(),           // noteHTTP puts the scheme
		otlploghttp.WithRetry(otlploghttp.RetryConfig{Enabled: false}),
		otlploghttp.WithHTTPClient(newHTTPClient(c, t, transport)),
	)
}

// export makes one attempt, within the configured timeout. The error is a
// [*delivery.Error].
func (c *logClient) export(ctx context.Context, batch []sdklog.Record) error {
	if c.absent.Load() {
		return &delivery.Error{Err: c.errorf("the backend takes no log records")}
	}
	f, absent := c.attempt(ctx, new(logspb.ExportLogsServiceResponse), func(ctx context.Context) error {
		return c.exporter.Export(ctx, batch)
	})
	if absent {
		c.absent.Store(true)
	}
	if f == nil {
		return nil
	}
	return f
}

func (c *logClient) close(ctx context.Context) error {
	_ = c.exporter.Shutdown(ctx) // nothing is under way, and ctx may be over
	c.closeIdle()
	return nil
}
