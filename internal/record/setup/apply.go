// Package setup creates the exporters of a configuration: the JSON-lines file,
// the DFTracer trace, OTLP with spans, logs and metrics, and Prometheus, as
// config.Outputs describes.
//
//	cfg, err := config.Load(config.LoadOptions{})
//	…
//	builder, outputs, err := setup.NewBuilder(ctx, cfg, nil)
//	…
//	tel, err := builder.ConfigureProvider(ctx)
//	if err != nil {
//		outputs.Close(ctx)
//		return err
//	}
//	defer tel.Shutdown(ctx) // writes, sends and closes everything
//
// [Apply] adds the outputs to an existing builder.
package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Options are settings that a configuration cannot hold. Nil means the defaults.
type Options struct {
	// OTLP may change the settings of the OTLP exporter before it is created: its TLS
	// settings, retries, or spill directory. Logs and metrics use the same settings.
	OTLP func(*otlp.Config)

	// Logs and Metrics enable or disable these signals of the OTLP output. They take
	// precedence over the configuration. If unset, the configuration decides; its
	// default is enabled.
	Logs, Metrics config.Var[bool]

	// Resource and Identity are the arguments of the builder's WithResource and
	// WithIdentity. Logs and metrics use them to describe the process as the spans do.
	// NewBuilder also sets them on the builder; Apply leaves that to the caller, whose
	// builder may have them already.
	Resource *resource.Resource
	Identity outputs.Identity

	// Logger gets warnings about lost log records and metrics. NewBuilder also sets it
	// on the builder, together with the log files of the configuration, and logs
	// warnings about the configuration to it. Nil means slog.Default, for the builder
	// with the configured level.
	Logger *slog.Logger
}

// Outputs are the exporters of a configuration; nil for a disabled output. The provider
// shuts them down.
type Outputs struct {
	File    *file.Exporter
	Trace   *pfw.Exporter
	OTLP    *otlp.Exporter
	Logs    *otlp.Logs
	Metrics *Metrics
}

// Close shuts the outputs down if no provider does, because the provider could not be
// configured. It may be called on nil and more than once.
func (o *Outputs) Close(ctx context.Context) error {
	if o == nil {
		return nil
	}
	var errs []error
	if o.Trace != nil {
		errs = append(errs, o.Trace.Shutdown(ctx))
	}
	if o.OTLP != nil {
		errs = append(errs, o.OTLP.Shutdown(ctx))
	}
	if o.Logs != nil {
		ctx, cancel := bounded(ctx)
		defer cancel()
		errs = append(errs, o.Logs.Shutdown(ctx))
	}
	if o.Metrics != nil {
		errs = append(errs, o.Metrics.Shutdown(ctx))
	}
	return errors.Join(errs...) // File needs no Shutdown: only the provider opens it
}

// bounded returns ctx with a default deadline if it has none.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, delivery.DefaultShutdownTimeout)
}

// NewBuilder returns a builder configured with everything in a configuration: the job,
// the export customization, the rank, the resource and the outputs. ctx bounds only this
// call.
func NewBuilder(ctx context.Context, cfg config.Config, o *Options) (*telemetry.TrainingTelemetryBuilder, *Outputs, error) {
	var err error
	if cfg.Ranks, err = settings.Ranks(cfg.Ranks, os.LookupEnv); err != nil {
		return nil, nil, fmt.Errorf("outputs: %w", err)
	}
	if err := cfg.Validate(); err != nil {
		return nil, nil, fmt.Errorf("outputs: %w", err)
	}
	cfg.Base = cfg.WithDefaults(cfg.Ranks)
	own := Options{}
	if o != nil {
		own = *o
	}
	own.Logger = withLogFiles(own.Logger, &cfg.Logger, cfg.Ranks.Rank.Or(0))
	o = &own
	for _, w := range cfg.Warnings {
		o.logger().Warn("telemetry configuration: "+w.String(), "see", helptopic.Variable)
	}
	b := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(cfg.Base).
		WithExportCustomization(cfg.Export)
	b.WithResource(resourceOf(&cfg, o))
	b.WithIdentity(o.Identity)
	if o.Logger != nil {
		b.WithLogger(o.Logger)
	}
	outputs, err := Apply(ctx, b, cfg, o)
	if err != nil {
		return nil, nil, err
	}
	return b, outputs, nil
}

