package main

import (
	"context"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/telemetry"
)

// outputs are where telemetry goes.
type outputs struct {
	records string // the JSON-lines file
}

// open adds the outputs that cfg asks for to builder.
func (o *outputs) open(ctx context.Context, cfg *config.Config, builder *telemetry.TrainingTelemetryBuilder) error {
	if f := cfg.Outputs.File; f.Active() {
		o.records = f.Path
		builder.WithExporter(file.New(f.Path, &file.Options{Compat: f.Compat.Or(false)}))
	}
	return nil
}

// close closes the outputs of a provider that could not be made.
func (o *outputs) close() error { return nil }

func (o *outputs) print(report *reporter) error {
	report.line("records in %s", o.records)
	return nil
}
