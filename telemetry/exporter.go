package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
)

// Exporter writes native records: the starts, events, errors and stops of
// spans, each at the moment it happens.
//
// The provider calls Start once, in ConfigureProvider, then Export for each
// record and Shutdown once at the end; it never makes two calls at a time. An
// error of Start makes ConfigureProvider fail. An error of Export counts as a
// failure: after five failures the exporter is not called again, except for
// Shutdown. Export must not call back into telemetry, and must not wait for a
// network.
//
// One that has a method Flush() error is flushed when the application ends, if
// it stays open until the provider's Shutdown ([Recorder.Close]). The last
// record may then be a telemetry data error that tells what backends did not
// get. One that sends over a network is a [Sender] too.
type Exporter interface {
	// Start opens the exporter's output.
	Start(ctx context.Context, id Identity) error
	// Export takes one record. The record is reused after the call: an
	// exporter that keeps parts of it copies them, except for Record.Span,
	// which it may keep until the span's stop record and read during Export
	// and Shutdown only.
	Export(r *Record) error
	// Shutdown writes what is held back and closes the output.
	Shutdown(ctx context.Context) error
}

// Kind is the kind of a [Record].
type Kind uint8

// The kinds of records.
const (
	KindStart     Kind = iota + 1 // a span began
	KindStop                      // a span ended
	KindEvent                     // something happened in an open span
	KindError                     // something failed in an open span
	KindDataError                 // telemetry itself is incomplete; no span
)

// String is the kind's word in the one-logger grammar.
func (k Kind) String() string {
	switch k {
	case KindStart:
		return "start"
	case KindStop:
		return "stop"
	case KindEvent:
		return "event"
	case KindError:
		return "application_error"
	case KindDataError:
		return "telemetry_data_error"
	}
	return "unknown"
}

// Record is one native record.
type Record struct {
	Kind Kind
	// Span is the span concerned; nil for KindDataError.
	Span *SpanData
	// Event is the start, stop, error or other event.
	Event Event
	// Segment identifies the segment of Span that span exporters have open,
	// where a long span was cut: later spans hang there. It is zero for other
	// spans, and at the start and stop of a span.
	Segment trace.SpanContext
	// Extension marks a record that the reference never writes. Exporters in
	// compatibility mode leave it out.
	Extension bool
}

// Event is a moment in a span's life.
type Event struct {
	Name string
	Time int64 // nanoseconds since the Unix epoch
	// Attributes in the order given, without the timestamp.
	Attributes []attributes.Attr
}

// SpanData describes a span to native exporters.
type SpanData struct {
	Name     string
	TraceID  trace.TraceID
	SpanID   trace.SpanID
	ParentID trace.SpanID // zero for a root
	Start    int64        // nanoseconds since the Unix epoch
	Stop     int64        // nanoseconds since the Unix epoch; zero while open

	// Attributes in the order in which they were first set. They grow while
	// the span is open.
	Attributes []attributes.Attr
	// StartAttributes are those of the start event.
	StartAttributes []attributes.Attr
}

// Duration is the length of a stopped span. It is never negative.
func (s *SpanData) Duration() time.Duration { return time.Duration(s.Stop - s.Start) }

// upsert sets an attribute. A known key keeps its place.
func upsert(attrs []attributes.Attr, a attributes.Attr) []attributes.Attr {
	for i := range attrs {
		if attrs[i].Key == a.Key {
			attrs[i] = a
			return attrs
		}
	}
	return append(attrs, a)
}
