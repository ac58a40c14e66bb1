"""The exporter for OpenTelemetry."""
