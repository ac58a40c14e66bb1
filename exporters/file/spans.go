package file

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

var (
	_ sdktrace.SpanExporter = (*Exporter)(nil)
	_ outputs.Output        = (*Exporter)(nil)
)

// ExportSpans implements sdktrace.SpanExporter, for a program that has an SDK of its own
// and no telemetry. The first spans open the file, for the rank and attempt that the
// launcher's environment variables name; an error in doing so is that of every
// ExportSpans. Spans are written as the records that telemetry would have made of them,
// those of one batch in the order of their times. It waits for the file as
// [Exporter.Write] does. After [Exporter.Shutdown] it does nothing.
func (e *Exporter) ExportSpans(_ context.Context, batch []sdktrace.ReadOnlySpan) error {
	if len(batch) == 0 {
		return nil
	}
	e.export.Lock()
	defer e.export.Unlock()
	e.mu.Lock()
	unused, open := !e.started && !e.closed, e.open
	e.mu.Unlock()
	if unused && e.failed == nil {
		e.failed = e.openAlone()
		open = e.failed == nil
	}
	if !open {
		return e.failed
	}
	return e.Write(recordsOf(batch))
}

// openAlone opens the file of a program without telemetry.
func (e *Exporter) openAlone() error {
	ranks, err := settings.Ranks(config.Ranks{}, os.LookupEnv)
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	base := new(config.Base).WithDefaults(ranks)
	return e.start(&outputs.Telemetry{Identity: settings.Identity(outputs.Identity{}, &base, ranks)})
}

// recordsOf returns the records of spans in the order of their times. Spans of a batch
// come in the order of their ends.
func recordsOf(batch []sdktrace.ReadOnlySpan) []outputs.Record {
	batch = slices.Clone(batch)
	slices.Reverse(batch)
	slices.SortStableFunc(batch, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	records := make([]outputs.Record, 0, 2*len(batch))
	stops := make([]outputs.Record, 0, len(batch))
	for _, s := range batch { // at one moment spans begin before others in them, and end after them
		var stop outputs.Record
		records, stop = appendRecords(records, s)
		stops = append(stops, stop)
	}
	slices.Reverse(stops)
	records = append(records, stops...)
	slices.SortStableFunc(records, func(a, b outputs.Record) int { return cmp.Compare(a.Event.Time, b.Event.Time) })
	return records
}

// appendRecords appends the start, the events and the error of a span, and returns its
// stop.
func appendRecords(dst []outputs.Record, s sdktrace.ReadOnlySpan) (records []outputs.Record, stop outputs.Record) {
	sc := s.SpanContext()
	start, end := s.StartTime().UnixNano(), s.EndTime().UnixNano()
	open := &outputs.SpanData{
		Name: s.Name(), TraceID: sc.TraceID(), SpanID: sc.SpanID(), ParentID: s.Parent().SpanID(),
		Start: start, Attributes: attributes.From(s.Attributes()...),
	}
	ended := *open
	ended.Stop = max(start, end)
	ended.Attributes = slices.DeleteFunc(slices.Clone(open.Attributes), func(a attributes.Attr) bool { return a.Key == onelogger.DurationMsec })
	ended.Attributes = append(ended.Attributes, attrvalue.Int(onelogger.DurationMsec, (ended.Stop-start)/1e6))
	ended.Attributes = appendDropped(ended.Attributes, s)

	dst = append(dst, outputs.Record{Kind: outputs.KindStart, Span: open, Event: outputs.Event{Name: spans.EventSpanStart, Time: start}})
	failed := false
	for _, ev := range s.Events() {
		r := outputs.Record{Kind: outputs.KindEvent, Span: open, Event: outputs.Event{
			Name: ev.Name, Time: min(max(ev.Time.UnixNano(), start), ended.Stop), Attributes: attributes.From(ev.Attributes...),
		}}
		if ev.Name == "exception" {
			failed = true
			r.Kind, r.Event.Name = outputs.KindError, spans.EventError
			r.Event.Attributes = exception(ev.Attributes)
		}
		dst = append(dst, r)
	}
	if st := s.Status(); st.Code == codes.Error && !failed {
		dst = append(dst, outputs.Record{Kind: outputs.KindError, Span: open, Event: outputs.Event{
			Name: spans.EventError, Time: ended.Stop, Attributes: []attributes.Attr{attrvalue.String(onelogger.ErrorMessage, failure.Clean(st.Description))},
		}})
	}
	return dst, outputs.Record{Kind: outputs.KindStop, Span: &ended, Event: outputs.Event{Name: spans.EventSpanStop, Time: ended.Stop}}
}

// exception returns the attributes of an exception event of OpenTelemetry under the keys
// of an error.
func exception(kvs []attribute.KeyValue) (attrs []attributes.Attr) {
	var message string
	for _, kv := range kvs {
		switch kv.Key {
		case "exception.type":
			kv.Key = onelogger.ExceptionType
		case "exception.message":
			message = failure.Clean(kv.Value.String())
			kv.Key, kv.Value = onelogger.ExceptionMessage, attribute.StringValue(message)
		case "exception.stacktrace":
			kv.Key, kv.Value = onelogger.ExceptionTraceback, attribute.StringValue(failure.Clean(kv.Value.String()))
		}
		attrs = append(attrs, attributes.From(kv)...)
	}
	return append([]attributes.Attr{attrvalue.String(onelogger.ErrorMessage, message)}, attrs...)
}

// appendDropped appends what the SDK left out of a span, under the names that the
// OpenTelemetry specification has for formats without such fields.
func appendDropped(dst []attributes.Attr, s sdktrace.ReadOnlySpan) []attributes.Attr {
	for _, left := range [...]struct {
		key string
		n   int
	}{{"otel.dropped_attributes_count", s.DroppedAttributes()}, {"otel.dropped_events_count", s.DroppedEvents()}} {
		if left.n > 0 {
			dst = append(dst, attrvalue.Int(left.key, int64(left.n)))
		}
	}
	return dst
}
