// Package otlpspan converts OTLP spans to spans of a trace file. The receiver
// of OTLP and the reader of OTLP files share it, so that both give spans the
// same names.
package otlpspan

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Arguments other than a span's attributes.
const (
	argName       = "otel.name" // the original name, if the name in the file differs
	argBackground = "background"
)

const (
	maxLinkAttributes = 64 // per link
	maxDepth          = 16 // of nested lists and maps
)

// Micros converts nanoseconds to microseconds since the epoch. Values above the
// range of int64, which a broken sender could send, become its maximum.
func Micros(ns uint64) int64 { return int64(min(ns, math.MaxInt64) / 1000) } //nolint:gosec // bounded

// KeyOf returns the key of a span.
func KeyOf(trace, span []byte) (k place.Key) {
	copy(k.Trace[:], trace)
	copy(k.Span[:], span)
	return k
}

// Converter converts the spans of one process. Set its names and limits before
// use. It is not safe for concurrent use.
type Converter struct {
	Names  *place.Names
	Limits place.Limits
	// Sender, if not nil, is added to the arguments of each span, for files with
	// spans of several processes.
	Sender *place.Sender
	// Cut is called with what exceeded the limits.
	Cut func(place.Cut)
}

// Span converts a span. Its name and attributes become this library's if the
// vocabulary knows them.
func (c *Converter) Span(src *tracepb.Span, scope string) *place.Span {
	s := &place.Span{
		Key:   KeyOf(src.GetTraceId(), src.GetSpanId()),
		Start: Micros(src.GetStartTimeUnixNano()), End: Micros(src.GetEndTimeUnixNano()),
	}
	const remote = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	if src.GetFlags()&remote != remote {
		s.Parent = KeyOf(src.GetTraceId(), src.GetParentSpanId())
	}
	known, found := vocab.Known(src.GetName())
	var cat, event string
	var cut place.Cut
	list := arguments{args: make([]dftracer.Arg, 0, min(len(src.GetAttributes()), c.Limits.Attributes)+4), span: known.Standard}
	for _, kv := range src.GetAttributes() {
		switch kv.GetKey() {
		case spans.AttrCategory:
			cat = kv.GetValue().GetStringValue()
		case spans.AttrName:
			event = kv.GetValue().GetStringValue()
		default:
			if len(list.args) >= c.Limits.Attributes {
				cut.Attributes++
				continue
			}
			list.add(kv)
		}
	}
	args := list.args
	if found && known.Standard != src.GetName() {
		args = append(args, dftracer.String(argName, place.Bounded(src.GetName())))
	}
	if c.Sender != nil {
		args = c.Sender.Arguments(args)
	}
	if known.Background {
		args = append(args, dftracer.Bool(argBackground, true))
	}
	s.Name = c.Names.Find(scope, src.GetName(), cat, event)
	args = appendStatus(args, src.GetStatus())
	args, cut.Links = appendLinks(args, src.GetLinks(), c.Limits.Links)
	events := src.GetEvents()
	cut.Events = int64(max(len(events)-c.Limits.Events, 0))
	for _, ev := range events[:min(len(events), c.Limits.Events)] {
		s.Events = append(s.Events, c.Event(ev.GetName(), ev.GetTimeUnixNano(), ev.GetAttributes(), ev.GetDroppedAttributesCount()))
	}
	args = place.AppendCount(args, place.ArgDroppedAttributes, int64(src.GetDroppedAttributesCount()), cut.Attributes)
	args = place.AppendCount(args, place.ArgDroppedEvents, int64(src.GetDroppedEventsCount()), cut.Events)
	s.Args = place.AppendCount(args, place.ArgDroppedLinks, int64(src.GetDroppedLinksCount()), cut.Links)
	c.Cut(cut)
	return s
}

// Event converts an event of a span.
func (c *Converter) Event(name string, at uint64, attributes []*commonpb.KeyValue, dropped uint32) place.Event {
	n := min(len(attributes), c.Limits.Attributes)
	cut := place.Cut{Attributes: int64(len(attributes) - n)}
	e := place.Event{Name: place.Bounded(name), Time: int64(min(at, math.MaxInt64)), Args: make([]dftracer.Arg, 0, n)} //nolint:gosec // bounded
	for _, kv := range attributes[:n] {
		e.Args = append(e.Args, Arg(kv.GetKey(), kv.GetValue()))
	}
	e.Args = place.AppendCount(e.Args, place.ArgDroppedAttributes, int64(dropped), cut.Attributes)
	c.Cut(cut)
	return e
}

