package exporters

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/trainspan/trainspan/telemetry/outputs"
)

// sentMeters are the meters of the telemetry, as an output: the provider ends
// them itself, after everything else that goes over a network, so that the
// metrics say what became of spans and logs, and before it takes its
// instruments back.
type sentMeters struct {
	outputs.None
	metric.MeterProvider
	m *Metrics
}

var _ outputs.Output = sentMeters{}

// Attach implements outputs.Output.
func (s sentMeters) Attach(context.Context, *outputs.Telemetry) (outputs.Wants, error) {
	return outputs.Wants{Network: true, Metrics: true}, nil
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
