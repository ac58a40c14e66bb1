package dftracerexporter

import (
	"context"
	"sync"

	"github.com/trainspan/trainspan/integrations/collector/dftracerexporter/internal/metadata"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

// NewFactory returns the factory of the exporter "dftracer" for traces and logs.
// The traces and the logs pipelines of one configuration share their files.
func NewFactory() exporter.Factory {
	f := &factory{shared: make(map[*Config]*shared)}
	return exporter.NewFactory(metadata.Type, createDefaultConfig,
		exporter.WithTraces(f.traces, metadata.TracesStability),
		exporter.WithLogs(f.logs, metadata.LogsStability))
}

// factory holds the exporters by their configuration.
type factory struct {
	mu     sync.Mutex
	shared map[*Config]*shared
}

// shared is one exporter in several pipelines. It stops with the last of them.
type shared struct {
	*tracesExporter
	f     *factory
	users int
}

func (f *factory) get(cfg *Config, set component.TelemetrySettings) (*shared, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.shared[cfg]
	if s == nil {
		e, err := newTracesExporter(cfg, set)
		if err != nil {
			return nil, err
		}
		s = &shared{tracesExporter: e, f: f}
		f.shared[cfg] = s
	}
	s.users++
	return s, nil
}

// user is the component of one pipeline that uses a shared exporter.
type user struct {
	*shared
	once sync.Once
	err  error
}

func (u *user) Shutdown(ctx context.Context) error {
	u.once.Do(func() {
		u.f.mu.Lock()
		u.users--
		last := u.users == 0
		if last {
			delete(u.f.shared, u.cfg)
		}
		u.f.mu.Unlock()
		if last {
			u.err = u.tracesExporter.Shutdown(ctx)
		}
	})
	return u.err
}

func (f *factory) traces(ctx context.Context, set exporter.Settings, c component.Config) (exporter.Traces, error) {
	cfg := c.(*Config)
	s, err := f.get(cfg, set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	u := &user{shared: s}
	return exporterhelper.NewTraces(ctx, set, cfg, s.pushTraces, u.options()...)
}

func (f *factory) logs(ctx context.Context, set exporter.Settings, c component.Config) (exporter.Logs, error) {
	cfg := c.(*Config)
	s, err := f.get(cfg, set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	u := &user{shared: s}
	return exporterhelper.NewLogs(ctx, set, cfg, s.pushLogs, u.options()...)
}

func (u *user) options() []exporterhelper.Option {
	return []exporterhelper.Option{
		exporterhelper.WithStart(u.Start),
		exporterhelper.WithShutdown(u.Shutdown),
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{}), // files need no timeout
		exporterhelper.WithRetry(u.cfg.Retry),
		exporterhelper.WithQueue(u.cfg.Queue),
	}
}
