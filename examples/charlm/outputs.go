package main

import (
	"context"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/telemetry"
)

// outputs are where telemetry goes; what is not used is nil or empty.
type outputs struct {
	records *file.Exporter
	trace   *pfw.Processor
	spans   string // URL of the OTLP backend
}

// open adds the outputs that cfg asks for to builder. On an error it leaves
// nothing open.
func (o *outputs) open(ctx context.Context, cfg *config.Config, builder *telemetry.TrainingTelemetryBuilder) error {
	if f := cfg.Outputs.File; f.Active() {
		o.records = file.New(f.Path, &file.Options{Compat: f.Compat.Or(false)})
		builder.WithExporter(o.records)
	}
	if cfg.OTLPActive() {
		exporter, err := otlp.New(ctx, otlp.FromConfig(cfg.Outputs.OTLP))
		if err != nil {
			return err
		}
		o.spans = cfg.Outputs.OTLP.TracesURL()
		builder.WithSpanExporter(exporter)
	}
	if t := cfg.Outputs.Trace; t.Active() {
		var err error
		if o.trace, err = pfw.Create(t.Path, &pfw.Options{Trace: traceOptions(&t, cfg.Ranks)}); err != nil {
			return err
		}
		builder.WithSpanProcessor(o.trace)
	}
	return nil
}

// recordsPath is the JSON-lines file as it is called in the end, empty without
// one.
func (o *outputs) recordsPath() string {
	if o.records == nil {
		return ""
	}
	return o.records.Path()
}

func traceOptions(t *config.Trace, ranks config.Ranks) *dftracer.Options {
	rank := ranks.Rank.Or(0)
	opts := &dftracer.Options{
		NoMetadata:    !t.MetadataEnabled(),
		FlushInterval: t.EffectiveWriteInterval(),
		Existing:      dftracer.ExistingKeep,
		Rank:          &rank,
	}
	if !t.CompressionEnabled() {
		opts.Compression = dftracer.CompressNone
	}
	return opts
}

// close closes what open has opened, for a provider that could not be made.
func (o *outputs) close(ctx context.Context) error {
	if o.trace == nil {
		return nil
	}
	return o.trace.Shutdown(ctx)
}
