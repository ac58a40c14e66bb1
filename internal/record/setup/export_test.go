package setup

import "github.com/trainspan/trainspan/telemetry/outputs"

// Delivery returns the counts of the exports by OTLP.
func (m *Metrics) Delivery() outputs.Delivery { return m.exporter.Delivery() }
