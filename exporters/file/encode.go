package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/internal/tracefile/pytext"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// encoder writes records in one of the two styles.
type encoder struct {
	compat bool
	count  int64

	process, place []byte // the pid; rank and attempt; as the records have them
	job, tag       string // in heartbeats

	// Neighbouring spans have the same trace and often the same parent.
	trace  recent[trace.TraceID]
	parent recent[trace.SpanID]
}

// newEncoder returns the encoder of a process.
func newEncoder(id outputs.Identity, compat bool) encoder {
	e := encoder{compat: compat, job: id.Job, tag: id.SessionTag}
	e.process = jsontext.AppendInt([]byte(`,"pid":`), int64(id.PID))
	e.place = jsontext.AppendInt([]byte(`,"rank":`), int64(id.Rank.Or(0)))
	if id.Attempt.IsSet() {
		e.place = jsontext.AppendInt(append(e.place, `,"attempt":`...), int64(id.Attempt.Get()))
	}
	return e
}

// recent is the last id of its kind, and its text.
type recent[T comparable] struct {
	id   T
	text []byte
}

// append appends an id in hexadecimal. bytes are those of the id.
func (r *recent[T]) append(dst []byte, id T, bytes []byte) []byte {
	if r.text == nil || r.id != id {
		r.id, r.text = id, jsontext.AppendHex(r.text[:0], bytes)
	}
	return append(dst, r.text...)
}

func (e *encoder) begin(dst []byte, kind string) []byte {
	e.count++
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	return append(dst, '"')
}

func (e *encoder) end(dst []byte) []byte {
	dst = append(dst, `,"count":`...)
	dst = jsontext.AppendInt(dst, e.count)
	return append(dst, e.process...)
}

// span appends a start, stop or complete record. A nil event leaves its part out.
func (e *encoder) span(dst []byte, kind string, s *outputs.SpanData, start, stop *outputs.Event) []byte {
	dst = e.begin(dst, kind)
	dst = append(dst, `,"id":`...)
	dst = e.id(dst, s)
	dst = append(dst, `,"name":`...)
	dst = appendString(dst, s.Name)
	const key = `,"attributes":`
	before := len(dst)
	dst = e.attributes(append(dst, key...), s.Attributes)
	if len(dst) == before+len(key)+len("{}") {
		dst = dst[:before] // the event has no attributes
	}
	if start != nil {
		dst = append(dst, `,"start_event":`...)
		dst = e.event(dst, start)
	}
	if stop != nil {
		dst = append(dst, `,"stop_event":`...)
		dst = e.event(dst, stop)
	}
	dst = e.end(dst)
	if !e.compat {
		dst = e.appendOwnFields(dst, s)
		if stop != nil {
			dst = append(dst, `,"duration_ns":`...)
			dst = jsontext.AppendInt(dst, s.Stop-s.Start)
		}
	}
	return append(dst, "}\n"...)
}

// appendEvent appends an event or error record of a span.
func (e *encoder) appendEvent(dst []byte, kind string, s *outputs.SpanData, ev *outputs.Event) []byte {
	dst = e.begin(dst, kind)
	dst = append(dst, `,"span_id":`...)
	dst = e.id(dst, s)
	dst = append(dst, `,"event":`...)
	dst = e.event(dst, ev)
	dst = e.end(dst)
	if !e.compat {
		dst = e.appendOwnFields(dst, s)
	}
	return append(dst, "}\n"...)
}

// dataError appends a telemetry data error record.
func (e *encoder) dataError(dst []byte, ev *outputs.Event) []byte {
	dst = e.begin(dst, "telemetry_data_error")
	dst = append(dst, `,"error":`...)
	dst = e.event(dst, ev)
	dst = e.end(dst)
	if !e.compat {
		dst = append(dst, e.place...)
	}
	return append(dst, "}\n"...)
}

