package file_test

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

func TestDefaultGrammar(t *testing.T) {
	path := temporary(t)
	e := started(t, path, &file.Options{FlushInterval: -1})
	app := spanData(spans.Application, 8)
	app.StartAttributes = []attributes.Attr{attrvalue.Bool("first", true)}
	inner := spanData("custom", 9)
	inner.ParentID = app.SpanID
	inner.Attributes = []attributes.Attr{attrvalue.String("a", "b"), attrvalue.Extend(attrvalue.Int("ours", 1))[0]}

	export(t, e, start(app))
	const more = `,"trace_id":"` + traceID + `","rank":3}`
	lines := []string{`{"type":"start","id":"0102030405060708","name":"application","start_event":{"name":"span_start","attributes":{"first":true,"timestamp_msec":1760000000000}},"count":1,"pid":4242` + more}
	compare(t, path, lines...) // at once

	export(t, e, start(inner), event(inner, "ev", attrvalue.Int("n", 1)), failure(inner, "bad"), dataError("lost"))
	export(t, e, stop(inner, 2_500_001), stop(app, 0))
	const parent = `,"parent_id":"0102030405060708"`
	lines = append(lines,
		`{"type":"start","id":"0102030405060709","name":"custom","attributes":{"a":"b","ours":1},"start_event":{"name":"span_start","attributes":{"timestamp_msec":1760000000000}},"count":2,"pid":4242`+parent+more,
		`{"type":"event","span_id":"0102030405060709","event":{"name":"ev","attributes":{"n":1,"timestamp_msec":1760000000001}},"count":3,"pid":4242`+parent+more,
		`{"type":"application_error","span_id":"0102030405060709","event":{"name":"error","attributes":{"error_message":"bad","timestamp_msec":1760000000001}},"count":4,"pid":4242`+parent+more,
		`{"type":"telemetry_data_error","error":{"name":"telemetry_data_error","attributes":{"error_message":"lost","telemetry_data_error_type":"incomplete_telemetry_data","timestamp_msec":1760000000001}},"count":5,"pid":4242,"rank":3}`,
		`{"type":"stop","id":"0102030405060709","name":"custom","attributes":{"a":"b","ours":1,"duration_msec":2},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":1760000000002}},"count":6,"pid":4242`+parent+`,"trace_id":"`+traceID+`","rank":3,"duration_ns":2500001}`,
		`{"type":"stop","id":"0102030405060708","name":"application","attributes":{"duration_msec":0},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":1760000000000}},"count":7,"pid":4242,"trace_id":"`+traceID+`","rank":3,"duration_ns":0}`,
	)
	compare(t, path, lines...)
	counted(t, decode(t, contents(t, path)), 7)
	if got := e.Stats().File.Records; got != 7 {
		t.Errorf("%d records counted, want 7", got)
	}
}

// Ids in one-logger's form, made of trace and span id by hand.
const (
	uuid1 = "01020304-0506-4607-9801-1a1b1c1d1e1f"
	uuid2 = "01020304-0506-4607-9802-1a1b1c1d1e1f"
	uuid3 = "01020304-0506-4607-9803-1a1b1c1d1e1f"
)

func compatStart(id, name, attrs, count string) string {
	return `{"type":"start","id":"` + id + `","name":"` + name + `",` + attrs + `"start_event":{"name":"span_start","attributes":{"timestamp_msec":1760000000000}},"count":` + count + `,"pid":4242}`
}

