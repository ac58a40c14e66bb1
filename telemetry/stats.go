package telemetry

import "sync/atomic"

// Stats are counts since the provider was configured: what telemetry did, and
// what it lost or mended on the way.
type Stats struct {
	SpansStarted int64 // spans started, standard and custom
	SpansOpen    int64 // spans open now
	Records      int64 // native records handed to exporters
	Events       int64 // events of all spans

	Errors           int64 // misuse and internal errors that the error strategy dealt with
	DataErrors       int64 // gaps found in the telemetry data
	RepairedValues   int64 // attribute values shortened or mended
	RepairedTimes    int64 // ends that lay before their start
	ExporterFailures int64 // failed exports of native exporters

	// Delivery to OpenTelemetry exporters, added up over all of them. At every
	// moment EndedSpans = ExportedSpans + SpilledSpans + DroppedSpans +
	// PendingSpans.
	EndedSpans    int64 // spans that were to be delivered
	ExportedSpans int64 // spans that a backend took
	SpilledSpans  int64 // spans kept on disk for later
	DroppedSpans  int64 // spans lost, for the causes of Drops
	PendingSpans  int64 // spans that wait or are on their way
	Drops         map[string]int64

	// Delivery of events of open spans as OpenTelemetry log records, added up
	// over the native exporters that are a [Sender]. At every moment LogRecords
	// = ExportedLogRecords + DroppedLogRecords + PendingLogRecords.
	LogRecords         int64 // log records that were to be delivered
	ExportedLogRecords int64 // log records that a backend took
	DroppedLogRecords  int64 // log records lost, for the causes of LogDrops
	PendingLogRecords  int64 // log records that wait or are on their way
	LogDrops           map[string]int64

	// Exports of metrics by a meter provider that is a [Sender]. They are
	// cumulative: a failed one is lost only until another one succeeds.
	MetricExports       int64 // exports that the backend took
	FailedMetricExports int64 // exports that failed
	LostMetricExports   int64 // those of them since the latest that the backend took
}

// counters are the parts of Stats that are counted outside the recorder's lock.
type counters struct {
	repairedValues atomic.Int64
}
