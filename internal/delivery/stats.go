package delivery

import (
	"fmt"
	"strings"
)

// Cause is why spans were dropped.
type Cause uint8

// The causes of drops.
const (
	// QueueFull: too many spans, or too large ones, waited.
	QueueFull Cause = iota
	// Refused: the backend answered that it will not take them.
	Refused
	// TimedOut: the backend did not take them within the time for retries.
	TimedOut
	// Shutdown: they were not delivered by the deadline of Shutdown, or ended
	// after it.
	Shutdown
	// Unspilled: they were in a spill file that is gone.
	Unspilled

	// Causes is the number of causes.
	Causes = iota
)

// String is the cause in words.
func (c Cause) String() string {
	switch c {
	case QueueFull:
		return "queue full"
	case Refused:
		return "refused by the backend"
	case TimedOut:
		return "not taken in time"
	case Shutdown:
		return "not sent before shutdown"
	case Unspilled:
		return "removed from the spill directory"
	}
	return "unknown"
}

// Stats are exact counts since the processor was made. At every moment
// Ended = Exported + Spilled + DroppedTotal() + Pending.
type Stats struct {
	Ended    int64         // sampled spans that ended
	Exported int64         // spans that the backend took
	Spilled  int64         // spans that the spill keeps
	Dropped  [Causes]int64 // spans that are lost, by Cause
	Pending  int64         // spans that wait or are on their way

	PendingBytes int64 // estimated size of the spans that wait
	Attempts     int64 // calls of the exporter
	Retries      int64 // those that were not the first for their batch
	Repaired     int64 // values that Clean repaired
	SpillErrors  int64 // batches that the spill did not keep whole
	LastError    error // of the latest failed attempt, nil if there was none
}

// DroppedTotal is the number of spans lost for whatever cause.
func (s *Stats) DroppedTotal() (n int64) {
	for _, d := range s.Dropped {
		n += d
	}
	return n
}

// Summary tells the losses in one line, "" if there were none:
//
//	lost 12 of 340 spans: 10 queue full, 2 refused by the backend (last error: …)
func (s *Stats) Summary() string {
	lost := s.DroppedTotal()
	if lost == 0 && s.Spilled == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "lost %d of %d spans", lost, s.Ended)
	separator := ": "
	for c, n := range s.Dropped {
		if n > 0 {
			fmt.Fprintf(&b, "%s%d %s", separator, n, Cause(c))
			separator = ", "
		}
	}
	if s.Spilled > 0 {
		fmt.Fprintf(&b, "; %d more wait in the spill directory", s.Spilled)
	}
	if s.LastError != nil {
		fmt.Fprintf(&b, " (last error: %v)", s.LastError)
	}
	return b.String()
}
