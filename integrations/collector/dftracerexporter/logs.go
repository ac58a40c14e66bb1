package dftracerexporter

import (
	"encoding/hex"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/spans"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// Attributes of the log record that reports the start of a span. They do not
// become arguments of the record in the file.
const (
	logSpanName   = "span.name"
	logParentSpan = "parent_span_id"
)

// eventName returns the event name of a log record: its name, or the attribute
// that preceded that field. It is empty for ordinary logs.
func eventName(lr plog.LogRecord) string {
	if name := lr.EventName(); name != "" {
		return name
	}
	return text(lr.Attributes(), "event.name")
}

// isEvent reports whether a log record is an event of a span.
func isEvent(lr plog.LogRecord) bool {
	return !lr.SpanID().IsEmpty() && !lr.TraceID().IsEmpty() && eventName(lr) != ""
}

// timestamp returns the time of a record's event, or else the time at which it
// was observed.
func timestamp(lr plog.LogRecord) pcommon.Timestamp {
	if at := lr.Timestamp(); at != 0 {
		return at
	}
	return lr.ObservedTimestamp()
}

// addLog writes an event of a span that may still be open.
func (t *trace) addLog(scope string, lr plog.LogRecord) {
	at, key, name := timestamp(lr), keyOf(lr.TraceID(), lr.SpanID()), eventName(lr)
	if name == spans.EventSpanStart && t.begin(key, scope, at, lr.Attributes()) {
		return // the span has the same data
	}
	t.asm.AddEvent(key, t.newEvent(name, at, lr.Attributes(), lr.DroppedAttributesCount()))
}

// begin writes the start of a span, if the record identifies the span.
func (t *trace) begin(key place.Key, scope string, at pcommon.Timestamp, attrs pcommon.Map) bool {
	name := text(attrs, logSpanName)
	if name == "" {
		return false
	}
	var cat, event string
	var args []dftracer.Arg
	for key, v := range attrs.All() {
		switch key {
		case spans.AttrCategory:
			cat = v.AsString()
		case spans.AttrName:
			event = v.AsString()
		case logSpanName, logParentSpan, "event.name", "name", "value":
		default:
			if len(args) < t.cfg.limits().Attributes {
				args = append(args, arg(key, v))
			}
		}
	}
	var parent place.Key
	if id, ok := spanID(text(attrs, logParentSpan)); ok {
		parent = place.Key{Trace: key.Trace, Span: id}
	}
	t.asm.Begin(key, parent, t.names.Find(scope, name, cat, event), micros(at), args...)
	return true
}

func spanID(text string) (id pcommon.SpanID, ok bool) {
	n, err := hex.Decode(id[:], []byte(text)[:min(len(text), 2*len(id))])
	return id, err == nil && n == len(id) && len(text) == 2*len(id)
}