// Folded returns the event that a span represents: see [place.Folded].
func Folded(src *tracepb.Span, scope string) (event, span string, ok bool) {
	failed := src.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR
	return place.Folded(scope, src.GetName(), len(src.GetParentSpanId()) > 0, src.GetEndTimeUnixNano() > src.GetStartTimeUnixNano(), failed)
}

// arguments collects the arguments of a span. Attributes get the names that
// analyzers look for.
type arguments struct {
	args  []dftracer.Arg
	span  string   // the standard span, or empty
	taken []string // the used names that analyzers look for
}

// add appends an attribute. An argument that already exists keeps its name.
func (a *arguments) add(kv *commonpb.KeyValue) {
	key := vocab.Argument(a.span, kv.GetKey())
	if key != kv.GetKey() || vocab.Analyzed(key) {
		if !slices.Contains(a.taken, key) {
			a.taken = append(a.taken, key)
		} else {
			key = kv.GetKey()
		}
	}
	a.args = append(a.args, Arg(key, kv.GetValue()))
}

// Arg converts an attribute.
func Arg(key string, v *commonpb.AnyValue) dftracer.Arg {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_IntValue:
		return dftracer.Int(key, v.IntValue)
	case *commonpb.AnyValue_StringValue:
		return place.Progress(dftracer.String(key, place.Bounded(v.StringValue)))
	case *commonpb.AnyValue_BoolValue:
		return dftracer.Bool(key, v.BoolValue)
	case *commonpb.AnyValue_DoubleValue:
		return place.Progress(dftracer.Float(key, v.DoubleValue))
	case *commonpb.AnyValue_BytesValue:
		return dftracer.String(key, place.Bounded(base64.StdEncoding.EncodeToString(v.BytesValue[:min(len(v.BytesValue), place.MaxText)])))
	case nil:
		return dftracer.Raw(key, "null")
	}
	return place.Composite(key, plain(v, 0))
}

// plain converts a value to the types of encoding/json.
func plain(v *commonpb.AnyValue, depth int) any {
	if depth > maxDepth {
		return "..."
	}
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonpb.AnyValue_BytesValue:
		return v.BytesValue
	case *commonpb.AnyValue_ArrayValue:
		list := make([]any, 0, len(v.ArrayValue.GetValues()))
		for _, item := range v.ArrayValue.GetValues() {
			list = append(list, plain(item, depth+1))
		}
		return list
	case *commonpb.AnyValue_KvlistValue:
		m := make(map[string]any, len(v.KvlistValue.GetValues()))
		for _, kv := range v.KvlistValue.GetValues() {
			m[kv.GetKey()] = plain(kv.GetValue(), depth+1)
		}
		return m
	}
	return nil
}

func appendStatus(dst []dftracer.Arg, st *tracepb.Status) []dftracer.Arg {
	code := st.GetCode()
	return place.AppendStatus(dst, code == tracepb.Status_STATUS_CODE_ERROR, code == tracepb.Status_STATUS_CODE_OK, place.Bounded(st.GetMessage()))
}

// appendLinks appends the links within the limit and returns how many it left
// out.
func appendLinks(dst []dftracer.Arg, links []*tracepb.Span_Link, limit int) (args []dftracer.Arg, cut int64) {
	return place.AppendLinks(dst, len(links), limit, func(i int) place.Link {
		l := place.Link{TraceID: hex.EncodeToString(id(links[i].GetTraceId(), 16)), SpanID: hex.EncodeToString(id(links[i].GetSpanId(), 8))}
		for _, kv := range links[i].GetAttributes()[:min(len(links[i].GetAttributes()), maxLinkAttributes)] {
			if l.Attributes == nil {
				l.Attributes = make(map[string]any)
			}
			l.Attributes[kv.GetKey()] = plain(kv.GetValue(), 1)
		}
		return l
	})
}

// id returns an identifier, truncated to size.
func id(b []byte, size int) []byte { return b[:min(len(b), size)] }
