package outputs

import (
	"sync/atomic"
	"time"
)

// Stats are counts of an [Output] since it was opened.
type Stats struct {
	// File counts what an output wrote to a file; its zero value means that
	// there is none.
	File FileStats
	// Delivery counts what an output sends over a network; its zero value
	// means that it sends nothing.
	Delivery Delivery
}

// Words for what a [Delivery] counts.
const (
	DeliversSpans   = "spans"
	DeliversLogs    = "log records"
	DeliversMetrics = "metric exports"
)

// Delivery is what became of what an output was to send. At every moment
// Total = Sent + Spilled + Dropped + Pending.
type Delivery struct {
	What     string           // DeliversSpans, DeliversLogs or DeliversMetrics
	Total    int64            // what was to be sent
	Sent     int64            // what the backend took
	Spilled  int64            // what is kept on disk for later
	Dropped  int64            // what is lost, for the causes of Drops
	Pending  int64            // what waits or is on its way
	Repaired int64            // values that were repaired before they were sent
	Drops    map[string]int64 // by cause
	// Failed is the number of exports that failed, of metrics, which are
	// cumulative: a later one that succeeds makes up for it. Those for which
	// none did are Dropped.
	Failed int64
	// Unwanted reports that the backend does not take this kind of data at all, such
	// as a backend for spans only. Drops are then counted without a warning.
	Unwanted bool
}

// FileStats is what a writer of telemetry files has done so far. All counts
// only grow.
type FileStats struct {
	Output  string        // what the file is: "trace" or "records"
	Records int64         // lines written, or waiting for the disk
	Bytes   int64         // in the file
	Lost    int64         // lines that are missing in the file
	Errors  int64         // failures of the disk
	Outages int64         // times the file failed or stalled
	Blocked time.Duration // how long the program waited for the disk
}

// Progress is the epoch and the step that new events belong to. Package telemetry
// sets it, and outputs read it. The zero value means "nothing known yet". All
// methods are safe for concurrent use and for a nil Progress.
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

// Epoch returns the epoch, or -1 when it is not known.
func (p *Progress) Epoch() int64 {
	if p == nil {
		return -1
	}
	return p.epoch.Load() - 1
}

// Step returns the step, or -1 when it is not known.
func (p *Progress) Step() int64 {
	if p == nil {
		return -1
	}
	return p.step.Load() - 1
}
