package dftracerexporter

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/spans"
)

// Arguments beside a span's attributes. The names with "otel." are those that
// the OpenTelemetry specification gives for formats without such fields.
const (
	argStatus      = "otel.status_code"
	argDescription = "otel.status_description"
	argLinks       = "otel.links"
	argDroppedAttr = "otel.dropped_attributes_count"
	argDroppedLink = "otel.dropped_links_count"
	argDroppedEv   = "otel.dropped_events_count"
	argParentID    = "parent_span_id"
)

// maxLinks bounds the links of one span that are written.
const maxLinks = 32

// maxText bounds a text that is kept; no line of a trace is longer.
const maxText = 16 << 10

// The bits of a span's flags that say whether its parent is in another process.
const (
	flagKnowsRemote = 0x100
	flagRemote      = 0x200
)

// micros are microseconds since the epoch. Times beyond what a signed number
// holds, which a broken sender could give, are its largest.
func micros(t pcommon.Timestamp) int64 { return int64(min(uint64(t), math.MaxInt64) / 1000) }

// keyOf is a span's key for the assembler.
func keyOf(trace pcommon.TraceID, span pcommon.SpanID) assemble.Key {
	return assemble.Key{Trace: trace, Span: span}
}

// newSpan converts a span. The strings are those of the batch.
func (t *trace) newSpan(src ptrace.Span, scope string) *assemble.Span {
	s := &assemble.Span{
		Key:   keyOf(src.TraceID(), src.SpanID()),
		Start: micros(src.StartTimestamp()), End: micros(src.EndTimestamp()),
	}
	remote := src.Flags()&flagKnowsRemote != 0 && src.Flags()&flagRemote != 0
	if p := src.ParentSpanID(); !p.IsEmpty() && !remote {
		s.Parent = keyOf(src.TraceID(), p)
	}
	args := make([]dftracer.Arg, 0, src.Attributes().Len()+4)
	var cat, name string
	for key, v := range src.Attributes().All() {
		switch key {
		case spans.AttrCategory:
			cat = v.AsString()
		case spans.AttrName:
			name = v.AsString()
		default:
			args = append(args, arg(key, v))
		}
	}
	s.Name = t.names.Find(scope, src.Name(), cat, name)
	args = appendStatus(args, src.Status())
	args = appendLinks(args, src)
	if n := src.DroppedAttributesCount(); n > 0 {
		args = append(args, dftracer.Int(argDroppedAttr, int64(n)))
	}
	if n := src.DroppedEventsCount(); n > 0 {
		args = append(args, dftracer.Int(argDroppedEv, int64(n)))
	}
	if t.cfg.TraceIDs {
		args = append(args, dftracer.String(assemble.ArgTraceID, src.TraceID().String()), dftracer.String(assemble.ArgSpanID, src.SpanID().String()))
		if p := src.ParentSpanID(); !p.IsEmpty() {
			args = append(args, dftracer.String(argParentID, p.String()))
		}
	}
	s.Args = args
	for _, ev := range src.Events().All() {
		s.Events = append(s.Events, newEvent(ev.Name(), ev.Timestamp(), ev.Attributes()))
	}
	return s
}

func appendStatus(dst []dftracer.Arg, st ptrace.Status) []dftracer.Arg {
	switch st.Code() {
	case ptrace.StatusCodeError:
		dst = append(dst, dftracer.String(argStatus, "ERROR"))
		if st.Message() != "" {
			dst = append(dst, dftracer.String(argDescription, bounded(st.Message())))
		}
	case ptrace.StatusCodeOk:
		dst = append(dst, dftracer.String(argStatus, "OK"))
	}
	return dst
}

type jsonLink struct {
	TraceID    string         `json:"trace_id"`
	SpanID     string         `json:"span_id"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

func appendLinks(dst []dftracer.Arg, src ptrace.Span) []dftracer.Arg {
	all := src.Links()
	list := make([]jsonLink, 0, min(all.Len(), maxLinks))
	for i := range min(all.Len(), maxLinks) {
		l := all.At(i)
		j := jsonLink{TraceID: l.TraceID().String(), SpanID: l.SpanID().String()}
		if l.Attributes().Len() > 0 {
			j.Attributes = l.Attributes().AsRaw()
		}
		list = append(list, j)
	}
	if len(list) > 0 {
		b, err := marshal(list)
		if err != nil { // a NaN among the attributes
			for i := range list {
				list[i].Attributes = nil
			}
			b, _ = marshal(list)
		}
		dst = append(dst, dftracer.Raw(argLinks, b))
	}
	if n := int64(src.DroppedLinksCount()) + int64(max(all.Len()-maxLinks, 0)); n > 0 {
		dst = append(dst, dftracer.Int(argDroppedLink, n))
	}
	return dst
}

// newEvent converts an event of a span.
func newEvent(name string, at pcommon.Timestamp, attrs pcommon.Map) assemble.Event {
	e := assemble.Event{Name: name, Time: int64(min(uint64(at), math.MaxInt64)), Args: make([]dftracer.Arg, 0, attrs.Len())}
	for key, v := range attrs.All() {
		e.Args = append(e.Args, arg(key, v))
	}
	return e
}

// arg converts an attribute. Epoch and step are integers whatever the sender
// made of them, as analyzers want them.
func arg(key string, v pcommon.Value) dftracer.Arg {
	if key == attributes.Epoch || key == attributes.Step {
		if n, ok := integer(v); ok {
			return dftracer.Int(key, n)
		}
	}
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return dftracer.Int(key, v.Int())
	case pcommon.ValueTypeStr:
		return dftracer.String(key, bounded(v.Str()))
	case pcommon.ValueTypeBool:
		return dftracer.Bool(key, v.Bool())
	case pcommon.ValueTypeDouble:
		return dftracer.Float(key, v.Double())
	case pcommon.ValueTypeEmpty:
		return dftracer.Raw(key, "null")
	case pcommon.ValueTypeBytes:
		return dftracer.String(key, bounded(v.AsString()))
	}
	b, err := marshal(v.AsRaw())
	if err != nil || len(b) > maxText {
		return dftracer.String(key, bounded(v.AsString()))
	}
	return dftracer.Raw(key, b)
}

// bounded cuts a text that no line could hold. The writer cuts on and marks it.
func bounded(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.Clone(s[:maxText])
}

func marshal(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
