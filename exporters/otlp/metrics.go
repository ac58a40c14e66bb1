package otlp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/otlpform"
	"github.com/trainspan/trainspan/internal/platform/safelog"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/grpc/credentials"
)

// MetricExporter sends metrics to an OTLP receiver, as an exporter of
// OpenTelemetry's metrics SDK; [NewMetricExporter] returns one. Sums and
// histograms are cumulative, so the next export makes up for a failed one. It is
// safe for concurrent use.
type MetricExporter struct {
	wire
	next   sdkmetric.Exporter
	cfg    Config
	log    *slog.Logger
	health delivery.Health

	mu    sync.Mutex
	stats MetricStats
	last  error // of the latest export, nil after success
	// absent means that the backend does not support metrics; then nothing is sent
	// any more.
	absent bool
}

// MetricStats are the counts of exports of a [MetricExporter] since its start.
type MetricStats struct {
	Exports  int64 // successful exports
	Failures int64 // failed exports, after all attempts
	// Missing is the number of failures since the latest success: their values have
	// not arrived.
	Missing int64
	// LastError is the latest failure, nil if there was none.
	LastError error
}

var _ sdkmetric.Exporter = (*MetricExporter)(nil)

// NewMetricExporter returns an exporter of metrics for the address
// config.OTLP.MetricsURL, with the same settings as [New]. Give it to a periodic
// reader of the SDK. It makes no connection. All failures are counted; the first is
// logged, with slog.Default if log is nil. ctx is not kept.
func NewMetricExporter(ctx context.Context, cfg Config, log *slog.Logger) (*MetricExporter, error) {
	t, err := prepare(&cfg, metrics)
	if err != nil {
		return nil, err
	}
	e := &MetricExporter{cfg: cfg, log: safelog.New(log)}
	e.wire = wire{cfg: &e.cfg, place: t.place(), unit: "data points"}
	ctx = context.WithoutCancel(ctx)
	if cfg.Protocol == config.OTLPGRPC {
		e.next, err = newMetricGRPC(ctx, &cfg, t)
	} else {
		e.transport = newTransport(&cfg, t)
		e.next, err = newMetricHTTP(ctx, &cfg, t, e.transport)
	}
	if err != nil {
		return nil, e.errorf("%v", err)
	}
	return e, nil
}

// newMetricGRPC sets every option, because the client would take missing ones
// from the environment.
func newMetricGRPC(ctx context.Context, c *Config, t target) (sdkmetric.Exporter, error) {
	options := []otlpmetricgrpc.Option{
		otlpmetricgrpc.WithEndpoint(t.url.Host),
		otlpmetricgrpc.WithHeaders(c.Headers),
		otlpmetricgrpc.WithTimeout(c.Timeout),
		otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: false}), // Export retries
		otlpmetricgrpc.WithTemporalitySelector(sdkmetric.DefaultTemporalitySelector),
		otlpmetricgrpc.WithAggregationSelector(sdkmetric.DefaultAggregationSelector),
		otlpmetricgrpc.WithDialOption(dialOptions(c)...),
	}
	if t.tls != nil {
		options = append(options, otlpmetricgrpc.WithTLSCredentials(credentials.NewTLS(t.tls)))
	} else {
		options = append(options, otlpmetricgrpc.WithTLSCredentials(nil), otlpmetricgrpc.WithInsecure())
	}
	return otlpmetricgrpc.New(ctx, options...)
}

// newMetricHTTP sets every option, for the same reason.
func newMetricHTTP(ctx context.Context, c *Config, t target, transport *http.Transport) (sdkmetric.Exporter, error) {
	compression := otlpmetrichttp.NoCompression
	if c.Compression == "gzip" {
		compression = otlpmetrichttp.GzipCompression
	}
	return otlpmetrichttp.New(ctx,
		otlpmetrichttp.WithEndpoint(t.url.Host),
		otlpmetrichttp.WithURLPath("/"), // noteHTTP sets the whole URL
		otlpmetrichttp.WithHeaders(c.Headers),
		otlpmetrichttp.WithTimeout(c.Timeout),
		otlpmetrichttp.WithCompression(compression),
		otlpmetrichttp.WithTLSClientConfig(nil), // set in the transport
		otlpmetrichttp.WithInsecure(),           // noteHTTP sets the scheme
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: false}),
		otlpmetrichttp.WithTemporalitySelector(sdkmetric.DefaultTemporalitySelector),
		otlpmetrichttp.WithAggregationSelector(sdkmetric.DefaultAggregationSelector),
		otlpmetrichttp.WithHTTPClient(newHTTPClient(c, t, transport)),
	)
}

