package pfw

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
)

// Arguments beside a span's attributes. The names with "otel." are those that
// the OpenTelemetry specification gives for formats without such fields.
const (
	argCount       = "count"
	argStatus      = "otel.status_code"
	argDescription = "otel.status_description"
	argLinks       = "otel.links"
	argDroppedAttr = "otel.dropped_attributes_count"
	argDroppedLink = "otel.dropped_links_count"
	argDroppedEv   = "otel.dropped_events_count"
	argTruncated   = attributes.Truncated
	argTraceID     = "trace_id"
	argSpanID      = "span_id"
)

// statusError is the value of argStatus for what failed.
const statusError = "ERROR"

// stackArgs is how many arguments an event can have without an allocation.
const stackArgs = 10

// maxLinks bounds the links of one span that are written.
const maxLinks = 32

// appendSpan appends what an ended span says: its attributes, status and links.
// Those that name the event are given apart.
func appendSpan(dst []dftracer.Arg, s sdktrace.ReadOnlySpan, attrs []attribute.KeyValue) (args []dftracer.Arg, cat, event string) {
	for i := range attrs {
		switch kv := &attrs[i]; kv.Key {
		case AttrCategory:
			cat = kv.Value.AsString()
		case AttrName:
			event = kv.Value.AsString()
		default:
			dst = appendArg(dst, kv)
		}
	}
	links := s.Links()
	dst = appendLinks(appendStatus(dst, s.Status()), links)
	return appendDropped(dst, s, len(links)), cat, event
}

// appendArg converts one attribute.
func appendArg(dst []dftracer.Arg, kv *attribute.KeyValue) []dftracer.Arg {
	key := string(kv.Key)
	switch kv.Value.Type() {
	case attribute.INT64:
		return append(dst, dftracer.Int(key, kv.Value.AsInt64()))
	case attribute.STRING:
		return append(dst, dftracer.String(key, kv.Value.AsString()))
	case attribute.BOOL:
		return append(dst, dftracer.Bool(key, kv.Value.AsBool()))
	case attribute.FLOAT64:
		return append(dst, dftracer.Float(key, kv.Value.AsFloat64()))
	case attribute.EMPTY:
		return append(dst, dftracer.Raw(key, "null"))
	}
	return append(dst, dftracer.Raw(key, compositeJSON(kv.Value)))
}

// compositeJSON is the JSON text of a value with parts. Values that JSON
// cannot hold make it a text, which the writer then quotes.
func compositeJSON(v attribute.Value) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v.AsInterface()); err != nil || b.Len() == 0 {
		return v.String()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// appendProgress adds epoch and step unless attrs has them.
func appendProgress(dst []dftracer.Arg, epoch, step int64, attrs []attribute.KeyValue) []dftracer.Arg {
	if epoch >= 0 && !has(attrs, attributes.Epoch) {
		dst = append(dst, dftracer.Int(attributes.Epoch, epoch))
	}
	if step >= 0 && !has(attrs, attributes.Step) {
		dst = append(dst, dftracer.Int(attributes.Step, step))
	}
	return dst
}

func has(attrs []attribute.KeyValue, key attribute.Key) bool {
	for i := range attrs {
		if attrs[i].Key == key {
			return true
		}
	}
	return false
}

// appendAttrs adds the attributes that are not names.
func appendAttrs(dst []dftracer.Arg, attrs []attribute.KeyValue) []dftracer.Arg {
	for i := range attrs {
		if k := attrs[i].Key; k == AttrCategory || k == AttrName {
			continue
		}
		dst = appendArg(dst, &attrs[i])
	}
	return dst
}

// appendStatus adds an explicit status.
func appendStatus(dst []dftracer.Arg, st sdktrace.Status) []dftracer.Arg {
	switch st.Code {
	case codes.Error:
		dst = append(dst, dftracer.String(argStatus, statusError))
		if st.Description != "" {
			dst = append(dst, dftracer.String(argDescription, st.Description))
		}
	case codes.Ok:
		dst = append(dst, dftracer.String(argStatus, "OK"))
	}
	return dst
}

type jsonLink struct {
	TraceID    string         `json:"trace_id"`
	SpanID     string         `json:"span_id"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

// appendLinks adds the links as a JSON array.
func appendLinks(dst []dftracer.Arg, links []sdktrace.Link) []dftracer.Arg {
	if len(links) == 0 {
		return dst
	}
	list := make([]jsonLink, 0, min(len(links), maxLinks))
	for i := range links[:min(len(links), maxLinks)] {
		l := &links[i]
		j := jsonLink{TraceID: l.SpanContext.TraceID().String(), SpanID: l.SpanContext.SpanID().String()}
		for _, kv := range l.Attributes {
			if j.Attributes == nil {
				j.Attributes = make(map[string]any, len(l.Attributes))
			}
			j.Attributes[string(kv.Key)] = kv.Value.AsInterface()
		}
		list = append(list, j)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(list); err != nil { // a NaN among the attributes
		for i := range list {
			list[i].Attributes = nil
		}
		b.Reset()
		_ = enc.Encode(list)
	}
	return append(dst, dftracer.Raw(argLinks, strings.TrimSuffix(b.String(), "\n")))
}

// appendDropped adds the counts of what the SDK left out of the span.
func appendDropped(dst []dftracer.Arg, s sdktrace.ReadOnlySpan, links int) []dftracer.Arg {
	if n := s.DroppedAttributes(); n > 0 {
		dst = append(dst, dftracer.Int(argDroppedAttr, int64(n)))
	}
	if n := s.DroppedLinks() + max(links-maxLinks, 0); n > 0 {
		dst = append(dst, dftracer.Int(argDroppedLink, int64(n)))
	}
	return dst
}

// appendIDs adds the ids of the span in OpenTelemetry.
func appendIDs(dst []dftracer.Arg, s sdktrace.ReadOnlySpan) []dftracer.Arg {
	sc := s.SpanContext()
	return append(dst,
		dftracer.String(argTraceID, sc.TraceID().String()), dftracer.String(argSpanID, sc.SpanID().String()))
}

// distinct renames the attributes of a span, which begin at args[from:], whose
// keys are those of arguments that follow them: trace_id becomes user_trace_id.
func distinct(args []dftracer.Arg, from int, attrs []attribute.KeyValue) {
	to := from + len(attrs)
	for i := range attrs {
		if k := attrs[i].Key; k == AttrCategory || k == AttrName {
			to--
		}
	}
	if to < len(args) {
		dftracer.Distinct(args, from, to, "user_")
	}
}
