package outputs

import (
	"sync/atomic"
	"time"
)

// Stats are counts of an [Output] since it was opened.
type Stats struct {
	// File counts what an output wrote to a file; zero if it has none.
	File FileStats
	// Delivery counts what an output sends over a network; zero if it sends
	// nothing.
	Delivery Delivery
}

// Values of Delivery.What.
const (
	DeliversSpans   = "spans"
	DeliversLogs    = "log records"
	DeliversMetrics = "metric exports"
)

// Delivery counts the items that an output should send. At every moment Total =
// Sent + Spilled + Dropped + Pending.
type Delivery struct {
	What     string           // DeliversSpans, DeliversLogs or DeliversMetrics
	Total    int64            // items to be sent
	Sent     int64            // items that the backend took
	Spilled  int64            // items kept on disk for later
	Dropped  int64            // lost items, by cause in Drops
	Pending  int64            // items that wait or are being sent
	Repaired int64            // values that were repaired before they were sent
	Drops    map[string]int64 // by cause
	// Failed is the number of failed exports of metrics. Metrics are cumulative, so
	// a later success makes up for a failure. Failures without a later success are
	// Dropped.
	Failed int64
	// Unwanted is true if the backend does not support this kind of data, such as
	// logs at a backend for spans. Drops are then counted without a warning.
	Unwanted bool
}

// FileStats counts what a writer of telemetry files has done so far. All counts
// only grow.
type FileStats struct {
	Output  string        // the kind of file: "trace" or "records"
	Records int64         // lines written or waiting for the disk
	Bytes   int64         // in the file
	Lost    int64         // lines that are missing in the file
	Errors  int64         // failures of the disk
	Outages int64         // times the file failed or stalled
	Blocked time.Duration // how long the program waited for the disk
}

// Progress is the epoch and the step of new events. Package telemetry sets it,
// and outputs read it. In the zero value both are unknown. All methods are safe
// for concurrent use and for a nil Progress.
type Progress struct {
	// One more than the value, so that zero means unknown.
	epoch, step atomic.Int64
}

// SetEpoch sets the epoch; a negative one makes it unknown.
func (p *Progress) SetEpoch(epoch int64) {
	if p != nil {
		p.epoch.Store(max(epoch+1, 0))
	}
}

// SetStep sets the step, the zero-based number of the current iteration; a
// negative one makes it unknown.
func (p *Progress) SetStep(step int64) {
	if p != nil {
		p.step.Store(max(step+1, 0))
	}
}

// Epoch returns the epoch, or -1 if it is unknown.
func (p *Progress) Epoch() int64 {
	if p == nil {
		return -1
	}
	return p.epoch.Load() - 1
}

// Step returns the step, or -1 if it is unknown.
func (p *Progress) Step() int64 {
	if p == nil {
		return -1
	}
	return p.step.Load() - 1
}
