package dftracerexporter

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// scopeName is the instrumentation scope of the exporter's own metrics.
const scopeName = "github.com/trainspan/trainspan/collector/dftracerexporter"

// instruments are the exporter's own metrics, see metadata.yaml.
type instruments struct {
	spans, events, begins, duplicates, unfinished metric.Int64Counter
	ignored, lost, outages, created               metric.Int64Counter
	open                                          metric.Int64UpDownCounter
}

func newInstruments(mp metric.MeterProvider) (*instruments, error) {
	m := mp.Meter(scopeName)
	var in instruments
	var errs []error
	counter := func(name, unit, text string) metric.Int64Counter {
		c, err := m.Int64Counter("otelcol_dftracer_"+name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
		return c
	}
	in.spans = counter("spans_written", "{span}", "Spans written to trace files.")
	in.events = counter("events_written", "{event}", "Events of spans written as metadata records.")
	in.begins = counter("spans_begun", "{span}", "Records written about spans that have begun.")
	in.duplicates = counter("duplicate_spans", "{span}", "Spans left out because they had been delivered before.")
	in.unfinished = counter("unfinished_spans", "{span}", "Parents written without having ended.")
	in.ignored = counter("ignored_logs", "{record}", "Log records left out because they are no events of spans.")
	in.lost = counter("lost_lines", "{line}", "Lines missing in trace files because the disk failed.")
	in.outages = counter("file_outages", "{outage}", "Times that a file could not be made or written.")
	in.created = counter("files_created", "{file}", "Trace files made, without parts of rotated ones.")
	open, err := m.Int64UpDownCounter("otelcol_dftracer_open_files", metric.WithUnit("{file}"), metric.WithDescription("Trace files that are open."))
	in.open = open
	return &in, errors.Join(append(errs, err)...)
}

// recorder gathers what one trace counts under its lock, so that a span costs
// no metric call.
type recorder struct {
	to                                            *instruments
	spans, events, begins, duplicates, unfinished int64
	lost                                          uint64
}

func (r *recorder) flush() {
	add := func(c metric.Int64Counter, n *int64) {
		if *n != 0 {
			c.Add(context.Background(), *n)
			*n = 0
		}
	}
	add(r.to.spans, &r.spans)
	add(r.to.events, &r.events)
	add(r.to.begins, &r.begins)
	add(r.to.duplicates, &r.duplicates)
	add(r.to.unfinished, &r.unfinished)
	lost := int64(r.lost)
	add(r.to.lost, &lost)
	r.lost = 0
}