// appendOwnFields appends the fields that one-logger does not have.
func (e *encoder) appendOwnFields(dst []byte, s *outputs.SpanData) []byte {
	if s.ParentID.IsValid() {
		dst = append(dst, `,"parent_id":"`...)
		dst = e.parent.append(dst, s.ParentID, s.ParentID[:])
		dst = append(dst, '"')
	}
	dst = append(dst, `,"trace_id":"`...)
	dst = e.trace.append(dst, s.TraceID, s.TraceID[:])
	dst = append(dst, '"')
	return append(dst, e.place...)
}

// heartbeat appends a record that the process is alive.
func (e *encoder) heartbeat(dst []byte, ns int64) []byte {
	dst = e.begin(dst, "heartbeat")
	dst = append(dst, `,"event":`...)
	ev := outputs.Event{Name: "heartbeat", Time: ns}
	for _, a := range [...]struct{ key, value string }{{"session_tag", e.tag}, {"job_id", e.job}} {
		if a.value != "" {
			ev.Attributes = append(ev.Attributes, attrvalue.String(a.key, a.value))
		}
	}
	dst = e.event(dst, &ev)
	return append(append(e.end(dst), e.place...), "}\n"...)
}

func (e *encoder) id(dst []byte, s *outputs.SpanData) []byte {
	dst = append(dst, '"')
	if e.compat {
		dst = onelogger.AppendUUID(dst, s.TraceID, s.SpanID)
	} else {
		dst = jsontext.AppendHex(dst, s.SpanID[:])
	}
	return append(dst, '"')
}

// event appends an event. Its time comes last, or in place of an attribute with
// that name.
func (e *encoder) event(dst []byte, ev *outputs.Event) []byte {
	dst = append(dst, `{"name":`...)
	dst = appendString(dst, ev.Name)
	dst = append(dst, `,"attributes":{`...)
	open, timed := len(dst), false
	for i := range ev.Attributes {
		a := &ev.Attributes[i]
		if a.Extension && e.compat {
			continue
		}
		dst = comma(dst, open)
		if a.Key == onelogger.TimestampMsec {
			dst, timed = appendTime(dst, ev.Time), true
			continue
		}
		dst = e.attribute(dst, a)
	}
	if !timed {
		dst = appendTime(comma(dst, open), ev.Time)
	}
	return append(dst, "}}"...)
}

func appendTime(dst []byte, ns int64) []byte {
	dst = append(dst, `"timestamp_msec":`...)
	return jsontext.AppendInt(dst, ns/1e6)
}

func comma(dst []byte, open int) []byte {
	if len(dst) > open {
		dst = append(dst, ',')
	}
	return dst
}

// attributes appends the attributes of a span as an object.
func (e *encoder) attributes(dst []byte, attrs []attributes.Attr) []byte {
	dst = append(dst, '{')
	open := len(dst)
	for i := range attrs {
		if attrs[i].Extension && e.compat {
			continue
		}
		dst = e.attribute(comma(dst, open), &attrs[i])
	}
	return append(dst, '}')
}

func (e *encoder) attribute(dst []byte, a *attributes.Attr) []byte {
	dst = appendString(dst, string(a.Key))
	dst = append(dst, ':')
	if a.Exact != nil {
		return e.exact(dst, a.Exact)
	}
	return e.value(dst, a.Value)
}

func (e *encoder) value(dst []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		return strconv.AppendBool(dst, v.AsBool())
	case attribute.INT64:
		return jsontext.AppendInt(dst, v.AsInt64())
	case attribute.FLOAT64:
		return e.float(dst, v.AsFloat64())
	case attribute.STRING:
		return appendString(dst, v.AsString())
	case attribute.BOOLSLICE:
		return appendList(dst, v.AsBoolSlice(), strconv.AppendBool)
	case attribute.INT64SLICE:
		return appendList(dst, v.AsInt64Slice(), jsontext.AppendInt)
	case attribute.FLOAT64SLICE:
		return appendList(dst, v.AsFloat64Slice(), e.float)
	case attribute.STRINGSLICE:
		return appendList(dst, v.AsStringSlice(), appendString)
	case attribute.SLICE:
		return appendList(dst, v.AsSlice(), e.value)
	case attribute.MAP:
		dst = append(dst, '{')
		open := len(dst)
		for _, kv := range v.AsMap() {
			dst = append(appendString(comma(dst, open), string(kv.Key)), ':')
			dst = e.value(dst, kv.Value)
		}
		return append(dst, '}')
	case attribute.EMPTY:
		return append(dst, "null"...)
	}
	return appendString(dst, v.String())
}

