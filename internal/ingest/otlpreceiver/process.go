package otlpreceiver

import (
	"strconv"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/otlpspan"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/spans"
)

// Limits of what is remembered of a process.
const (
	maxWaiting = 8192
	maxParents = 16384
)

// take writes the spans of one resource. It returns their ids in the file; for
// those that represent an event, the id of the event's span.
func (p *process) take(rs *otlpspan.ResourceSpans, now time.Time) []uint64 {
	ids := make([]uint64, 0, rs.Len)
	var events []folded
	for src, scope := range rs.Spans() {
		if e, span, ok := otlpspan.Folded(src, scope); ok {
			f := folded{of: src.Parent(), event: p.conv.Event(&e), at: len(ids)}
			if e.Name == spans.EventSpanStart {
				f.begun = p.conv.Names.Find(scope, span, "", "")
			}
			events = append(events, f)
			ids = append(ids, 0)
		} else {
			ids = append(ids, p.asm.Add(p.conv.Span(src, scope), now))
		}
	}
	for i := range events { // after the spans, which have the same events
		e := &events[i]
		if e.begun != nil {
			p.asm.Begin(e.of, place.Key{}, e.begun, e.event.Time/1000)
		}
		ids[e.at] = p.asm.AddEvent(e.of, e.event)
	}
	return ids
}

// folded is a span that represents an event.
type folded struct {
	of    place.Key // the span that has the event
	event place.Event
	at    int // its index among the spans of its resource
	// begun is the name of the span that has the event, if it is a start event: while
	// that span is open, its name is written to the file.
	begun *dftracer.Key
}

// fileName returns the file name of a process.
func fileName(s place.Sender) string {
	return "otlp-" + place.SafeName(s.Host) + "-" + strconv.Itoa(s.PID) + ".pfw.gz"
}

// process is a process with its file, while its spans are received.
type process struct {
	asm    *place.Assembler
	conv   otlpspan.Converter
	shared bool // several processes share the file
}
