package pfw

import (
	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/spans"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Names of arguments that are neither span attributes nor defined in package place.
const (
	argCount     = "count"
	argTruncated = attributes.Truncated
	argTraceID   = "trace_id"
	argSpanID    = "span_id"
)

// The encoded beginnings of arguments.
const (
	textEpoch     = `,"` + attributes.Epoch + `":`
	textStep      = `,"` + attributes.Step + `":`
	textCount     = `,"` + argCount + `":`
	textTruncated = `,"` + argTruncated + `":`
	textTraceID   = `,"` + argTraceID + `":`
	textSpanID    = `,"` + argSpanID + `":`
)

// stackText is the number of bytes of arguments that need no allocation.
const stackText = 384

// stackArgs is the number of arguments that need no allocation.
const stackArgs = 10

// maxLinks bounds the links of one span that are written.
const maxLinks = 32

// appendSpan appends the arguments of an ended span: epoch and step (-1 if unknown), its
// attributes, status and links. It also returns the span's category and name.
func (d *traceWriter) appendSpan(dst []dftracer.Arg, s sdktrace.ReadOnlySpan, epoch, step int64, truncated bool) (args []dftracer.Arg, key *dftracer.Key) {
	attrs, first := s.Attributes(), len(dst)
	dst = appendProgress(dst, epoch, step, attrs)
	from := len(dst)
	var cat, event string
	for i := range attrs {
		switch kv := &attrs[i]; kv.Key {
		case spans.AttrCategory:
			cat = kv.Value.AsString()
		case spans.AttrName:
			event = kv.Value.AsString()
		default:
			dst = appendArg(dst, kv)
		}
	}
	to, links := len(dst), s.Links()
	dst = appendDropped(appendLinks(appendStatus(dst, s.Status()), links), s, len(links))
	if truncated && !has(attrs, argTruncated) {
		dst = append(dst, dftracer.Int(argTruncated, 1))
	}
	if d.opts.TraceIDs {
		sc := s.SpanContext()
		dst = append(dst, dftracer.String(argTraceID, sc.TraceID().String()), dftracer.String(argSpanID, sc.SpanID().String()))
	}
	if to < len(dst) { // an attribute trace_id becomes user_trace_id
		tracefile.Distinct(dst[first:], from-first, to-first, "user_")
	}
	return dst, d.key(s, cat, event)
}

// appendInt appends text, the encoded name of an argument, and an integer.
func appendInt(dst []byte, text string, v int64) []byte {
	return jsontext.AppendInt(append(dst, text...), v)
}

// appendString appends text, the encoded name of an argument, and a string.
func appendString(dst []byte, text, v string) []byte {
	return jsontext.AppendString(append(dst, text...), v)
}

// missingProgress returns epoch and step, each -1 if it is unknown or attrs already
// contains it.
func missingProgress(epoch, step int64, attrs []attribute.KeyValue) (int64, int64) {
	if epoch >= 0 && has(attrs, attributes.Epoch) {
		epoch = -1
	}
	if step >= 0 && has(attrs, attributes.Step) {
		step = -1
	}
	return epoch, step
}

// appendProgressText appends epoch and step if they are known.
func appendProgressText(dst []byte, epoch, step int64) []byte {
	if epoch >= 0 {
		dst = appendInt(dst, textEpoch, epoch)
	}
	if step >= 0 {
		dst = appendInt(dst, textStep, step)
	}
	return dst
}

// appendArg appends one attribute as an argument.
func appendArg(dst []dftracer.Arg, kv *attribute.KeyValue) []dftracer.Arg {
	key := string(kv.Key)
	switch kv.Value.Type() {
	case attribute.INT64:
		return append(dst, dftracer.Int(key, kv.Value.AsInt64()))
	case attribute.STRING:
		return append(dst, place.Progress(dftracer.String(key, kv.Value.AsString())))
	case attribute.BOOL:
		return append(dst, dftracer.Bool(key, kv.Value.AsBool()))
	case attribute.FLOAT64:
		return append(dst, place.Progress(dftracer.Float(key, kv.Value.AsFloat64())))
	case attribute.EMPTY:
		return append(dst, dftracer.Raw(key, "null"))
	}
	return append(dst, dftracer.Raw(key, tracefile.JSON(kv.Value.AsInterface())))
}

// appendEventArg is appendArg for an event of the program: the texts of an exception may
// have secrets.
func appendEventArg(dst []dftracer.Arg, kv *attribute.KeyValue) []dftracer.Arg {
	if kv.Key == "exception.message" || kv.Key == "exception.stacktrace" {
		return append(dst, dftracer.String(string(kv.Key), failure.Clean(kv.Value.String())))
	}
	return appendArg(dst, kv)
}

// appendProgress appends epoch and step unless they are unknown or attrs contains them.
func appendProgress(dst []dftracer.Arg, epoch, step int64, attrs []attribute.KeyValue) []dftracer.Arg {
	epoch, step = missingProgress(epoch, step, attrs)
	if epoch >= 0 {
		dst = append(dst, dftracer.Int(attributes.Epoch, epoch))
	}
	if step >= 0 {
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

// appendAttrs appends all attributes except spans.AttrCategory and spans.AttrName.
func appendAttrs(dst []dftracer.Arg, attrs []attribute.KeyValue) []dftracer.Arg {
	for i := range attrs {
		if k := attrs[i].Key; k == spans.AttrCategory || k == spans.AttrName {
			continue
		}
		dst = appendArg(dst, &attrs[i])
	}
	return dst
}

// appendStatus appends the status if the program has set one.
func appendStatus(dst []dftracer.Arg, st sdktrace.Status) []dftracer.Arg {
	failed := st.Code == codes.Error
	if failed {
		st.Description = failure.Clean(st.Description)
	}
	return place.AppendStatus(dst, failed, st.Code == codes.Ok, st.Description)
}

// appendLinks appends at most maxLinks links.
func appendLinks(dst []dftracer.Arg, links []sdktrace.Link) []dftracer.Arg {
	dst, _ = place.AppendLinks(dst, len(links), maxLinks, func(i int) place.Link {
		l := &links[i]
		link := place.Link{TraceID: l.SpanContext.TraceID().String(), SpanID: l.SpanContext.SpanID().String()}
		for _, kv := range l.Attributes {
			if link.Attributes == nil {
				link.Attributes = make(map[string]any, len(l.Attributes))
			}
			link.Attributes[string(kv.Key)] = kv.Value.AsInterface()
		}
		return link
	})
	return dst
}

// appendDropped appends the counts of what the SDK dropped from the span. Each method of
// an ended span copies the whole span, so it does not ask for dropped links if there are
// none: links are dropped only if some are kept.
func appendDropped(dst []dftracer.Arg, s sdktrace.ReadOnlySpan, links int) []dftracer.Arg {
	if n := s.DroppedAttributes(); n > 0 {
		dst = append(dst, dftracer.Int(place.ArgDroppedAttributes, int64(n)))
	}
	if links == 0 {
		return dst
	}
	if n := s.DroppedLinks() + max(links-maxLinks, 0); n > 0 {
		dst = append(dst, dftracer.Int(place.ArgDroppedLinks, int64(n)))
	}
	return dst
}
