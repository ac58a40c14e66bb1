package exporters

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/trainspan/trainspan/telemetry"
)

// sentMeters are the meters of the telemetry. The provider finds that they are
// sent over a network, and ends them itself: after everything else that is,
// so that the metrics tell what became of spans and logs, and before it takes
// its instruments back.
type sentMeters struct {
	metric.MeterProvider
	m *Metrics
}

var _ telemetry.Sender = sentMeters{}

// ForceFlush implements telemetry.Sender.
func (s sentMeters) ForceFlush(ctx context.Context) error { return s.m.ForceFlush(ctx) }

// Finish implements telemetry.Sender.
func (s sentMeters) Finish(ctx context.Context) error { return s.m.Shutdown(ctx) }

// Delivery implements telemetry.Sender.
func (s sentMeters) Delivery() telemetry.Delivery {
	if s.m.exporter == nil {
		return telemetry.Delivery{}
	}
	return s.m.exporter.Delivery()
}
