package telemetry

import (
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Stats are counts since the provider was configured: of what telemetry recorded, lost
// and repaired.
type Stats struct {
	SpansStarted   int64 // spans started, standard and custom
	SpansOpen      int64 // spans open now
	Records        int64 // records made for the outputs
	Events         int64 // events of all spans
	Errors         int64 // misuse and internal errors that the error strategy handled
	DataErrors     int64 // gaps found in the telemetry data
	RepairedValues int64 // attribute values shortened or repaired
	RepairedTimes  int64 // ends before their start

	ExporterFailures int64 // failed exports of records, and panics of other methods of outputs
	DroppedRecords   int64 // records that outputs did not get, because they fell behind or were given up

	// Delivery to OpenTelemetry exporters, added up over all of them. At every
	// moment EndedSpans = ExportedSpans + SpilledSpans + DroppedSpans +
	// PendingSpans.
	EndedSpans    int64 // spans to be delivered
	ExportedSpans int64 // spans that a backend took
	SpilledSpans  int64 // spans kept on disk for later
	DroppedSpans  int64 // lost spans, by cause in Drops
	PendingSpans  int64 // spans that wait or are being sent
	Drops         map[string]int64

	// Delivery of events of open spans as OpenTelemetry log records. At every
	// moment LogRecords = ExportedLogRecords + DroppedLogRecords +
	// PendingLogRecords.
	LogRecords         int64 // log records to be delivered
	ExportedLogRecords int64 // log records that a backend took
	DroppedLogRecords  int64 // lost log records, by cause in LogDrops
	PendingLogRecords  int64 // log records that wait or are being sent
	LogDrops           map[string]int64

	// Exports of metrics. They are cumulative: a failed one is lost only until
	// another one succeeds.
	MetricExports       int64 // exports that the backend took
	FailedMetricExports int64 // exports that failed
	LostMetricExports   int64 // failures since the latest success

	// Outputs is the state of the outputs for records in the order in which they
	// were added.
	Outputs []OutputHealth
}

// statsOf returns the current counts.
func statsOf(r *Recorder, hub *dispatch.Hub) (s Stats) {
	r.locked(func() {
		s = Stats{
			SpansStarted: r.tree.started, SpansOpen: r.tree.open, Records: r.out.records, Events: r.out.events,
			Errors: r.errors, DataErrors: r.out.gaps, RepairedTimes: r.repairedTimes,
		}
	})
	s.RepairedValues = r.repairs.values.Load()
	s.Outputs, s.ExporterFailures = hub.Health(), hub.Panics()
	for i := range s.Outputs {
		s.ExporterFailures += int64(s.Outputs[i].Failures)
		s.DroppedRecords += s.Outputs[i].Dropped
	}
	for all := range hub.Stats {
		d := &all.Delivery
		s.RepairedValues += d.Repaired
		switch d.What {
		case outputs.DeliversSpans:
			s.EndedSpans += d.Total
			s.ExportedSpans += d.Sent
			s.SpilledSpans += d.Spilled
			s.PendingSpans += d.Pending
			s.DroppedSpans += d.Dropped
			count(&s.Drops, d.Drops)
		case outputs.DeliversLogs:
			s.LogRecords += d.Total
			s.ExportedLogRecords += d.Sent
			s.PendingLogRecords += d.Pending
			s.DroppedLogRecords += d.Dropped
			count(&s.LogDrops, d.Drops)
		case outputs.DeliversMetrics:
			s.MetricExports += d.Sent
			s.FailedMetricExports += d.Failed
			s.LostMetricExports += d.Dropped
		}
	}
	return s
}

// count adds drops by cause.
func count(drops *map[string]int64, more map[string]int64) {
	for cause, n := range more {
		if *drops == nil {
			*drops = make(map[string]int64)
		}
		(*drops)[cause] += n
	}
}
