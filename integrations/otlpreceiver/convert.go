package otlpreceiver

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/vocabulary"
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
	argName        = "otel.name" // of a span whose name in the file is another
	argBackground  = "background"
)

const (
	maxLinks = 32       // of one span that are written
	maxText  = 16 << 10 // bytes of a text that is kept
	maxDepth = 16       // of lists and maps in each other
)

// micros are microseconds since the epoch. Times beyond what a signed number
// holds, which a broken sender could give, are its largest.
func micros(ns uint64) int64 { return int64(min(ns, math.MaxInt64) / 1000) } //nolint:gosec // bounded

func keyOf(trace, span []byte) (k assemble.Key) {
	copy(k.Trace[:], trace)
	copy(k.Span[:], span)
	return k
}

// newSpan converts a span. Its name and attributes become those of this library
// where the vocabulary knows them.
func (p *process) newSpan(src *tracepb.Span, scope string) *assemble.Span {
	s := &assemble.Span{
		Key:   keyOf(src.GetTraceId(), src.GetSpanId()),
		Start: micros(src.GetStartTimeUnixNano()), End: micros(src.GetEndTimeUnixNano()),
	}
	const remote = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	if id := src.GetParentSpanId(); len(id) > 0 && src.GetFlags()&remote != remote {
		s.Parent = keyOf(src.GetTraceId(), id)
	}
	known, found := vocabulary.Find(src.GetName())
	cat, event := known.Category, known.Event
	args := make([]dftracer.Arg, 0, len(src.GetAttributes())+4)
	for _, kv := range src.GetAttributes() {
		switch kv.GetKey() {
		case spans.AttrCategory:
			cat = kv.GetValue().GetStringValue()
		case spans.AttrName:
			event = kv.GetValue().GetStringValue()
		default:
			args = appendArg(args, kv, known.Span)
		}
	}
	if found && known.Span != src.GetName() {
		args = append(args, dftracer.String(argName, src.GetName()))
	}
	if known.Background {
		args = append(args, dftracer.Bool(argBackground, true))
	}
	s.Name = p.names.Find(scope, src.GetName(), cat, event)
	args = appendStatus(args, src.GetStatus())
	args = appendLinks(args, src)
	args = appendCount(args, argDroppedAttr, src.GetDroppedAttributesCount())
	args = appendCount(args, argDroppedEv, src.GetDroppedEventsCount())
	s.Args = args
	for _, ev := range src.GetEvents() {
		s.Events = append(s.Events, newEvent(ev.GetName(), ev.GetTimeUnixNano(), ev.GetAttributes()))
	}
	return s
}

// newEvent converts an event of a span.
func newEvent(name string, at uint64, attributes []*commonpb.KeyValue) assemble.Event {
	e := assemble.Event{Name: name, Time: int64(min(at, math.MaxInt64)), Args: make([]dftracer.Arg, 0, len(attributes))} //nolint:gosec // bounded
	for _, kv := range attributes {
		e.Args = append(e.Args, arg(kv.GetKey(), kv.GetValue()))
	}
	return e
}

// appendArg appends an attribute under the name that analyzers look for; what is
// there already keeps it.
func appendArg(dst []dftracer.Arg, kv *commonpb.KeyValue, span string) []dftracer.Arg {
	key := vocabulary.Argument(span, kv.GetKey())
	for i := range dst {
		if dst[i].Key == key {
			key = kv.GetKey()
			break
		}
	}
	return append(dst, arg(key, kv.GetValue()))
}

func arg(key string, v *commonpb.AnyValue) dftracer.Arg {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_IntValue:
		return dftracer.Int(key, v.IntValue)
	case *commonpb.AnyValue_StringValue:
		return dftracer.String(key, bounded(v.StringValue))
	case *commonpb.AnyValue_BoolValue:
		return dftracer.Bool(key, v.BoolValue)
	case *commonpb.AnyValue_DoubleValue:
		// Some languages have no integers.
		if n := int64(v.DoubleValue); (key == "step" || key == "epoch") && float64(n) == v.DoubleValue {
			return dftracer.Int(key, n)
		}
		return dftracer.Float(key, v.DoubleValue)
	case *commonpb.AnyValue_BytesValue:
		return dftracer.String(key, bounded(base64.StdEncoding.EncodeToString(v.BytesValue[:min(len(v.BytesValue), maxText)])))
	case nil:
		return dftracer.Raw(key, "null")
	}
	text, err := marshal(plain(v, 0))
	if err != nil || len(text) > maxText {
		return dftracer.String(key, bounded(text))
	}
	return dftracer.Raw(key, text)
}

// plain makes a value of package json's kinds.
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
		if math.IsNaN(v.DoubleValue) || math.IsInf(v.DoubleValue, 0) {
			return nil
		}
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
	switch st.GetCode() {
	case tracepb.Status_STATUS_CODE_ERROR:
		dst = append(dst, dftracer.String(argStatus, "ERROR"))
		if text := st.GetMessage(); text != "" {
			dst = append(dst, dftracer.String(argDescription, bounded(text)))
		}
	case tracepb.Status_STATUS_CODE_OK:
		dst = append(dst, dftracer.String(argStatus, "OK"))
	}
	return dst
}

func appendCount(dst []dftracer.Arg, key string, n uint32) []dftracer.Arg {
	if n == 0 {
		return dst
	}
	return append(dst, dftracer.Int(key, int64(n)))
}

type jsonLink struct {
	TraceID string `json:"trace_id"`
	SpanID  string `json:"span_id"`
}

func appendLinks(dst []dftracer.Arg, src *tracepb.Span) []dftracer.Arg {
	all := src.GetLinks()
	list := make([]jsonLink, 0, min(len(all), maxLinks))
	for _, l := range all[:min(len(all), maxLinks)] {
		list = append(list, jsonLink{hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId())})
	}
	if len(list) > 0 {
		if text, err := marshal(list); err == nil {
			dst = append(dst, dftracer.Raw(argLinks, text))
		}
	}
	return appendCount(dst, argDroppedLink, src.GetDroppedLinksCount()+uint32(len(all)-len(list))) //nolint:gosec // bounded by the request
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
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
