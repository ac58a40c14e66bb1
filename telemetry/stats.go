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
}

// counters are the parts of Stats that are counted outside the recorder's lock.
type counters struct {
	repairedValues atomic.Int64
	toldOfLoss     atomic.Bool
}
