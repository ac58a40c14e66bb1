package otlpreceiver

import (
	"strconv"
	"time"

	"github.com/trainspan/trainspan/internal/tracefile/otlpspan"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/spans"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Limits of what is remembered of a process.
const (
	maxWaiting = 8192
	maxParents = 16384
)

// take writes the spans of one resource. It returns their ids in the file; for
// those that represent an event, the id of the event's span.
func (p *process) take(rs *tracepb.ResourceSpans, now time.Time) []uint64 {
	ids := make([]uint64, 0, count([]*tracepb.ResourceSpans{rs}))
	var events []folded
	for _, ss := range rs.GetScopeSpans() {
		scope := ss.GetScope().GetName()
		for _, src := range ss.GetSpans() {
			e, ok := foldable(src, scope)
			if ok {
				e.at = len(ids)
				events = append(events, e)
				ids = append(ids, 0)
			} else {
				ids = append(ids, p.asm.Add(p.conv.Span(src, scope), now))
			}
		}
	}
	for i := range events { // after the spans, which have the same events
		ids[events[i].at] = p.fold(&events[i])
	}
	return ids
}

// folded is a span that represents an event.
type folded struct {
	src         *tracepb.Span
	scope       string
	event, span string // names
	at          int    // its index among the spans of its resource
}

// foldable reports whether a span represents an event of its parent.
func foldable(src *tracepb.Span, scope string) (e folded, ok bool) {
	e = folded{src: src, scope: scope}
	e.event, e.span, ok = otlpspan.Folded(src, scope)
	return e, ok
}

// fold adds the event. A start event is only used while its span is open, to
// write the span's name to the file.
func (p *process) fold(e *folded) (id uint64) {
	key := otlpspan.KeyOf(e.src.GetTraceId(), e.src.GetParentSpanId())
	if e.event == spans.EventSpanStart {
		p.asm.Begin(key, place.Key{}, p.conv.Names.Find(e.scope, e.span, "", ""), otlpspan.Micros(e.src.GetStartTimeUnixNano()))
	}
	return p.asm.AddEvent(key, p.conv.Event(e.event, e.src.GetStartTimeUnixNano(), e.src.GetAttributes(), e.src.GetDroppedAttributesCount()))
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
