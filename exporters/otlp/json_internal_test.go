package otlp

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/platform/otlpform"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// richBatch has every kind of value that a span can have.
func richBatch() []sdktrace.ReadOnlySpan {
	remote := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{9, 8, 7}, SpanID: trace.SpanID{6, 5}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	r := resource.NewWithAttributes("https://schema/1", attribute.String("service.name", "x"), attribute.Int("rank", 3))
	stubs := tracetest.SpanStubs{
		{
			Name:        "rich",
			SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{255, 1}, SpanID: trace.SpanID{2, 254}, TraceFlags: trace.FlagsSampled}),
			Parent:      remote, SpanKind: trace.SpanKindClient,
			StartTime: time.Unix(1700000000, 123456789), EndTime: time.Unix(1700000001, 1),
			Attributes: []attribute.KeyValue{
				attribute.Bool("bool", true), attribute.Int64("int", math.MinInt64), attribute.Float64("float", -0.5),
				attribute.String("text", `"traceId":"AAAA" \"spanId\":\"x\" é 😀`), attribute.String("traceId", "not an id"),
				attribute.BoolSlice("bools", []bool{true, false}), attribute.Int64Slice("ints", []int64{1, -1}),
				attribute.Float64Slice("floats", []float64{1.5}), attribute.StringSlice("texts", []string{"a", ""}),
				{Key: "bytes", Value: attribute.ByteSliceValue([]byte{0, 255})},
				{Key: "map", Value: attribute.MapValue(attribute.String("spanId", "inner"), attribute.Int("n", 1))},
				{Key: "list", Value: attribute.SliceValue(attribute.StringValue("x"), attribute.Int64Value(2))},
				{Key: "empty"},
			},
			Events: []sdktrace.Event{{Name: "event", Time: time.Unix(1700000000, 5), Attributes: []attribute.KeyValue{attribute.Int("i", 1)}, DroppedAttributeCount: 2}},
			Links:  []sdktrace.Link{{SpanContext: remote, Attributes: []attribute.KeyValue{attribute.Int("i", 1)}, DroppedAttributeCount: 4}},
			Status: sdktrace.Status{Code: codes.Error, Description: "broken"}, DroppedAttributes: 1, DroppedEvents: 2, DroppedLinks: 3,
			Resource: r, InstrumentationScope: instrumentation.Scope{Name: "scope", Version: "1", SchemaURL: "https://schema/2", Attributes: attribute.NewSet(attribute.Int("a", 1))},
		},
		{Name: "poor", Resource: r, SpanKind: trace.SpanKindServer, Status: sdktrace.Status{Code: codes.Ok}, StartTime: time.Unix(1, 0), EndTime: time.Unix(2, 0)},
		{Name: "again", Resource: r, SpanKind: trace.SpanKindProducer, InstrumentationScope: instrumentation.Scope{Name: "scope2"}, StartTime: time.Unix(1, 0), EndTime: time.Unix(2, 0)},
		{Name: "more", Resource: r, SpanKind: trace.SpanKindConsumer, InstrumentationScope: instrumentation.Scope{Name: "scope2"}, StartTime: time.Unix(1, 0), EndTime: time.Unix(2, 0)},
	}
	return stubs.Snapshots()
}

func TestJSONRoundTrip(t *testing.T) {
	spans := transform(richBatch())
	line, err := otlpform.AppendJSON([]byte("before"), spans)
	if err != nil {
		t.Fatal(err)
	}
	line = line[len("before"):]
	var whole struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID, ParentSpanID string
					Kind                          int
					StartTimeUnixNano             string
					Links                         []struct{ TraceID, SpanID string }
				}
			}
		}
	}
	if err := json.Unmarshal(line, &whole); err != nil {
		t.Fatal(err)
	}
	s := whole.ResourceSpans[0].ScopeSpans[0].Spans[0]
	if s.TraceID != "ff010000000000000000000000000000" || s.SpanID != "02fe000000000000" || s.ParentSpanID != "0605000000000000" ||
		s.Kind != 3 || s.StartTimeUnixNano != "1700000000123456789" || s.Links[0].TraceID != "09080700000000000000000000000000" {
		t.Errorf("span read from JSON is %+v, want its IDs in hexadecimal, kind 3 and times as text", s)
	}
	var indented []byte
	for _, variant := range [][]byte{line, indented} {
		if variant == nil {
			var v any
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatal(err)
			}
			if variant, err = json.MarshalIndent(v, "", " "); err != nil {
				t.Fatal(err)
			}
		}
		back, err := otlpform.ReadJSON(variant)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(&tracepb.TracesData{ResourceSpans: back}, &tracepb.TracesData{ResourceSpans: spans}) {
			t.Errorf("spans read back are %v\nwant %v", back, spans)
		}
	}
}

func FuzzReadJSON(f *testing.F) {
	line, err := otlpform.AppendJSON(nil, transform(richBatch()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"zz"}]}]}]}`))
	f.Add([]byte(`"traceId":"`))
	f.Fuzz(func(t *testing.T, line []byte) {
		growth.Work(t, len(line), 128, func() { _, _ = otlpform.ReadJSON(line) })
		spans, err := otlpform.ReadJSON(line)
		if err != nil {
			return
		}
		again, err := otlpform.AppendJSON(nil, spans)
		if err != nil {
			return // a message without a JSON form, such as a time out of range
		}
		back, err := otlpform.ReadJSON(again)
		if err != nil {
			t.Fatalf("written spans cannot be read: %v: %s", err, again)
		}
		if countSpans(back) != countSpans(spans) {
			t.Errorf("%d spans read back, want %d", countSpans(back), countSpans(spans))
		}
	})
}
