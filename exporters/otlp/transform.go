package otlp

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// transform makes protocol messages of spans, grouped by resource and scope in
// the order in which these come first. Text that is not UTF-8 is mended: one
// bad character would lose the whole request.
func transform(batch []sdktrace.ReadOnlySpan) []*tracepb.ResourceSpans {
	type scopeKey struct {
		resource attribute.Distinct
		scope    instrumentation.Scope
	}
	var out []*tracepb.ResourceSpans
	resources := make(map[attribute.Distinct]*tracepb.ResourceSpans, 1)
	scopes := make(map[scopeKey]*tracepb.ScopeSpans, 1)
	for _, s := range batch {
		if s == nil {
			continue
		}
		key := scopeKey{s.Resource().Equivalent(), s.InstrumentationScope()}
		group, ok := scopes[key]
		if !ok {
			rs, known := resources[key.resource]
			if !known {
				rs = &tracepb.ResourceSpans{Resource: resourceOf(s.Resource()), SchemaUrl: valid(s.Resource().SchemaURL())}
				resources[key.resource] = rs
				out = append(out, rs)
			}
			group = &tracepb.ScopeSpans{Scope: scopeOf(key.scope), SchemaUrl: valid(key.scope.SchemaURL)}
			scopes[key] = group
			rs.ScopeSpans = append(rs.ScopeSpans, group)
		}
		group.Spans = append(group.Spans, spanOf(s))
	}
	return out
}

func resourceOf(r *resource.Resource) *resourcepb.Resource {
	if r == nil {
		return nil
	}
	return &resourcepb.Resource{Attributes: attributesOf(r.Attributes())}
}

func scopeOf(s instrumentation.Scope) *commonpb.InstrumentationScope {
	if s == (instrumentation.Scope{}) {
		return nil
	}
	return &commonpb.InstrumentationScope{
		Name:       valid(s.Name),
		Version:    valid(s.Version),
		Attributes: attributesOf(s.Attributes.ToSlice()),
	}
}

func spanOf(s sdktrace.ReadOnlySpan) *tracepb.Span {
	context, parent := s.SpanContext(), s.Parent()
	traceID, spanID := context.TraceID(), context.SpanID()
	out := &tracepb.Span{
		TraceId:                traceID[:],
		SpanId:                 spanID[:],
		TraceState:             context.TraceState().String(),
		Flags:                  flags(context, parent),
		Name:                   valid(s.Name()),
		Kind:                   kindOf(s.SpanKind()),
		StartTimeUnixNano:      unixNano(s.StartTime()),
		EndTimeUnixNano:        unixNano(s.EndTime()),
		Attributes:             attributesOf(s.Attributes()),
		DroppedAttributesCount: count(s.DroppedAttributes()),
		Events:                 eventsOf(s.Events()),
		DroppedEventsCount:     count(s.DroppedEvents()),
		Links:                  linksOf(s.Links()),
		DroppedLinksCount:      count(s.DroppedLinks()),
		Status:                 statusOf(s.Status()),
	}
	if id := parent.SpanID(); id.IsValid() {
		out.ParentSpanId = id[:]
	}
	return out
}

func eventsOf(events []sdktrace.Event) []*tracepb.Span_Event {
	if len(events) == 0 {
		return nil
	}
	out := make([]*tracepb.Span_Event, len(events))
	for i, e := range events {
		out[i] = &tracepb.Span_Event{
			TimeUnixNano:           unixNano(e.Time),
			Name:                   valid(e.Name),
			Attributes:             attributesOf(e.Attributes),
			DroppedAttributesCount: count(e.DroppedAttributeCount),
		}
	}
	return out
}

func linksOf(links []sdktrace.Link) []*tracepb.Span_Link {
	if len(links) == 0 {
		return nil
	}
	out := make([]*tracepb.Span_Link, len(links))
	for i, l := range links {
		traceID, spanID := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		out[i] = &tracepb.Span_Link{
			TraceId:                traceID[:],
			SpanId:                 spanID[:],
			TraceState:             l.SpanContext.TraceState().String(),
			Flags:                  flags(l.SpanContext, l.SpanContext),
			Attributes:             attributesOf(l.Attributes),
			DroppedAttributesCount: count(l.DroppedAttributeCount),
		}
	}
	return out
}

func statusOf(s sdktrace.Status) *tracepb.Status {
	out := &tracepb.Status{Message: valid(s.Description)}
	switch s.Code {
	case codes.Ok:
		out.Code = tracepb.Status_STATUS_CODE_OK
	case codes.Error:
		out.Code = tracepb.Status_STATUS_CODE_ERROR
	}
	return out
}

func kindOf(k trace.SpanKind) tracepb.Span_SpanKind {
	switch k {
	case trace.SpanKindInternal:
		return tracepb.Span_SPAN_KIND_INTERNAL
	case trace.SpanKindServer:
		return tracepb.Span_SPAN_KIND_SERVER
	case trace.SpanKindClient:
		return tracepb.Span_SPAN_KIND_CLIENT
	case trace.SpanKindProducer:
		return tracepb.Span_SPAN_KIND_PRODUCER
	case trace.SpanKindConsumer:
		return tracepb.Span_SPAN_KIND_CONSUMER
	}
	return tracepb.Span_SPAN_KIND_UNSPECIFIED
}

// flags are the W3C flags of a span, and whether its parent, or a link's
// target, is known to be in another process.
func flags(c, remote trace.SpanContext) uint32 {
	f := uint32(c.TraceFlags()) | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if remote.IsRemote() {
		f |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return f
}

func attributesOf(attrs []attribute.KeyValue) []*commonpb.KeyValue {
	if len(attrs) == 0 {
		return nil
	}
	out := make([]*commonpb.KeyValue, len(attrs))
	for i, kv := range attrs {
		out[i] = &commonpb.KeyValue{Key: valid(string(kv.Key)), Value: valueOf(kv.Value)}
	}
	return out
}

func valueOf(v attribute.Value) *commonpb.AnyValue {
	switch v.Type() {
	case attribute.BOOL:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.AsBool()}}
	case attribute.INT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v.AsInt64()}}
	case attribute.FLOAT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v.AsFloat64()}}
	case attribute.STRING:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: valid(v.AsString())}}
	case attribute.BYTESLICE:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: v.AsByteSlice()}}
	case attribute.BOOLSLICE:
		return listOf(v.AsBoolSlice(), attribute.BoolValue)
	case attribute.INT64SLICE:
		return listOf(v.AsInt64Slice(), attribute.Int64Value)
	case attribute.FLOAT64SLICE:
		return listOf(v.AsFloat64Slice(), attribute.Float64Value)
	case attribute.STRINGSLICE:
		return listOf(v.AsStringSlice(), attribute.StringValue)
	case attribute.SLICE:
		return listOf(v.AsSlice(), func(v attribute.Value) attribute.Value { return v })
	case attribute.MAP:
		list := &commonpb.KeyValueList{Values: attributesOf(v.AsMap())}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: list}}
	}
	return &commonpb.AnyValue{}
}

func listOf[T any](items []T, value func(T) attribute.Value) *commonpb.AnyValue {
	list := &commonpb.ArrayValue{Values: make([]*commonpb.AnyValue, len(items))}
	for i, item := range items {
		list.Values[i] = valueOf(value(item))
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
}

func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "�")
}

func unixNano(t time.Time) uint64 {
	if t.IsZero() { // its nanoseconds are not defined
		return 0
	}
	return uint64(max(0, t.UnixNano()))
}

func count(n int) uint32 { return uint32(min(max(0, int64(n)), math.MaxUint32)) }
