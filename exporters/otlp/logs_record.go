package otlp

import (
	"context"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	otellog "go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"
)

// Attributes of a log record that identify its span.
const (
	logSpanName   = "span.name"
	logParentSpan = "parent_span_id"
	logSegmentOf  = "segment.of" // the first segment of a span with segments
)

// wanted reports whether a record is sent: every event and error, and the start
// of long spans. Short spans, and stops, need no record: the span follows soon.
func wanted(r *outputs.Record) bool {
	switch r.Kind {
	case outputs.KindEvent, outputs.KindError, outputs.KindDataError:
		return true
	case outputs.KindStart:
		i := spans.Index(r.Span.Name)
		return i >= 0 && spans.At(i).Long
	}
	return false
}

// logRecord converts a native record to an event of the Logs API. The context
// has the event's trace and span; in is the current segment of a span with
// segments, otherwise invalid.
func logRecord(r *outputs.Record, in trace.SpanContext) (context.Context, otellog.Record) {
	var out otellog.Record
	name, _ := attrvalue.CleanString(r.Event.Name)
	out.SetEventName(name)
	out.SetTimestamp(time.Unix(0, r.Event.Time))
	severity, body := severityOf(r.Kind), name
	out.SetSeverity(severity)
	out.SetSeverityText(severity.String())

	ctx := context.Background()
	kvs := make([]attribute.KeyValue, 0, 2+len(r.Event.Attributes))
	if s := r.Span; s != nil {
		span, _ := attrvalue.CleanString(s.Name)
		body = span + " " + name
		kvs = append(kvs, attribute.String(logSpanName, span))
		switch {
		case in.IsValid(): // the span continues in that segment, perhaps in another trace
			kvs = append(kvs, attribute.String(logSegmentOf, s.SpanID.String()))
		case s.ParentID.IsValid():
			kvs = append(kvs, attribute.String(logParentSpan, s.ParentID.String()))
		}
		if !in.IsValid() {
			in = trace.NewSpanContext(trace.SpanContextConfig{TraceID: s.TraceID, SpanID: s.SpanID, TraceFlags: trace.FlagsSampled})
		}
		if r.Kind == outputs.KindStart { // nothing else shows the attributes before the end
			kvs = appendClean(kvs, s.Attributes)
		}
		ctx = trace.ContextWithSpanContext(ctx, in)
	}
	kvs = appendClean(kvs, r.Event.Attributes)
	for i := range r.Event.Attributes {
		if a := &r.Event.Attributes[i]; a.Key == onelogger.ErrorMessage && a.Value.Type() == attribute.STRING {
			body, _ = attrvalue.CleanString(a.Value.AsString())
		}
	}
	out.SetBody(attribute.StringValue(body))
	out.AddAttributes(kvs...)
	return ctx, out
}

// appendClean appends attributes without invalid text, because one invalid
// character would lose the whole request.
func appendClean(dst []attribute.KeyValue, attrs []attributes.Attr) []attribute.KeyValue {
	for i := range attrs {
		kv, _ := attrvalue.CleanKeyValue(attrs[i].KeyValue)
		dst = append(dst, kv)
	}
	return dst
}

func severityOf(k outputs.Kind) otellog.Severity {
	switch k {
	case outputs.KindError:
		return otellog.SeverityError
	case outputs.KindDataError:
		return otellog.SeverityWarn
	}
	return otellog.SeverityInfo
}

// Estimated bytes of a record and of an attribute, without their text.
const (
	recordBytes    = 256
	attributeBytes = 64
)

// sizeOf estimates the memory of a record.
func sizeOf(r *otellog.Record) int {
	n := recordBytes + len(r.EventName()) + len(r.Body().AsString())
	r.WalkAttributes(func(kv attribute.KeyValue) bool {
		n += attributeBytes + len(kv.Key)
		switch kv.Value.Type() {
		case attribute.STRING:
			n += len(kv.Value.AsString())
		case attribute.BOOL, attribute.INT64, attribute.FLOAT64, attribute.EMPTY:
		default: // lists are rare
			n += len(kv.Value.String())
		}
		return true
	})
	return n
}
