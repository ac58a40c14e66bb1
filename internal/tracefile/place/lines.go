package place

import (
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Arguments that the assembler adds.
const (
	ArgTruncated = "truncated" // set on a span that did not end
	ArgTraceID   = "trace_id"
	ArgSpanID    = "span_id"
	ArgSpan      = "span" // set on an event's record: the id of its span in the file
)

// Counts holds the counts since the last call of Assembler.Counts.
type Counts struct {
	Spans, Events, Begins int64
	Duplicates            int64 // spans dropped because an equal key arrived before
	Unfinished            int64 // parents written as unfinished
	SharedLane            int64 // spans on the shared lane 0
	Cut                   Cut   // attributes, events and links beyond the limits
}

// Add adds later counts to c.
func (c *Counts) Add(later Counts) {
	c.Spans += later.Spans
	c.Events += later.Events
	c.Begins += later.Begins
	c.Duplicates += later.Duplicates
	c.Unfinished += later.Unfinished
	c.SharedLane += later.SharedLane
	c.Cut.add(later.Cut)
}

// Cut counts the attributes, events and links beyond the limits.
type Cut struct{ Attributes, Events, Links int64 }

func (c *Cut) add(more Cut) {
	c.Attributes += more.Attributes
	c.Events += more.Events
	c.Links += more.Links
}

// KeySharedLane is the metadata name of a process that had more concurrent spans than
// lanes: the excess spans share lane 0 and may overlap there. Its value is the number of
// other lanes: of a process, a thread or a stream.
const KeySharedLane = "lanes.shared"

// WriteShared records that spans share lane 0 because none of the given number of lanes
// had room.
func WriteShared(w tracefile.Sink, lanes int) {
	tracefile.WriteCustom(w, KeySharedLane, strconv.Itoa(lanes))
}

// Counts returns the counts and sets them to zero.
func (a *Assembler) Counts() Counts {
	c := a.counts
	a.counts = Counts{}
	return c
}

// Cut adds what was dropped from a span before it was added.
func (a *Assembler) Cut(c Cut) { a.counts.Cut.add(c) }

// tid returns the thread id of a lane in the file: all lanes are lanes of one thread,
// because senders do not tell on which thread a span ran. A negative lane stands for the
// first lane; Shared is 0.
func (a *Assembler) tid(lane int) int64 {
	if lane == Shared {
		if !a.crowded {
			a.crowded = true
			WriteShared(a.w, MaxLanes)
		}
		return 0
	}
	return a.first + int64(max(lane, 0))*tracefile.LaneDistance
}

// spanTID returns the thread id of a span's lane, and counts spans on the shared one.
func (a *Assembler) spanTID(lane int) int64 {
	if lane == Shared {
		a.counts.SharedLane++
	}
	return a.tid(lane)
}

// event writes an event as a metadata record. Arguments with the name of one of the
// record's own get the prefix "event.".
func (a *Assembler) event(e *Event, id uint64, tid int64) {
	args := append(a.args[:0],
		dftracer.String("name", e.Name), dftracer.String("value", strconv.FormatInt(e.Time/1000, 10)), dftracer.Int(ArgSpan, int64(id)))
	for _, arg := range e.Args {
		if arg.Key == "name" || arg.Key == "value" || arg.Key == ArgSpan {
			arg.Key = "event." + arg.Key
		}
		args = append(args, arg)
	}
	a.w.Write(&dftracer.Event{
		Phase: dftracer.PhaseMetadata, Name: tracefile.NameCustom, Cat: dftracer.CatDFTracer,
		TID: tid, Parent: int64(id), Args: args,
	})
	a.args = args
	a.counts.Events++
}
