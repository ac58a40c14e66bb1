package telemetry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/trainspan/trainspan/internal/export/metrics"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/record/spantree"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// healthMetrics are read when metrics are collected: times, open spans, the
// contents of the files, and what did not arrive.
type healthMetrics struct{ registration metric.Registration }

// component identifies the component of the standard metrics: all queues and
// exporters of the provider together.
var component = metric.WithAttributes(attribute.String(metrics.ComponentName, "trainspan/0"), attribute.String(metrics.ComponentType, "trainspan"))

// lossTypes are the causes of losses and their values for error.type: first
// those before an exporter, then those after it.
var lossTypes = [2]map[string]string{
	{"queue full": "queue_full", "not sent before shutdown": "shutdown"},
	{"refused by the backend": "refused", "not taken in time": "timeout"},
}

// observe registers the metrics.
func observe(meter metric.Meter, r *Recorder, hub *dispatch.Hub) (*healthMetrics, error) {
	in := metrics.Maker{Meter: meter}
	var all []metric.Observable
	ints := map[*metrics.Metric]metric.Int64Observable{}
	for _, of := range []*metrics.Metric{
		metrics.LoopsOpen,
		metrics.SpansLive, metrics.SpansStarted, metrics.SpansQueued, metrics.SpansProcessed, metrics.SpansExported,
		metrics.LogsCreated, metrics.LogsQueued, metrics.LogsProcessed, metrics.LogsExported,
		metrics.Records, metrics.ExporterFailures, metrics.Errors, metrics.Repaired, metrics.MetricsFailed,
		metrics.FileRecords, metrics.FileWritten, metrics.FileLost, metrics.FileErrors,
	} {
		ints[of] = in.Int64Observable(of)
		all = append(all, ints[of])
	}
	floats := map[*metrics.Metric]metric.Float64Observable{}
	for _, of := range []*metrics.Metric{metrics.ProductiveTime, metrics.LoopTime, metrics.StartupTime, metrics.FileBlockedTime} {
		floats[of] = in.Float64Observable(of)
		all = append(all, floats[of])
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		count := func(of *metrics.Metric, n int64, with ...metric.ObserveOption) { o.ObserveInt64(ints[of], n, with...) }
		now, open := r.time.now(), int64(0)
		var times spantree.Times
		r.locked(func() {
			times = r.books.Times(r.time.made, now)
			if r.tree.isOpen(phase.Training) {
				open = 1
			}
		})
		o.ObserveFloat64(floats[metrics.ProductiveTime], time.Duration(times.Productive).Seconds())
		o.ObserveFloat64(floats[metrics.StartupTime], time.Duration(times.Startup).Seconds())
		if times.Loop > 0 {
			o.ObserveFloat64(floats[metrics.LoopTime], time.Duration(times.Loop).Seconds())
			count(metrics.LoopsOpen, open)
		}
		s := statsOf(r, hub)
		count(metrics.SpansLive, s.SpansOpen)
		count(metrics.SpansStarted, s.SpansStarted)
		count(metrics.Records, s.Records)
		count(metrics.ExporterFailures, s.ExporterFailures)
		count(metrics.Errors, s.Errors+s.DataErrors)
		count(metrics.Repaired, s.RepairedValues+s.RepairedTimes)
		delivered(count, metrics.SpansQueued, metrics.SpansProcessed, metrics.SpansExported, s.PendingSpans, s.SpilledSpans, s.ExportedSpans, s.Drops)
		if s.LogRecords > 0 {
			count(metrics.LogsCreated, s.LogRecords)
			delivered(count, metrics.LogsQueued, metrics.LogsProcessed, metrics.LogsExported, s.PendingLogRecords, 0, s.ExportedLogRecords, s.LogDrops)
		}
		if s.MetricExports+s.FailedMetricExports > 0 {
			count(metrics.MetricsFailed, s.FailedMetricExports)
		}
		for all := range hub.Stats {
			f := &all.File
			if f.Output == "" {
				continue
			}
			output := metric.WithAttributes(attribute.String("output", f.Output))
			count(metrics.FileRecords, f.Records, output)
			count(metrics.FileWritten, f.Bytes, output)
			count(metrics.FileLost, f.Lost, output)
			count(metrics.FileErrors, f.Errors, output)
			o.ObserveFloat64(floats[metrics.FileBlockedTime], f.Blocked.Seconds(), output)
		}
		return nil
	}, all...)
	return &healthMetrics{registration}, errors.Join(in.Err, err)
}

// delivered counts spans or log records: those that wait, those that left the
// queue, those that the backend took, and those lost before and after the
// exporter.
func delivered(count func(*metrics.Metric, int64, ...metric.ObserveOption), queued, processed, exported *metrics.Metric, pending, spilled, sent int64, drops map[string]int64) {
	count(queued, pending, component)
	count(exported, sent, component)
	through, rest := sent+spilled, maps.Clone(drops)
	lost := func(of *metrics.Metric, n int64, kind string) {
		count(of, n, component, metric.WithAttributes(attribute.String(metrics.ErrorType, kind)))
		if of == exported {
			through += n
		}
	}
	for i, of := range []*metrics.Metric{processed, exported} {
		for cause, kind := range lossTypes[i] { // also those without a loss, so that an increase can be seen
			lost(of, drops[cause], kind)
			delete(rest, cause)
		}
	}
	other := int64(0)
	for _, n := range rest { // exporters with other causes
		other += n
	}
	if other > 0 {
		lost(exported, other, "_OTHER")
	}
	count(processed, through, component)
}

// close unregisters the callback, so that a meter provider that outlives the
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
