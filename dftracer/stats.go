package dftracer

import (
	"time"
)

// Stats says what a Writer has done so far.
type Stats struct {
	Lines     uint64        // records written or waiting for the disk, framing included; some of them may get lost
	Bytes     uint64        // of text in those lines
	DiskBytes uint64        // written to the file
	Members   uint64        // gzip members of CompressMembers
	Parts     uint64        // continuation files begun by rotation
	Blocked   time.Duration // total time callers waited for the disk
	Lost      uint64        // lines missing because the file failed, stalled or was deleted, or was not ready at the deadline of CloseContext
	Late      uint64        // events written after Close, dropped
	Shortened uint64        // strings cut to keep a line under 16 KiB
	Repaired  uint64        // events whose negative numbers became 0
	Outages   uint64        // times the file failed or stalled
	Errors    uint64        // failed operations on the file
	Buffered  int           // bytes of text not yet given to the compressor
	Held      int           // bytes that wait for the file
}

// Stats returns the counts of this moment.
func (w *Writer) Stats() Stats {
	if w == nil {
		return Stats{}
	}
	k := w.pump.sink.Stats()
	return Stats{
		Lines:     k.Lines + uint64(w.pump.waiting.Load()),
		Bytes:     w.pump.bytes.Load(),
		DiskBytes: k.Bytes,
		Members:   w.pump.members.Load(),
		Parts:     k.Parts,
		Blocked:   time.Duration(w.blocks.blocked.Load()),
		Lost:      k.Lost,
		Late:      w.blocks.late.Load(),
		Shortened: w.cuts.Load(),
		Repaired:  w.fixed.Load(),
		Outages:   k.Outages,
		Errors:    k.Errors,
		Buffered:  w.blocks.filled() + int(w.pump.pending.Load()),
		Held:      k.Held,
	}
}