func TestCompatHoldsStartBack(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(e *file.Exporter, one, two, three *outputs.SpanData)
		want []string
		last []string // lines that Shutdown adds
	}{
		{"a start waits", func(e *file.Exporter, one, _, _ *outputs.SpanData) {
			export(t, e, start(one))
		}, nil, []string{compatStart(uuid1, "one", "", "1")}},
		{"a new start releases the one before", func(e *file.Exporter, one, two, _ *outputs.SpanData) {
			export(t, e, start(one), start(two))
		}, []string{compatStart(uuid1, "one", "", "1")}, []string{compatStart(uuid2, "two", "", "2")}},
		{"its own stop makes it complete", func(e *file.Exporter, one, two, _ *outputs.SpanData) {
			export(t, e, start(one), stop(one, 5e6))
		}, []string{
			`{"type":"complete","id":"` + uuid1 + `","name":"one","attributes":{"duration_msec":5},"start_event":{"name":"span_start","attributes":{"timestamp_msec":1760000000000}},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":1760000000005}},"count":1,"pid":4242}`,
		}, nil},
		{"another stop releases it", func(e *file.Exporter, one, two, _ *outputs.SpanData) {
			export(t, e, start(one), start(two))
			export(t, e, stop(one, 0))
		}, []string{
			compatStart(uuid1, "one", "", "1"), compatStart(uuid2, "two", "", "2"),
			`{"type":"stop","id":"` + uuid1 + `","name":"one","attributes":{"duration_msec":0},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":1760000000000}},"count":3,"pid":4242}`,
		}, nil},
		{"an event releases it, with the attributes of now", func(e *file.Exporter, one, _, _ *outputs.SpanData) {
			export(t, e, start(one))
			one.Attributes = append(one.Attributes, attrvalue.Int("late", 1))
			export(t, e, event(one, "ev"))
		}, []string{
			compatStart(uuid1, "one", `"attributes":{"late":1},`, "1"),
			`{"type":"event","span_id":"` + uuid1 + `","event":{"name":"ev","attributes":{"timestamp_msec":1760000000001}},"count":2,"pid":4242}`,
		}, nil},
		{"an error of another span releases it", func(e *file.Exporter, one, two, _ *outputs.SpanData) {
			export(t, e, start(one), start(two), failure(one, "x"))
		}, []string{
			compatStart(uuid1, "one", "", "1"), compatStart(uuid2, "two", "", "2"),
			`{"type":"application_error","span_id":"` + uuid1 + `","event":{"name":"error","attributes":{"error_message":"x","timestamp_msec":1760000000001}},"count":3,"pid":4242}`,
		}, nil},
		{"a telemetry data error passes it", func(e *file.Exporter, one, _, _ *outputs.SpanData) {
			export(t, e, start(one), dataError("lost"), stop(one, 0))
		}, []string{
			`{"type":"telemetry_data_error","error":{"name":"telemetry_data_error","attributes":{"error_message":"lost","telemetry_data_error_type":"incomplete_telemetry_data","timestamp_msec":1760000000001}},"count":1,"pid":4242}`,
			`{"type":"complete","id":"` + uuid1 + `","name":"one","attributes":{"duration_msec":0},"start_event":{"name":"span_start","attributes":{"timestamp_msec":1760000000000}},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":1760000000000}},"count":2,"pid":4242}`,
		}, nil},
		{"extensions are left out and release nothing", func(e *file.Exporter, one, two, three *outputs.SpanData) {
			two.Name = spans.Epoch
			ours := event(one, "ours")
			ours.Extension = true
			bad := failure(one, "ours")
			bad.Extension = true
			lost := dataError("ours")
			lost.Extension = true
			one.StartAttributes = attrvalue.Extend(attrvalue.Int("left_out", 1))
			one.Attributes = attrvalue.Extend(attrvalue.Int("left_out", 1))
			export(t, e, start(one), ours, bad, lost, start(two), event(two, "ev"), stop(two, 1), start(three))
		}, []string{compatStart(uuid1, "one", "", "1")}, []string{compatStart(uuid3, "three", "", "2")}},
		{"extended attributes of events", func(e *file.Exporter, one, _, _ *outputs.SpanData) {
			export(t, e, start(one), event(one, "ev", attrvalue.Extend(attrvalue.Int("a", 1))[0], attrvalue.Int("b", 2), attrvalue.Extend(attrvalue.Int("c", 3))[0]))
		}, []string{
			compatStart(uuid1, "one", "", "1"),
			`{"type":"event","span_id":"` + uuid1 + `","event":{"name":"ev","attributes":{"b":2,"timestamp_msec":1760000000001}},"count":2,"pid":4242}`,
		}, nil},
		{"a timestamp of the caller's is replaced in its place", func(e *file.Exporter, one, _, _ *outputs.SpanData) {
			export(t, e, start(one), event(one, "ev", attrvalue.String(onelogger.TimestampMsec, "x"), attrvalue.Int("b", 2)))
		}, []string{
			compatStart(uuid1, "one", "", "1"),
			`{"type":"event","span_id":"` + uuid1 + `","event":{"name":"ev","attributes":{"timestamp_msec":1760000000001,"b":2}},"count":2,"pid":4242}`,
		}, nil},
		{"words that are no JSON", func(e *file.Exporter, one, _, _ *outputs.SpanData) {
			export(t, e, start(one), event(one, "ev", attrvalue.Float("a", math.NaN()), attrvalue.Float("b", math.Inf(1)),
				attrvalue.Any("c", []float64{math.Inf(-1), 5}), attrvalue.Float("d", math.Copysign(0, -1))))
		}, []string{
			compatStart(uuid1, "one", "", "1"),
			`{"type":"event","span_id":"` + uuid1 + `","event":{"name":"ev","attributes":{"a":NaN,"b":Infinity,"c":[-Infinity,5.0],"d":-0.0,"timestamp_msec":1760000000001}},"count":2,"pid":4242}`,
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := temporary(t)
			e := started(t, path, &file.Options{Compat: true, FlushInterval: -1})
			c.run(e, spanData("one", 1), spanData("two", 2), spanData("three", 3))
			if len(c.want) == 0 {
				if got := contents(t, path); got != "" {
					t.Errorf("file is %s, want it empty", got)
				}
			} else {
				compare(t, path, c.want...)
			}
			shutdown(t, e)
			compare(t, path, append(c.want, c.last...)...)
		})
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		name          string
		attr          attributes.Attr
		want, compat_ string // compat_ is set if it differs
	}{
		{"int", attrvalue.Int("k", math.MinInt64), "-9223372036854775808", ""},
		{"bool", attrvalue.Bool("k", true), "true", ""},
		{"whole float", attrvalue.Float("k", 5), "5.0", ""},
		{"small float", attrvalue.Float("k", 1e-5), "1e-05", ""},
		{"large float", attrvalue.Float("k", 1e16), "1e+16", ""},
		{"long float", attrvalue.Float("k", 1.2345678901234568e17), "1.2345678901234568e+17", ""},
		{"time", attrvalue.Float("k", 1760000062.375), "1760000062.375", ""},
		{"NaN", attrvalue.Float("k", math.NaN()), `"NaN"`, "NaN"},
		{"infinity", attrvalue.Float("k", math.Inf(1)), `"Infinity"`, "Infinity"},
		{"minus infinity", attrvalue.Float("k", math.Inf(-1)), `"-Infinity"`, "-Infinity"},
		{"FLOPs", attrvalue.CountOf("k", attrvalue.Product(7046430720000, 1e9)), "7046430720000000000000", ""},
		{"big", attrvalue.BigInt("k", new(big.Int).Lsh(big.NewInt(-1), 100)), "-1267650600228229401496703205376", ""},
		{"nil big", attributes.Attr{KeyValue: attribute.String("k", ""), Exact: (*big.Int)(nil)}, "null", ""},
		{"null", attrvalue.Any("k", nil), "null", ""},
		{"no value", attributes.Attr{KeyValue: attribute.KeyValue{Key: "k"}}, "null", ""},
		{"unknown exact value", attributes.Attr{KeyValue: attribute.String("k", ""), Exact: struct{}{}}, "null", ""},
		{"strings", attrvalue.Strings("k", []string{"a", "\u20ac"}), `["a","\u20ac"]`, ""},
		{"no strings", attrvalue.Strings("k", nil), `[]`, ""},
		{"bools", attrvalue.Any("k", []bool{true, false}), `[true,false]`, ""},
		{"ints", attrvalue.Any("k", []int{1, -2}), `[1,-2]`, ""},
		{"floats", attrvalue.Any("k", []float64{1, math.NaN()}), `[1.0,"NaN"]`, "[1.0,NaN]"},
		{"mixed", attrvalue.Any("k", []any{1, "a", 2.0, true, nil, uint64(math.MaxUint64)}), `[1,"a",2.0,true,null,18446744073709551615]`, ""},
		{"lists in a list", attrvalue.Any("k", []any{[]string{"a"}, []float64{1}, []any{}, []any{1, "b"}}), `[["a"],[1.0],[],[1,"b"]]`, ""},
		{"object", attrvalue.Any("k", map[string]any{"a": "<\u00e9\U0001F600>", "b": []int{1}}), `{"a":"<\u00e9\ud83d\ude00>","b":[1]}`, ""},
		{"raw of many lines", attributes.Attr{KeyValue: attribute.String("k", ""), Exact: json.RawMessage("{\n \"a\":\t1 }")}, `{"a":1}`, ""},
		{"raw that is no JSON", attributes.Attr{KeyValue: attribute.String("k", ""), Exact: json.RawMessage("}\n")}, `"}\n"`, ""},
		{"bytes", attrvalue.Any("k", []byte("hi")), `"aGk="`, ""},
		{"map of OpenTelemetry", attrvalue.Any("k", attribute.MapValue(attribute.Float64("a", 1), attribute.Slice("b", attribute.StringValue("x"), attribute.Value{}))), `{"a":1.0,"b":["x",null]}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, compat := range []bool{false, true} {
				want := c.want
				if compat && c.compat_ != "" {
					want = c.compat_
				}
				path := temporary(t)
				e := started(t, path, &file.Options{Compat: compat})
				s := spanData("s", 1)
				export(t, e, start(s), event(s, "ev", c.attr))
				shutdown(t, e)
				text := contents(t, path)
				if !strings.Contains(text, `"attributes":{"k":`+want+`,"timestamp_msec":`) {
					t.Errorf("compat %t: want %s in\n%s", compat, want, text)
				}
				if !compat || c.compat_ == "" {
					decode(t, text)
				}
			}
		})
	}
}

func TestNoParentNoTrace(t *testing.T) {
	path := temporary(t)
	e := started(t, path, nil)
	export(t, e, start(&outputs.SpanData{Name: "bare", TraceID: trace.TraceID{}}))
	shutdown(t, e)
	if got := decode(t, contents(t, path)); len(got) != 1 || got[0].ID != "0000000000000000" {
		t.Errorf("records %+v, want one with the span ID 0000000000000000", got)
	}
	if got, want := contents(t, path), `"trace_id":"00000000000000000000000000000000"`; !strings.Contains(got, want) {
		t.Errorf("file is %s, want %s in it", got, want)
	}
}

// Each record has the ids of its own span, whatever the record before it had.
func TestIDsOfNeighbours(t *testing.T) {
	path := temporary(t)
	e := started(t, path, nil)
	want := []string{"1/1", "1/1", "2/1", "2/2", "1/2", "1/0", "1/2"}
	for _, ids := range want {
		export(t, e, start(&outputs.SpanData{Name: "span", TraceID: trace.TraceID{15: ids[0] - '0'}, SpanID: trace.SpanID{9}, ParentID: trace.SpanID{7: ids[2] - '0'}}))
	}
	shutdown(t, e)
	var got []string
	for line := range strings.Lines(contents(t, path)) {
		var r struct {
			Trace  string `json:"trace_id"`
			Parent string `json:"parent_id"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Parent == "" { // a root has none
			r.Parent = "0"
		}
		got = append(got, r.Trace[len(r.Trace)-1:]+"/"+r.Parent[len(r.Parent)-1:])
	}
	if !slices.Equal(got, want) {
		t.Errorf("traces and parents are %v, want %v", got, want)
	}
}
