package otlp

// MetricExporter is the result of NewMetricExporter.
type MetricExporter = metricExporter
