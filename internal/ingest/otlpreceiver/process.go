package otlpreceiver

import (
	"strconv"
	"time"

	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/spans"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Limits of what is remembered of a process.
const (
	maxWaiting = 8192
	maxParents = 16384
)

// take writes the spans of one resource. It returns the ids that they have in the file,
// and of those that stand for an event the id of its span.
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
				ids = append(ids, p.asm.Add(p.newSpan(src, scope), now))
			}
		}
	}
	for i := range events { // after the spans, which bring the same events
		ids[events[i].at] = p.fold(&events[i])
	}
	return ids
}

// folded is a span that stands for an event.
type folded struct {
	src         *tracepb.Span
	scope       string
	event, span string // names
	at          int    // its place among the spans of its resource
}

// foldable reports whether a span stands for an event of its parent.
func foldable(src *tracepb.Span, scope string) (e folded, ok bool) {
	failed := src.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR
	e = folded{src: src, scope: scope}
	e.event, e.span, ok = place.Folded(scope, src.GetName(), len(src.GetParentSpanId()) > 0, src.GetEndTimeUnixNano() > src.GetStartTimeUnixNano(), failed)
	return e, ok
}

// fold adds the event. That a span starts is news only while it is open: then
// the file learns its name.
func (p *process) fold(e *folded) (id uint64) {
	key := keyOf(e.src.GetTraceId(), e.src.GetParentSpanId())
	if e.event == spans.EventSpanStart {
		p.asm.Begin(key, place.Key{}, p.names.Find(e.scope, e.span, "", ""), micros(e.src.GetStartTimeUnixNano()))
	}
	return p.asm.AddEvent(key, p.newEvent(e.event, e.src.GetStartTimeUnixNano(), e.src.GetAttributes(), e.src.GetDroppedAttributesCount()))
}

// attrs are the attributes of a resource.
type attrs []*commonpb.KeyValue

// text is the text of an attribute that is one, or a number.
func (a attrs) text(key string) string {
	for _, kv := range a {
		if kv.GetKey() != key {
			continue
		}
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_IntValue:
			return strconv.FormatInt(v.IntValue, 10)
		case *commonpb.AnyValue_DoubleValue:
			return strconv.FormatFloat(v.DoubleValue, 'f', -1, 64)
		}
	}
	return ""
}

// identity is who the spans of the resource are of.
func (a attrs) identity() identity.Identity {
	return identity.FromResource(func(key string) string { return a.text(key) })
}

// fileName is the file of a process.
func fileName(s place.Sender) string {
	return "otlp-" + place.SafeName(s.Host) + "-" + strconv.Itoa(s.PID) + ".pfw.gz"
}
