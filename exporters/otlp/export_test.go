package otlp

// MetricExporter is what NewMetricExporter returns.
type MetricExporter = metricExporter