func (e *encoder) exact(dst []byte, v any) []byte {
	switch v := v.(type) {
	case attrvalue.Null:
		return append(dst, "null"...)
	case attrvalue.Count:
		return v.Append(dst)
	case *big.Int:
		if v == nil {
			return append(dst, "null"...)
		}
		return v.Append(dst, 10)
	case attribute.Value:
		return e.value(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return jsontext.AppendInt(dst, v)
	case float64:
		return e.float(dst, v)
	case string:
		return appendString(dst, v)
	case json.RawMessage:
		return appendRaw(dst, v)
	case []any:
		return appendList(dst, v, e.exact)
	}
	return append(dst, "null"...)
}

func appendList[T any](dst []byte, items []T, one func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, item)
	}
	return append(dst, ']')
}

// float appends a float in Python's form. JSON has no NaN and no infinity: in
// compatible form they are written bare, as by one-logger, otherwise as
// strings.
func (e *encoder) float(dst []byte, f float64) []byte {
	word := ""
	switch {
	case math.IsNaN(f):
		word = "NaN"
	case math.IsInf(f, 1):
		word = "Infinity"
	case math.IsInf(f, -1):
		word = "-Infinity"
	default:
		return pytext.AppendFloat(dst, f)
	}
	if e.compat {
		return append(dst, word...)
	}
	return appendString(dst, word)
}

// gap appends the record of missing lines.
func (e *encoder) gap(dst []byte, g fswrite.Gap) []byte {
	return e.dataError(dst, &outputs.Event{
		Name: spans.EventTelemetryDataError,
		Time: g.To.UnixNano(),
		Attributes: []attributes.Attr{
			attrvalue.String(onelogger.ErrorMessage, fmt.Sprintf("records are missing: %v", g.Cause)),
			attrvalue.String(onelogger.TelemetryDataErrorType, onelogger.IncompleteTelemetryData),
			attrvalue.Int(onelogger.LostRecords, int64(g.Lines)),
		},
	})
}

const hexDigits = "0123456789abcdef"

// appendString appends an ASCII JSON string, as one-logger does: escapes for
// quotes, backslashes and control characters, \u for everything beyond ASCII.
// Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for {
		n := jsontext.PlainPrefix(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		s = s[n:]
		size := 1
		switch c := s[0]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\b':
			dst = append(dst, `\b`...)
		case c == '\f':
			dst = append(dst, `\f`...)
		case c < ' ':
			dst = appendEscape(dst, rune(c))
		default:
			var r rune
			r, size = utf8.DecodeRuneInString(s)
			dst = appendRune(dst, r)
		}
		s = s[size:]
	}
}

// appendRune appends a character beyond ASCII, as a surrogate pair if need be.
func appendRune(dst []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		dst = appendEscape(dst, 0xd800+r>>10)
		r = 0xdc00 + r&0x3ff
	}
	return appendEscape(dst, r)
}

func appendEscape(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendRaw appends existing JSON on one line and in ASCII. Invalid JSON
// becomes a string.
func appendRaw(dst []byte, raw json.RawMessage) []byte {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return appendString(dst, string(raw))
	}
	for _, r := range compact.String() { // only strings have characters beyond ASCII
		if r < utf8.RuneSelf {
			dst = append(dst, byte(r))
		} else {
			dst = appendRune(dst, r)
		}
	}
	return dst
}
