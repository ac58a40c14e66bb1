package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/export/prom"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/otlpform"
	"github.com/trainspan/trainspan/internal/platform/safelog"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Metrics exports the metrics of a training: to an OTLP receiver at an interval, to a
// Prometheus server that scrapes them, or both. It is safe for concurrent use. A nil
// Metrics does nothing.
type Metrics struct {
	provider meterProvider
	exporter sent         // nil if metrics are not sent
	server   *prom.Server // nil without a Prometheus endpoint

	once sync.Once
	err  error
}

// meterProvider is a provider of the SDK. Packages that see its type compile all
// of the SDK's generic code again.
type meterProvider interface {
	metric.MeterProvider
	ForceFlush(ctx context.Context) error
	Shutdown(ctx context.Context) error
}

// sent is an OTLP exporter with delivery counts.
type sent interface {
	sdkmetric.Exporter
	Delivery() outputs.Delivery
}

// newMetrics returns the outputs for metrics, or nil if metrics are not exported.
func newMetrics(ctx context.Context, cfg *config.Config, c *otlp.Config, o *Options, id outputs.Identity) (*Metrics, error) {
	if c == nil && !settings.PrometheusActive(cfg) {
		return nil, nil
	}
	res, err := settings.Resource(ctx, id, perfTags(cfg), resourceOf(cfg, o))
	if err != nil {
		o.logger().Warn("telemetry could not detect all resource attributes of its metrics", "error", err, "see", helptopic.Undescribed)
	}
	m := &Metrics{}
	options := []sdkmetric.Option{sdkmetric.WithResource(otlpform.Resource(res))}
	if c != nil {
		if m.exporter, err = otlp.NewMetricExporter(ctx, *c, o.logger()); err != nil {
			return nil, fmt.Errorf("outputs: %w", err)
		}
	}
	if settings.PrometheusActive(cfg) {
		var reader sdkmetric.Reader
		address, err := addressOf(cfg.Outputs.Prometheus.Address, id.LocalRank.Or(0))
		if err == nil {
			m.server, reader, err = prom.Listen(ctx, address)
		}
		if err != nil {
			if m.exporter != nil {
				err = errors.Join(err, m.exporter.Shutdown(ctx))
			}
			return nil, fmt.Errorf("outputs: outputs.prometheus.address: %w", err)
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	if m.exporter != nil { // last, because the reader starts a goroutine and nothing can fail after it
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(m.exporter,
			sdkmetric.WithInterval(settings.OTLP(c.OTLP).MetricsInterval))))
	}
	m.provider = sdkmetric.NewMeterProvider(options...)
	return m, nil
}

// addressOf returns the address for a rank: the configured port plus the local rank, so
// that every rank of a host has its own port.
func addressOf(address string, localRank int) (string, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return "", err
	}
	if port != 0 {
		port += localRank
	}
	if port > 65535 {
		return "", fmt.Errorf("port %s plus local rank %d is not a valid port", text, localRank)
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// MeterProvider returns the meter provider, for instruments of the program. They are
// exported like those of the training. It is nil for a nil Metrics.
func (m *Metrics) MeterProvider() metric.MeterProvider {
	if m == nil {
		return nil
	}
	return m.provider
}

// PrometheusURL returns the URL of the Prometheus endpoint, or "" if it is not enabled.
func (m *Metrics) PrometheusURL() string {
	if m == nil {
		return ""
	}
	return m.server.URL()
}

// ForceFlush sends the current metrics.
func (m *Metrics) ForceFlush(ctx context.Context) error {
	if m == nil {
		return nil
	}
	return m.provider.ForceFlush(ctx)
}

// Shutdown sends the metrics a last time and closes the Prometheus endpoint. It stops
// when ctx is done, or after 5 s if ctx has no deadline. Later calls return the same
// result.
func (m *Metrics) Shutdown(ctx context.Context) error {
	if m == nil {
		return nil
	}
	m.once.Do(func() {
		ctx, cancel := bounded(ctx)
		defer cancel()
		m.err = errors.Join(m.provider.Shutdown(ctx), m.server.Close(ctx))
		if m.err != nil {
			m.err = fmt.Errorf("outputs: metrics: %w", m.err)
		}
	})
	return m.err
}

func perfTags(cfg *config.Config) []string {
	if cfg.Training == nil {
		return nil
	}
	tags, _ := settings.Tags(cfg.Training)
	return tags
}

// resourceOf returns what the configuration and the program add to the resource, or nil
// if nothing.
func resourceOf(cfg *config.Config, o *Options) *resource.Resource {
	r := settings.OTelResource(&cfg.OTel)
	if r == nil {
		r = resource.Empty() // the configuration was loaded
	}
	if o == nil || o.Resource == nil {
		return r
	}
	merged, err := resource.Merge(r, o.Resource)
	if err != nil && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return o.Resource
	}
	return merged
}

// logger returns the logger for goroutines of telemetry, where a panic of the program's
// handler would end the process.
func (o *Options) logger() *slog.Logger {
	if o == nil {
		return safelog.New(nil)
	}
	return safelog.New(o.Logger)
}
