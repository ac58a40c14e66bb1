package dftracerexporter

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/spans"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Arguments besides a span's attributes. The OpenTelemetry specification
// defines the names with "otel." for formats without such fields.
const (
	argParentID = "parent_span_id"
)

// maxLinkAttributes limits the attributes of a link.
const maxLinkAttributes = 64

// The bits of a span's flags that tell whether its parent is in another
// process.
const (
	flagKnowsRemote = 0x100
	flagRemote      = 0x200
)

// micros returns microseconds since the epoch. It limits times beyond the range
// of a signed number, which a faulty sender could send, to the largest value.
func micros(t pcommon.Timestamp) int64 { return int64(min(uint64(t), math.MaxInt64) / 1000) }

// keyOf returns a span's key for the assembler.
func keyOf(trace pcommon.TraceID, span pcommon.SpanID) place.Key {
	return place.Key{Trace: trace, Span: span}
}

// newSpan converts a span. Its strings share memory with the batch.
func (t *trace) newSpan(src ptrace.Span, scope string) *place.Span {
	s := place.NewSpan()
	s.Key, s.Start, s.End = keyOf(src.TraceID(), src.SpanID()), micros(src.StartTimestamp()), micros(src.EndTimestamp())
	remote := src.Flags()&flagKnowsRemote != 0 && src.Flags()&flagRemote != 0
	if p := src.ParentSpanID(); !p.IsEmpty() && !remote {
		s.Parent = keyOf(src.TraceID(), p)
	}
	limits := t.cfg.limits()
	args := slices.Grow(s.Args, min(src.Attributes().Len(), limits.Attributes)+4)
	var cat, name string
	var cut place.Cut
	for key, v := range src.Attributes().All() {
		switch key {
		case spans.AttrCategory:
			cat = v.AsString()
		case spans.AttrName:
			name = v.AsString()
		default:
			if len(args) >= limits.Attributes {
				cut.Attributes++
				continue
			}
			args = append(args, arg(key, v))
		}
	}
	s.Name = t.names.Find(scope, src.Name(), cat, name)
	args = appendStatus(args, src.Status())
	args, cut.Links = appendLinks(args, src.Links(), limits.Links)
	cut.Events = int64(max(src.Events().Len()-limits.Events, 0))
	args = place.AppendCount(args, place.ArgDroppedAttributes, int64(src.DroppedAttributesCount()), cut.Attributes)
	args = place.AppendCount(args, place.ArgDroppedEvents, int64(src.DroppedEventsCount()), cut.Events)
	args = place.AppendCount(args, place.ArgDroppedLinks, int64(src.DroppedLinksCount()), cut.Links)
	if t.shared() {
		args = t.id.Arguments(args)
	}
	if t.cfg.TraceIDs {
		args = append(args, dftracer.String(place.ArgTraceID, src.TraceID().String()), dftracer.String(place.ArgSpanID, src.SpanID().String()))
		if p := src.ParentSpanID(); !p.IsEmpty() {
			args = append(args, dftracer.String(argParentID, p.String()))
		}
	}
	s.Args = args
	for i := range min(src.Events().Len(), limits.Events) {
		ev := src.Events().At(i)
		s.Events = append(s.Events, t.newEvent(ev.Name(), ev.Timestamp(), ev.Attributes(), ev.DroppedAttributesCount()))
	}
	t.asm.Cut(cut)
	return s
}

func appendStatus(dst []dftracer.Arg, st ptrace.Status) []dftracer.Arg {
	return place.AppendStatus(dst, st.Code() == ptrace.StatusCodeError, st.Code() == ptrace.StatusCodeOk, place.Bounded(st.Message()))
}

// appendLinks appends up to limit links and returns how many it dropped.
func appendLinks(dst []dftracer.Arg, all ptrace.SpanLinkSlice, limit int) (args []dftracer.Arg, cut int64) {
	return place.AppendLinks(dst, all.Len(), limit, func(i int) place.Link {
		l := all.At(i)
		link := place.Link{TraceID: l.TraceID().String(), SpanID: l.SpanID().String()}
		if l.Attributes().Len() <= maxLinkAttributes {
			link.Attributes = l.Attributes().AsRaw()
		}
		return link
	})
}

// newEvent converts an event of a span.
func (t *trace) newEvent(name string, at pcommon.Timestamp, attrs pcommon.Map, dropped uint32) place.Event {
	limit := t.cfg.limits().Attributes
	cut := place.Cut{Attributes: int64(max(attrs.Len()-limit, 0))}
	e := place.Event{Name: place.Bounded(name), Time: int64(min(uint64(at), math.MaxInt64)), Args: make([]dftracer.Arg, 0, min(attrs.Len(), limit)+1)}
	for key, v := range attrs.All() {
		if len(e.Args) >= limit {
			break
		}
		e.Args = append(e.Args, arg(key, v))
	}
	e.Args = place.AppendCount(e.Args, place.ArgDroppedAttributes, int64(dropped), cut.Attributes)
	t.asm.Cut(cut)
	return e
}

// arg converts an attribute.
func arg(key string, v pcommon.Value) dftracer.Arg {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return dftracer.Int(key, v.Int())
	case pcommon.ValueTypeStr:
		return place.Progress(dftracer.String(key, place.Bounded(v.Str())))
	case pcommon.ValueTypeBool:
		return dftracer.Bool(key, v.Bool())
	case pcommon.ValueTypeDouble:
		return place.Progress(dftracer.Float(key, v.Double()))
	case pcommon.ValueTypeEmpty:
		return dftracer.Raw(key, "null")
	case pcommon.ValueTypeBytes:
		return dftracer.String(key, place.Bounded(v.AsString()))
	}
	return place.Composite(key, v.AsRaw())
}
