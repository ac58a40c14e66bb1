package outputs

import (
	"context"

	"github.com/trainspan/trainspan/attributes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Kind is the kind of a [Record].
type Kind uint8

// The kinds of records.
const (
	KindStart     Kind = iota + 1 // a span began
	KindStop                      // a span ended
	KindEvent                     // something happened in an open span
	KindError                     // something failed in an open span
	KindDataError                 // telemetry itself is incomplete; no span
	KindUpdate                    // the attributes of an open span changed
	KindLosses                    // the final losses of the remote outputs; no span
)

// String returns the kind in one-logger's words, which has none for KindUpdate
// and KindLosses.
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
	case KindUpdate:
		return "update"
	case KindLosses:
		return "losses"
	}
	return "unknown"
}

// Record is one event in the life of a span.
type Record struct {
	Kind Kind
	// Span is the state of the span at this record; nil for KindDataError,
	// KindLosses and a Snapshot. It never changes: a later record has another
	// SpanData with the same SpanID.
	Span *SpanData
	// Snapshot is the span as the OpenTelemetry SDK has it, for [Traits].Snapshots.
	// Its kinds are KindStart, for which it is also an sdktrace.ReadWriteSpan,
	// KindEvent and KindStop. Event is set for KindEvent.
	Snapshot sdktrace.ReadOnlySpan
	// Context is the context with which the span of a Snapshot is started; nil
	// after the start.
	Context context.Context
	// Event is the start, stop, error or other event; empty for KindUpdate. The
	// attributes of KindLosses are counts by kind and cause: spans by the cause
	// alone, "logs <cause>" for log records, "metric exports".
	Event Event
	// Extension marks a record that one-logger never writes. Outputs in
	// compatibility mode leave it out.
	Extension bool
}

// Event is a moment in a span's life.
type Event struct {
	Name string
	Time int64 // nanoseconds since the Unix epoch
	// Attributes are in the order in which they were set, without the timestamp.
	Attributes []attributes.Attr
}

// SpanData describes a span.
type SpanData struct {
	Name     string
	TraceID  trace.TraceID
	SpanID   trace.SpanID
	ParentID trace.SpanID // zero for a root
	Start    int64        // nanoseconds since the Unix epoch
	Stop     int64        // nanoseconds since the Unix epoch; zero while open

	// Attributes are in the order in which they were first set.
	Attributes []attributes.Attr
	// StartAttributes are the attributes of the start event.
	StartAttributes []attributes.Attr
}
