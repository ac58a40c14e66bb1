package outputs

import (
	"encoding/hex"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
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
	KindUpdate                    // an open span got other attributes
)

// String is the kind's word in the one-logger grammar, which has none for
// KindUpdate.
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
	}
	return "unknown"
}

// Record is one native record.
type Record struct {
	Kind Kind
	// Span is the span concerned as it is at this record; nil for
	// KindDataError. It never changes: a later record has another SpanData
	// with the same SpanID.
	Span *SpanData
	// Event is the start, stop, error or other event; empty for KindUpdate.
	Event Event
	// Extension marks a record that the reference never writes. Outputs in
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

// SpanData describes a span.
type SpanData struct {
	Name     string
	TraceID  trace.TraceID
	SpanID   trace.SpanID
	ParentID trace.SpanID // zero for a root
	Start    int64        // nanoseconds since the Unix epoch
	Stop     int64        // nanoseconds since the Unix epoch; zero while open

	// Attributes in the order in which they were first set.
	Attributes []attributes.Attr
	// StartAttributes are those of the start event.
	StartAttributes []attributes.Attr
}

// Duration is the length of a stopped span. It is never negative.
func (s *SpanData) Duration() time.Duration { return time.Duration(s.Stop - s.Start) }

// UUID is the span's identity as the reference spells identities: a version 4
// UUID. It holds all bits of the span id, so that spans of a process differ.
func (s *SpanData) UUID() string { return string(s.AppendUUID(nil)) }

// AppendUUID appends [SpanData.UUID] to dst.
func (s *SpanData) AppendUUID(dst []byte) []byte {
	var b [16]byte
	copy(b[:6], s.SpanID[:6])
	b[6] = 0x40 | s.TraceID[6]&0x0f
	b[7] = s.SpanID[6]
	b[8] = 0x80 | s.TraceID[8]&0x3f
	b[9] = s.SpanID[7]
	copy(b[10:], s.TraceID[10:])
	var t [36]byte
	hex.Encode(t[0:8], b[0:4])
	hex.Encode(t[9:13], b[4:6])
	hex.Encode(t[14:18], b[6:8])
	hex.Encode(t[19:23], b[8:10])
	hex.Encode(t[24:36], b[10:16])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return append(dst, t[:]...)
}
