package file

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/attrvalue"
	"github.com/trainspan/trainspan/internal/grammar"
	"github.com/trainspan/trainspan/internal/outfile"
	"github.com/trainspan/trainspan/internal/pytext"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// encoder writes records in one of the two styles.
type encoder struct {
	compat bool
	pid    int
	rank   int
	count  int64

	attempt  *int   // of the job; written if known
	job, tag string // in heartbeats
}

func (e *encoder) begin(dst []byte, kind string) []byte {
	e.count++
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	return append(dst, '"')
}

func (e *encoder) end(dst []byte) []byte {
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, e.count, 10)
	dst = append(dst, `,"pid":`...)
	return strconv.AppendInt(dst, int64(e.pid), 10)
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
		dst = dst[:before] // none
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
		dst = e.more(dst, s)
		if stop != nil {
			dst = append(dst, `,"duration_ns":`...)
			dst = strconv.AppendInt(dst, s.Stop-s.Start, 10)
		}
	}
	return append(dst, "}\n"...)
}

// of appends an event or error record of a span.
func (e *encoder) of(dst []byte, kind string, s *outputs.SpanData, ev *outputs.Event) []byte {
	dst = e.begin(dst, kind)
	dst = append(dst, `,"span_id":`...)
	dst = e.id(dst, s)
	dst = append(dst, `,"event":`...)
	dst = e.event(dst, ev)
	dst = e.end(dst)
	if !e.compat {
		dst = e.more(dst, s)
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
		dst = e.where(dst)
	}
	return append(dst, "}\n"...)
}

// more appends what our records say beyond the reference's.
func (e *encoder) more(dst []byte, s *outputs.SpanData) []byte {
	if s.ParentID.IsValid() {
		dst = append(dst, `,"parent_id":"`...)
		dst = hex.AppendEncode(dst, s.ParentID[:])
		dst = append(dst, '"')
	}
	dst = append(dst, `,"trace_id":"`...)
	dst = hex.AppendEncode(dst, s.TraceID[:])
	dst = append(dst, '"')
	return e.where(dst)
}

// where appends rank and attempt.
func (e *encoder) where(dst []byte) []byte {
	dst = append(dst, `,"rank":`...)
	dst = strconv.AppendInt(dst, int64(e.rank), 10)
	if e.attempt != nil {
		dst = append(dst, `,"attempt":`...)
		dst = strconv.AppendInt(dst, int64(*e.attempt), 10)
	}
	return dst
}

// heartbeat appends the record that says that the process lives.
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
	return append(e.where(e.end(dst)), "}\n"...)
}

func (e *encoder) id(dst []byte, s *outputs.SpanData) []byte {
	dst = append(dst, '"')
	if e.compat {
		dst = grammar.AppendUUID(dst, s.TraceID, s.SpanID)
	} else {
		dst = hex.AppendEncode(dst, s.SpanID[:])
	}
	return append(dst, '"')
}

// event appends an event. Its time comes last, or in the place of an
// attribute of that name.
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
		if a.Key == grammar.TimestampMsec {
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
	return strconv.AppendInt(dst, ns/1e6, 10)
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
		return strconv.AppendInt(dst, v.AsInt64(), 10)
	case attribute.FLOAT64:
		return e.float(dst, v.AsFloat64())
	case attribute.STRING:
		return appendString(dst, v.AsString())
	case attribute.BOOLSLICE:
		return appendList(dst, v.AsBoolSlice(), strconv.AppendBool)
	case attribute.INT64SLICE:
		return appendList(dst, v.AsInt64Slice(), func(dst []byte, i int64) []byte { return strconv.AppendInt(dst, i, 10) })
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
		return strconv.AppendInt(dst, v, 10)
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

// float appends a float as Python writes it. JSON has no word for NaN and the
// infinities: the reference writes its own, we write them as strings.
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

// gap appends the record of what is missing in the file.
func (e *encoder) gap(dst []byte, g outfile.Gap) []byte {
	return e.dataError(dst, &outputs.Event{
		Name: spans.EventTelemetryDataError,
		Time: g.To.UnixNano(),
		Attributes: []attributes.Attr{
			attrvalue.String(grammar.ErrorMessage, fmt.Sprintf("records are missing: %v", g.Cause)),
			attrvalue.String(grammar.TelemetryDataErrorType, grammar.IncompleteTelemetryData),
			attrvalue.Int(grammar.LostRecords, int64(g.Lines)),
		},
	})
}
