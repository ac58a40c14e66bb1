package dftracer

import (
	"sync/atomic"
	"time"
)

// counts is shared by the pump, which writes it, and Stats.
type counts struct {
	lines, bytes, packed, members atomic.Uint64
	lost, outages, errors, parts  atomic.Uint64
}

// Stats says what a Writer has done so far.
type Stats struct {
	Lines     uint64        // records written or waiting for the disk, framing included
	Bytes     uint64        // of text in those lines
	DiskBytes uint64        // written to the file
	Members   uint64        // gzip members of CompressMembers
	Parts     uint64        // continuation files begun by rotation
	Blocked   time.Duration // total time callers waited for the disk
	Lost      uint64        // lines missing because the file failed or was deleted
	Late      uint64        // events written after Close, dropped
	Shortened uint64        // strings cut to keep a line under 16 KiB
	Repaired  uint64        // events whose negative numbers became 0
	Outages   uint64        // times the file stopped working
	Errors    uint64        // errors seen, one per outage
	Buffered  int           // bytes of text not yet given to the compressor
}

// Stats returns the counts of this moment.
func (w *Writer) Stats() Stats {
	if w == nil {
		return Stats{}
	}
	c := &w.pump.counts
	s := Stats{
		Lines:     c.lines.Load(),
		Bytes:     c.bytes.Load(),
		DiskBytes: c.packed.Load(),
		Members:   c.members.Load(),
		Parts:     c.parts.Load(),
		Blocked:   time.Duration(w.blocked.Load()),
		Lost:      c.lost.Load(),
		Late:      w.late.Load(),
		Shortened: w.cuts.Load(),
		Repaired:  w.fixed.Load(),
		Outages:   c.outages.Load(),
		Errors:    c.errors.Load(),
		Buffered:  w.facts.filled(),
	}
	for i := range w.shards {
		s.Buffered += w.shards[i].filled()
	}
	return s
}