// Apply creates the outputs of a configuration and adds them to a builder, along with
// the rank. If telemetry is off for this rank it creates none, so that the rank leaves
// no empty files. On an error nothing stays open.
func Apply(ctx context.Context, b *telemetry.TrainingTelemetryBuilder, cfg config.Config, o *Options) (*Outputs, error) {
	made := &Outputs{}
	if err := settings.Validate(&config.Config{Outputs: cfg.Outputs}, "outputs.", ""); err != nil {
		return nil, fmt.Errorf("outputs: %w", err)
	}
	ranks, err := settings.Ranks(cfg.Ranks, os.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("outputs: %w", err)
	}
	cfg.Base = cfg.WithDefaults(ranks)
	if !cfg.EnableForCurrentRank.Or(true) {
		b.WithRanks(ranks)
		return made, nil
	}
	if err := made.useOTel(ctx, &cfg, ranks, o); err != nil {
		return nil, errors.Join(err, made.Close(ctx))
	}
	if settings.TraceActive(&cfg) {
		made.Trace = newTrace(cfg.Outputs.Trace, ranks, cfg.WorldSize.Or(1), o.logger())
	}
	if settings.FileActive(&cfg) {
		f := &cfg.Outputs.File
		onError, onPath := fileEvents(o.logger(), "file")
		made.File = file.New(f.Path, &file.Options{Compat: f.Compat.Or(false), Append: f.Append.Or(false), OnError: onError, OnPath: onPath})
	}
	b.WithRanks(ranks)
	if made.File != nil {
		b.WithExporter(made.File)
	}
	if made.Trace != nil {
		b.WithExporter(made.Trace)
	}
	if made.OTLP != nil {
		b.WithSpanExporter(made.OTLP).WithTraces(config.Traces{
			Split: cfg.Outputs.OTLP.TraceSplit, Window: cfg.Outputs.OTLP.TraceWindow, Budget: cfg.Outputs.OTLP.TraceBudget,
		})
		if d := cfg.Outputs.OTLP.Segment; d != 0 {
			b.WithSegment(d)
		}
	}
	if made.Logs != nil {
		b.WithExporter(made.Logs)
	}
	if made.Metrics != nil {
		b.WithMeterProvider(sentMeters{MeterProvider: made.Metrics.MeterProvider(), m: made.Metrics})
	}
	return made, nil
}

// useOTel creates the outputs that use OpenTelemetry's exporters.
func (o *Outputs) useOTel(ctx context.Context, cfg *config.Config, ranks config.Ranks, options *Options) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("outputs: a configuration function panicked: %v", p)
		}
	}()
	var c, forMetrics *otlp.Config
	if settings.OTLPActive(cfg) {
		c = &otlp.Config{OTLP: cfg.Outputs.OTLP}
		if options != nil {
			if options.OTLP != nil {
				options.OTLP(c)
			}
			c.Logs, c.Metrics = stronger(options.Logs, c.Logs), stronger(options.Metrics, c.Metrics)
		}
		if o.OTLP, err = otlp.New(ctx, *c); err != nil {
			return fmt.Errorf("outputs: %w", err)
		}
		if settings.MetricsActive(&c.OTLP) {
			forMetrics = c
		}
	}
	if c != nil && settings.LogsActive(&c.OTLP) {
		o.Logs, err = otlp.NewLogs(ctx, *c, &otlp.LogsOptions{
			Resource: resourceOf(cfg, options), PerfTags: perfTags(cfg), Logger: options.logger(),
		})
		if err != nil {
			return fmt.Errorf("outputs: %w", err)
		}
	}
	var id telemetry.Identity
	if options != nil {
		id = options.Identity
	}
	id = settings.Identity(id, &cfg.Base, ranks)
	o.Metrics, err = newMetrics(ctx, cfg, forMetrics, options, id)
	return err
}

func stronger(a, b config.Var[bool]) config.Var[bool] {
	if a.IsSet() {
		return a
	}
	return b
}

// sentMeters is the meter provider of the telemetry as an output. The provider shuts it
// down after the other network outputs, so that the metrics include the delivery of
// spans and logs, and before it unregisters its instruments.
type sentMeters struct {
	outputs.None
	metric.MeterProvider
	m *Metrics
}

var _ outputs.Output = sentMeters{}

// Open implements outputs.Output.
func (s sentMeters) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Remote: true, Metrics: true}, nil
}

// ForceFlush implements outputs.Output.
func (s sentMeters) ForceFlush(ctx context.Context) error { return s.m.ForceFlush(ctx) }

// Shutdown implements outputs.Output.
func (s sentMeters) Shutdown(ctx context.Context) error { return s.m.Shutdown(ctx) }

// Stats implements outputs.Output.
func (s sentMeters) Stats() outputs.Stats {
	if s.m.exporter == nil {
		return outputs.Stats{}
	}
	return outputs.Stats{Delivery: s.m.exporter.Delivery()}
}
