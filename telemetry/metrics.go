package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/trainspan/trainspan/telemetry/outputs"
)

// healthMetrics are read when metrics are collected: times, open spans, what is
// in the files, and what did not arrive.
type healthMetrics struct{ registration metric.Registration }

// observe registers them.
func (p *Provider) observe(meter metric.Meter) (*healthMetrics, error) {
	var first error
	keep := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	time := func(name, text string) metric.Float64ObservableCounter {
		c, err := meter.Float64ObservableCounter(name, metric.WithUnit("s"), metric.WithDescription(text))
		keep(err)
		return c
	}
	count := func(name, unit, text string) metric.Int64ObservableCounter {
		c, err := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
		keep(err)
		return c
	}
	productive := time("training.productive.time", "Time of completed training iterations")
	total := time("training.loop.time", "Time since the start of the first training loop")
	open, err := meter.Int64ObservableUpDownCounter("telemetry.spans.open", metric.WithUnit("{span}"),
		metric.WithDescription("Telemetry spans that are open"))
	keep(err)
	started := count("telemetry.spans.started", "{span}", "Telemetry spans started")
	records := count("telemetry.records", "{record}", "Native records handed to exporters")
	failures := count("telemetry.exporter.failures", "{failure}", "Failed exports of native exporters")
	problems := count("telemetry.errors", "{error}", "Calls that telemetry refused, and gaps in its data")
	repaired := count("telemetry.repaired", "{value}", "Attribute values and times that were repaired")
	exported := count("telemetry.otlp.spans.exported", "{span}", "Spans that an OpenTelemetry backend took")
	dropped := count("telemetry.otlp.spans.dropped", "{span}", "Spans lost on the way to a backend, by cause")
	exportedLogs := count("telemetry.otlp.logs.exported", "{record}", "Log records that an OpenTelemetry backend took")
	droppedLogs := count("telemetry.otlp.logs.dropped", "{record}", "Log records lost on the way to a backend, by cause")
	failed := count("telemetry.otlp.metrics.failed", "{export}", "Exports of metrics that a backend did not take")

	fileRecords := count("telemetry.file.records", "{record}", "Lines written to telemetry files, by output")
	fileBytes := count("telemetry.file.written", "By", "Bytes in telemetry files, by output")
	fileLost := count("telemetry.file.lost", "{record}", "Lines missing in telemetry files, by output")
	fileErrors := count("telemetry.file.errors", "{error}", "Failures of the disk under telemetry files, by output")
	fileBlocked := time("telemetry.file.blocked.time", "Time that the program waited for the disk under telemetry files, by output")

	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		done, since := p.control.Times()
		o.ObserveFloat64(productive, done.Seconds())
		if since > 0 {
			o.ObserveFloat64(total, since.Seconds())
		}
		s := p.Stats()
		o.ObserveInt64(open, s.SpansOpen)
		o.ObserveInt64(started, s.SpansStarted)
		o.ObserveInt64(records, s.Records)
		o.ObserveInt64(failures, s.ExporterFailures)
		o.ObserveInt64(problems, s.Errors+s.DataErrors)
		o.ObserveInt64(repaired, s.RepairedValues+s.RepairedTimes)
		o.ObserveInt64(exported, s.ExportedSpans)
		for cause, n := range s.Drops {
			o.ObserveInt64(dropped, n, metric.WithAttributes(attribute.String("cause", cause)))
		}
		if s.LogRecords > 0 {
			o.ObserveInt64(exportedLogs, s.ExportedLogRecords)
		}
		for cause, n := range s.LogDrops {
			o.ObserveInt64(droppedLogs, n, metric.WithAttributes(attribute.String("cause", cause)))
		}
		if s.MetricExports+s.FailedMetricExports > 0 {
			o.ObserveInt64(failed, s.FailedMetricExports)
		}
		p.hub.Files(func(f outputs.FileStats) {
			output := metric.WithAttributes(attribute.String("output", f.Output))
			o.ObserveInt64(fileRecords, f.Records, output)
			o.ObserveInt64(fileBytes, f.Bytes, output)
			o.ObserveInt64(fileLost, f.Lost, output)
			o.ObserveInt64(fileErrors, f.Errors, output)
			o.ObserveFloat64(fileBlocked, f.Blocked.Seconds(), output)
		})
		return nil
	}, productive, total, fileRecords, fileBytes, fileLost, fileErrors, fileBlocked,
		open, started, records, failures, problems, repaired, exported, dropped,
		exportedLogs, droppedLogs, failed)
	keep(err)
	return &healthMetrics{registration}, first
}

// close takes the callback back, so that a meter provider that outlives the
// telemetry does not keep it alive.
func (m *healthMetrics) close() error {
	if m == nil || m.registration == nil {
		return nil
	}
	if err := m.registration.Unregister(); err != nil {
		return fmt.Errorf("telemetry: metrics: %w", err)
	}
	return nil
}
