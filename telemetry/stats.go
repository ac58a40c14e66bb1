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
	DroppedSpans     int64 // spans that OpenTelemetry exporters did not take
	ExportedSpans    int64 // spans that OpenTelemetry exporters took
}

// counters are the parts of Stats that are counted outside the recorder's lock.
type counters struct {
	repairedValues atomic.Int64
	droppedSpans   atomic.Int64
	exportedSpans  atomic.Int64
}
