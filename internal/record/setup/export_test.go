package setup

import "github.com/trainspan/trainspan/telemetry/outputs"

// Delivery returns the delivery counts of the OTLP exporter.
func (m *Metrics) Delivery() outputs.Delivery { return m.exporter.Delivery() }

// Paths returns the paths of the written files by output: "file" and "trace". The path
// of the file is final once the provider is configured.
func (o *Outputs) Paths() map[string]string {
	paths := map[string]string{}
	if o != nil && o.File != nil {
		paths["file"] = o.File.Path()
	}
	if o != nil && o.Trace != nil {
		paths["trace"] = o.Trace.Path()
	}
	return paths
}
