package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/trainspan/trainspan/spans"
)

// fileWriter is a span processor or native exporter that writes a file.
type fileWriter interface{ FileStats() spans.FileStats }

// fileMeters tell what the writers of files have done.
type fileMeters struct {
	writers                        []fileWriter
	records, written, lost, errors metric.Int64ObservableCounter
	blocked                        metric.Float64ObservableCounter
}

func newFileMeters(p *Provider, count func(name, unit, text string) metric.Int64ObservableCounter,
	time func(name, text string) metric.Float64ObservableCounter) *fileMeters {
	m := &fileMeters{
		records: count("telemetry.file.records", "{record}", "Lines written to telemetry files, by output"),
		written: count("telemetry.file.written", "By", "Bytes in telemetry files, by output"),
		lost:    count("telemetry.file.lost", "{record}", "Lines missing in telemetry files, by output"),
		errors:  count("telemetry.file.errors", "{error}", "Failures of the disk under telemetry files, by output"),
		blocked: time("telemetry.file.blocked.time", "Time that the program waited for the disk under telemetry files, by output"),
	}
	for _, sp := range p.processors {
		if w, ok := sp.(fileWriter); ok {
			m.writers = append(m.writers, w)
		}
	}
	for _, s := range p.rec.sinks {
		if w, ok := s.exporter.(fileWriter); ok {
			m.writers = append(m.writers, w)
		}
	}
	return m
}

func (m *fileMeters) instruments() []metric.Observable {
	return []metric.Observable{m.records, m.written, m.lost, m.errors, m.blocked}
}

func (m *fileMeters) observe(o metric.Observer) {
	for _, w := range m.writers {
		s := w.FileStats()
		output := metric.WithAttributes(attribute.String("output", s.Output))
		o.ObserveInt64(m.records, s.Records, output)
		o.ObserveInt64(m.written, s.Bytes, output)
		o.ObserveInt64(m.lost, s.Lost, output)
		o.ObserveInt64(m.errors, s.Errors, output)
		o.ObserveFloat64(m.blocked, s.Blocked.Seconds(), output)
	}
}
