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
	argTruncated   = "truncated"
	argTraceID     = "trace_id"
	argSpanID      = "span_id"
)

// statusError is the value of argStatus for what failed.
const statusError = "ERROR"

// stackText is how many bytes of arguments an event can have without an
// allocation.
const stackText = 384

// stackArgs is the same for records that are made of Args.
const stackArgs = 10

// maxLinks bounds the links of one span that are written.
const maxLinks = 32

// appendSpan appends what an ended span says: its attributes, status and links.
// Those that name the event are given apart.
func appendSpan(dst []byte, s sdktrace.ReadOnlySpan, attrs []attribute.KeyValue) (args []byte, cat, event string) {
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
	dst = appendStatus(dst, s.Status())
	links := s.Links()
	dst = appendLinks(dst, links)
	return appendDropped(dst, s, len(links)), cat, event
}

// appendArg appends one attribute.
func appendArg(dst []byte, kv *attribute.KeyValue) []byte {
	switch kv.Value.Type() {
	case attribute.INT64:
		return dftracer.AppendInt(dst, string(kv.Key), kv.Value.AsInt64())
	case attribute.STRING:
		return dftracer.AppendString(dst, string(kv.Key), kv.Value.AsString())
	}
	return dftracer.AppendArg(dst, argOf(kv))
}

// argOf converts one attribute.
func argOf(kv *attribute.KeyValue) dftracer.Arg {
	key := string(kv.Key)
	switch kv.Value.Type() {
	case attribute.INT64:
		return dftracer.Int(key, kv.Value.AsInt64())
	case attribute.STRING:
		return dftracer.String(key, kv.Value.AsString())
	case attribute.BOOL:
		return dftracer.Bool(key, kv.Value.AsBool())
	case attribute.FLOAT64:
		return dftracer.Float(key, kv.Value.AsFloat64())
	case attribute.EMPTY:
		return dftracer.Raw(key, "null")
	}
	return dftracer.Raw(key, compositeJSON(kv.Value))
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

// missingProgress is epoch and step, -1 where they are not known or among attrs.
func missingProgress(epoch, step int64, attrs []attribute.KeyValue) (int64, int64) {
	if epoch >= 0 && has(attrs, attributes.Epoch) {
		epoch = -1
	}
	if step >= 0 && has(attrs, attributes.Step) {
		step = -1
	}
	return epoch, step
}

// appendProgress appends epoch and step where they are known.
func appendProgress(dst []byte, epoch, step int64) []byte {
	if epoch >= 0 {
		dst = dftracer.AppendInt(dst, attributes.Epoch, epoch)
	}
	if step >= 0 {
		dst = dftracer.AppendInt(dst, attributes.Step, step)
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
		dst = append(dst, argOf(&attrs[i]))
	}
	return dst
}

// appendStatus adds an explicit status.
func appendStatus(dst []byte, st sdktrace.Status) []byte {
	switch st.Code {
	case codes.Error:
		dst = dftracer.AppendString(dst, argStatus, statusError)
		if st.Description != "" {
			dst = dftracer.AppendString(dst, argDescription, st.Description)
		}
	case codes.Ok:
		dst = dftracer.AppendString(dst, argStatus, "OK")
	}
	return dst
}

type jsonLink struct {
	TraceID    string         `json:"trace_id"`
	SpanID     string         `json:"span_id"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

// appendLinks adds the links as a JSON array.
func appendLinks(dst []byte, links []sdktrace.Link) []byte {
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
	return dftracer.AppendArg(dst, dftracer.Raw(argLinks, strings.TrimSuffix(b.String(), "\n")))
}

// appendDropped adds the counts of what the SDK left out of the span. Each
// question to an ended span copies all of it, so that those are left out whose
// answer is known: links are dropped only where some are kept.
func appendDropped(dst []byte, s sdktrace.ReadOnlySpan, links int) []byte {
	if n := s.DroppedAttributes(); n > 0 {
		dst = dftracer.AppendInt(dst, argDroppedAttr, int64(n))
	}
	if links == 0 {
		return dst
	}
	if n := s.DroppedLinks() + max(links-maxLinks, 0); n > 0 {
		dst = dftracer.AppendInt(dst, argDroppedLink, int64(n))
	}
	return dst
}

// appendIDs adds the ids of the span in OpenTelemetry.
func appendIDs(dst []byte, s sdktrace.ReadOnlySpan) []byte {
	sc := s.SpanContext()
	dst = dftracer.AppendString(dst, argTraceID, sc.TraceID().String())
	return dftracer.AppendString(dst, argSpanID, sc.SpanID().String())
}
