package dftracerexporter

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
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
	argTruncated   = "truncated"
	argTraceID     = "trace_id"
	argSpanID      = "span_id"
	argParentID    = "parent_span_id"
	argSpan        = "span" // of an event's record: the id of its span in the file
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

// span is a span on its way to the file.
type span struct {
	key        spanKey
	parent     spanKey // empty span id for a root
	name       *dftracer.Key
	start, end int64 // microseconds
	args       []dftracer.Arg
	events     []event
	size       int // bytes of memory, roughly

	next, prev *span // brothers that wait, too

	// What gather and settle find out.
	taken bool
	up    *span // its parent when that waits too
	self  *relative
	above *relative // its parent when that does not wait
	down  []*span
	own   bool // placed by itself: something of it was written before
	level int
}

// event is an event of a span. Its first arguments are name, value and span.
type event struct {
	mark mark
	args []dftracer.Arg
}

func (s *span) contains(start, end int64) bool { return s.start <= start && s.end >= end }

// micros are microseconds since the epoch. Times beyond what a signed number
// holds, which a broken sender could give, are its largest.
func micros(t pcommon.Timestamp) int64 { return int64(min(uint64(t), math.MaxInt64) / 1000) }

// newSpan converts a span. The strings are those of the batch.
func newSpan(src ptrace.Span, scope string, k keys, ids bool) *span {
	s := &span{
		key:   spanKey{src.TraceID(), src.SpanID()},
		start: micros(src.StartTimestamp()),
		args:  make([]dftracer.Arg, 0, src.Attributes().Len()+4),
		size:  256,
	}
	s.end = max(s.start, micros(src.EndTimestamp()))
	remote := src.Flags()&flagKnowsRemote != 0 && src.Flags()&flagRemote != 0
	if p := src.ParentSpanID(); !p.IsEmpty() && !remote && p != s.key.span {
		s.parent = spanKey{s.key.trace, p}
	}
	var cat, name string
	for key, v := range src.Attributes().All() {
		switch key {
		case spans.AttrCategory:
			cat = v.AsString()
		case spans.AttrName:
			name = v.AsString()
		default:
			s.add(arg(key, v))
		}
	}
	s.name = k.find(scope, src.Name(), cat, name)
	s.status(src.Status())
	s.links(src)
	if n := src.DroppedAttributesCount(); n > 0 {
		s.add(dftracer.Int(argDroppedAttr, int64(n)))
	}
	if n := src.DroppedEventsCount(); n > 0 {
		s.add(dftracer.Int(argDroppedEv, int64(n)))
	}
	if ids {
		s.add(dftracer.String(argTraceID, s.key.trace.String()))
		s.add(dftracer.String(argSpanID, s.key.span.String()))
		if p := src.ParentSpanID(); !p.IsEmpty() {
			s.add(dftracer.String(argParentID, p.String()))
		}
	}
	for _, ev := range src.Events().All() {
		e := newEvent(ev.Name(), ev.Timestamp(), ev.Attributes())
		s.size += 64 + argsSize(e.args)
		s.events = append(s.events, e)
	}
	return s
}

func (s *span) add(a dftracer.Arg) {
	s.args = append(s.args, a)
	s.size += argSize(a)
}

func argSize(a dftracer.Arg) int { return 48 + len(a.Key) + len(a.Str()) }

func argsSize(args []dftracer.Arg) (n int) {
	for _, a := range args {
		n += argSize(a)
	}
	return n
}

func (s *span) status(st ptrace.Status) {
	switch st.Code() {
	case ptrace.StatusCodeError:
		s.add(dftracer.String(argStatus, "ERROR"))
		if st.Message() != "" {
			s.add(dftracer.String(argDescription, bounded(st.Message())))
		}
	case ptrace.StatusCodeOk:
		s.add(dftracer.String(argStatus, "OK"))
	}
}

type jsonLink struct {
	TraceID    string         `json:"trace_id"`
	SpanID     string         `json:"span_id"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

func (s *span) links(src ptrace.Span) {
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
		s.add(dftracer.Raw(argLinks, b))
	}
	if n := int64(src.DroppedLinksCount()) + int64(max(all.Len()-maxLinks, 0)); n > 0 {
		s.add(dftracer.Int(argDroppedLink, n))
	}
}

// newEvent converts an event of a span. Attributes called like the record's own
// arguments get a prefix.
func newEvent(name string, at pcommon.Timestamp, attrs pcommon.Map) event {
	e := event{mark: mark{name, at}, args: make([]dftracer.Arg, 0, attrs.Len()+3)}
	e.args = append(e.args, dftracer.String("name", name),
		dftracer.String("value", strconv.FormatInt(micros(at), 10)), dftracer.Int(argSpan, 0))
	for key, v := range attrs.All() {
		if key == "name" || key == "value" || key == argSpan {
			key = "event." + key
		}
		e.args = append(e.args, arg(key, v))
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
