package dftracerexporter

import (
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// counter returns the value of one of the exporter's own metrics, 0 if it has
// none.
func (r *harness) counter(name string) (total int64) {
	r.t.Helper()
	m, err := r.tel.GetMetric(name)
	if err != nil {
		return 0
	}
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		total += p.Value
	}
	return total
}
