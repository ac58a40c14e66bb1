// Package promname returns the names of metrics in Prometheus, for documents,
// alerts and the metrics that the command serves.
package promname

import (
	"github.com/prometheus/otlptranslator"
	"github.com/trainspan/trainspan/internal/export/metrics"
)

// Of returns the name of a metric; a histogram gets _bucket, _count or _sum in
// addition.
func Of(m *metrics.Metric) string {
	kinds := map[metrics.Kind]otlptranslator.MetricType{
		metrics.Counter: otlptranslator.MetricTypeMonotonicCounter, metrics.UpDown: otlptranslator.MetricTypeNonMonotonicCounter,
		metrics.Gauge: otlptranslator.MetricTypeGauge, metrics.Histogram: otlptranslator.MetricTypeHistogram,
	}
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	name, err := namer.Build(otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: kinds[m.Kind]})
	if err != nil {
		panic(err) // a name of the table
	}
	return name
}
