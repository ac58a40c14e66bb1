// Package promname says what metrics are called in Prometheus, for documents, alerts
// and the metrics that the command serves itself.
package promname

import (
	"github.com/prometheus/otlptranslator"
	"github.com/trainspan/trainspan/internal/export/metrics"
)

// Of returns the name of a metric; that of a histogram gets _bucket, _count or _sum.
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