// Temporality implements the SDK's Exporter: everything is cumulative.
func (e *MetricExporter) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return e.next.Temporality(k)
}

// Aggregation implements the SDK's Exporter: the defaults.
func (e *MetricExporter) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return e.next.Aggregation(k)
}

// Export sends the metrics, and retries until ctx is done or the time for
// retries is over; only once if the backend has been unreachable for longer
// than that, or was never reachable. It returns no error: failures are counted,
// the first one is logged, and a flush or shutdown right after it returns it.
func (e *MetricExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	if len(rm.ScopeMetrics) == 0 {
		return nil // nothing was measured yet
	}
	e.mu.Lock()
	off := e.absent
	e.mu.Unlock()
	if off {
		return nil
	}
	otlpform.RepairMetrics(rm)
	absent, err := e.send(ctx, rm)
	e.mu.Lock()
	if absent && err != nil && e.stats.Exports == 0 {
		// Jaeger, for example, only takes spans. That is not a failure of the job.
		e.absent = true
		e.stats.Failures++
		e.stats.Missing++
		e.stats.LastError = err
		e.mu.Unlock()
		e.log.Info("the backend does not accept metrics; telemetry stops sending them", "error", err)
		return nil
	}
	e.last = err
	if err != nil && errors.Is(ctx.Err(), context.Canceled) { // a shutdown cancelled it, and sends everything again
		e.mu.Unlock()
		return nil
	}
	first := err != nil && e.stats.Failures == 0
	if err != nil {
		e.stats.Failures++
		e.stats.Missing++
		e.stats.LastError = err
	} else {
		e.stats.Exports++
		e.stats.Missing = 0
	}
	e.mu.Unlock()
	if first {
		e.log.Warn("telemetry could not send metrics; further failures are counted", "error", err, "see", helptopic.Delivery)
	}
	return nil
}

// send makes attempts, unless the backend has asked for a pause. absent reports
// that the backend does not support metrics.
func (e *MetricExporter) send(ctx context.Context, rm *metricdata.ResourceMetrics) (absent bool, err error) {
	if d := e.health.Held(); d > 0 {
		return false, e.errorf("not sent: the backend asked for a pause that lasts %v more", d.Round(time.Second))
	}
	if end, ok := ctx.Deadline(); ok && e.health.Unreachable(e.cfg.RetryFor) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/delivery.UnreachableShare)
		defer cancel()
	}
	err = delivery.Retry(ctx, e.retry(), func(ctx context.Context) error {
		var f *delivery.Error
		f, absent = e.attempt(ctx, new(metricspb.ExportMetricsServiceResponse), func(ctx context.Context) error {
			return e.next.Export(ctx, rm)
		})
		e.health.Note(f)
		if f == nil {
			return nil
		}
		if e.health.Unreachable(e.cfg.RetryFor) {
			f.Retry = false // the next export has the same values and more
		}
		return f
	})
	return absent, err
}

// ForceFlush returns the error of the latest export; nothing is buffered here.
func (e *MetricExporter) ForceFlush(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// Shutdown ends the exporter, and returns the error of the latest export.
func (e *MetricExporter) Shutdown(ctx context.Context) error {
	_ = e.next.Shutdown(ctx) // nothing is in progress, and ctx may be done
	e.closeIdle()
	return e.ForceFlush(ctx)
}

// Stats returns the counts so far.
func (e *MetricExporter) Stats() MetricStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Delivery returns the counts in telemetry's form.
func (e *MetricExporter) Delivery() outputs.Delivery {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &e.stats
	return outputs.Delivery{
		What: outputs.DeliversMetrics, Total: s.Exports + s.Missing, Sent: s.Exports, Dropped: s.Missing, Failed: s.Failures, Unwanted: e.absent,
	}
}
