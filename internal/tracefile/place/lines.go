package place

import (
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Arguments that the assembler adds.
const (
	ArgTruncated = "truncated" // of a span that did not end
	ArgTraceID   = "trace_id"
	ArgSpanID    = "span_id"
	ArgSpan      = "span" // of an event's record: the id of its span in the file
)

// Counts says what was written since they were taken last.
type Counts struct {
	Spans, Events, Begins int64
	Duplicates            int64 // spans left out because they had come before
	Unfinished            int64 // parents written without having come
	SharedLane            int64 // spans on the lane of those that found no room
	Cut                   Cut   // what was over the limits of a span
}

// Add adds what was counted later.
func (c *Counts) Add(later Counts) {
	c.Spans += later.Spans
	c.Events += later.Events
	c.Begins += later.Begins
	c.Duplicates += later.Duplicates
	c.Unfinished += later.Unfinished
	c.SharedLane += later.SharedLane
	c.Cut.add(later.Cut)
}

// Cut counts what was over the limits.
type Cut struct{ Attributes, Events, Links int64 }

func (c *Cut) add(more Cut) {
	c.Attributes += more.Attributes
	c.Events += more.Events
	c.Links += more.Links
}

// KeySharedLane is the metadata of a process that had more spans at a time than
// there are lanes: what found no room is on lane 0, where spans need not nest.
// Its value is the number of the other lanes: of a process, a thread or a stream.
const KeySharedLane = "lanes.shared"

// WriteShared writes that spans share lane 0, because they found none of so many lanes.
func WriteShared(w tracefile.Sink, lanes int) {
	tracefile.WriteCustom(w, KeySharedLane, strconv.Itoa(lanes))
}

// Counts returns the counts and sets them to zero.
func (a *Assembler) Counts() Counts {
	c := a.counts
	a.counts = Counts{}
	return c
}

// Cut notes what a span that is added lacks.
func (a *Assembler) Cut(c Cut) { a.counts.Cut.add(c) }

// tid is the number of a lane in the file, and that of the process for none.
func (a *Assembler) tid(lane int) int64 {
	if lane == Shared {
		a.counts.SharedLane++
		if !a.crowded {
			a.crowded = true
			WriteShared(a.w, MaxLanes)
		}
		return 0
	}
	return a.first + int64(max(lane, 0))
}

// event writes an event as a metadata record. Arguments called like the
// record's own get a prefix.
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
