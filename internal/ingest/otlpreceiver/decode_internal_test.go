package otlpreceiver

import (
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// everything returns a request with each field of each message.
func everything() *collectorpb.ExportTraceServiceRequest {
	attributes := func() []*commonpb.KeyValue {
		text := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "grün"}}
		return []*commonpb.KeyValue{
			{Key: "text", Value: text}, {Key: "none"}, {Key: "empty", Value: &commonpb.AnyValue{}},
			{Key: "yes", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}},
			{Key: "int", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: -7}}},
			{Key: "float", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: 2.5}}},
			{Key: "bytes", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: []byte{0, 255}}}},
			{Key: "list", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{text}}}}},
			{Key: "map", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: []*commonpb.KeyValue{{Key: "k", Value: text}}}}}},
		}
	}
	span := &tracepb.Span{
		TraceId: make([]byte, 16), SpanId: []byte{1, 2, 3, 4, 5, 6, 7, 8}, TraceState: "a=b", ParentSpanId: make([]byte, 100), Name: "step", Kind: tracepb.Span_SPAN_KIND_CLIENT,
		StartTimeUnixNano: 1, EndTimeUnixNano: 1 << 63, Attributes: attributes(), DroppedAttributesCount: 1, DroppedEventsCount: 2, DroppedLinksCount: 3, Flags: 257,
		Events: []*tracepb.Span_Event{{TimeUnixNano: 5, Name: "e", Attributes: attributes(), DroppedAttributesCount: 4}},
		Links:  []*tracepb.Span_Link{{TraceId: make([]byte, 16), SpanId: make([]byte, 8), TraceState: "c=d", Attributes: attributes(), DroppedAttributesCount: 5, Flags: 1}},
		Status: &tracepb.Status{Message: "no", Code: tracepb.Status_STATUS_CODE_ERROR},
	}
	scope := &commonpb.InstrumentationScope{Name: "lib", Version: "1", Attributes: attributes(), DroppedAttributesCount: 6}
	return &collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:  &resourcepb.Resource{Attributes: attributes(), DroppedAttributesCount: 7, EntityRefs: []*commonpb.EntityRef{{Type: "host"}}},
		SchemaUrl: "https://x", ScopeSpans: []*tracepb.ScopeSpans{{Scope: scope, SchemaUrl: "https://y", Spans: []*tracepb.Span{span, {}}}},
	}, {}}}
}

// same checks that a request is decoded like the library does, including its
// errors.
func same(t *testing.T, body []byte) {
	t.Helper()
	want := &collectorpb.ExportTraceServiceRequest{}
	wantErr := proto.Unmarshal(body, want)
	got, err := unmarshal(body)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%v, want %v", err, wantErr)
	}
	if err == nil && !proto.Equal(got, want) {
		t.Fatalf("got\n%v, want\n%v", got, want)
	}
}

func requestBytes(t testing.TB) []byte {
	body, err := proto.Marshal(everything())
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestDecode(t *testing.T) {
	body := requestBytes(t)
	if d := new(decoder); !d.request(body, &collectorpb.ExportTraceServiceRequest{}) {
		t.Error("the library decoded known fields")
	}
	same(t, body)
	same(t, append(body, body...))
	for n := range body {
		same(t, body[:n])
	}
	in := func(b []byte, numbers ...protowire.Number) []byte {
		for _, n := range numbers {
			b = protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
		}
		return b
	}
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 7)
	for name, body := range map[string][]byte{
		"unknown field":                 unknown,
		"of a resource's spans":         in(unknown, 1),
		"of a scope's spans":            in(unknown, 2, 1),
		"of a span":                     in(unknown, 2, 2, 1),
		"of an attribute":               in(unknown, 9, 2, 2, 1),
		"of a value":                    in(unknown, 2, 9, 2, 2, 1),
		"of an event":                   in(unknown, 11, 2, 2, 1),
		"key of another kind":           in([]byte{1 << 3, 1}, 9, 2, 2, 1),
		"two values, the last a number": in([]byte{1<<3 | 2, 1, 'x', 3 << 3, 9}, 2, 9, 2, 2, 1),
		"two values, the last a list":   in([]byte{3 << 3, 9, 5<<3 | 2, 0}, 2, 9, 2, 2, 1),
		"two lists":                     in([]byte{5<<3 | 2, 2, 1<<3 | 2, 0, 5<<3 | 2, 2, 1<<3 | 2, 0}, 2, 9, 2, 2, 1),
		"value in two parts":            in(append(in([]byte{1<<3 | 2, 1, 'x'}, 2), in([]byte{3 << 3, 9}, 2)...), 9, 2, 2, 1),
		"list in two parts":             in(append(in([]byte{5<<3 | 2, 2, 1<<3 | 2, 0}, 2), in([]byte{5<<3 | 2, 2, 1<<3 | 2, 0}, 2)...), 9, 2, 2, 1),
		"name that is no text":          in([]byte{255}, 5, 2, 2, 1),
		"value that is no text":         in([]byte{255}, 1, 2, 9, 2, 2, 1),
		"group":                         in([]byte{9<<3 | 3, 9<<3 | 4}, 2, 2, 1),
		"status twice":                  in(append(in([]byte{3 << 3, 2}, 15), in([]byte("no"), 2, 15)...), 2, 2, 1),
	} {
		t.Run(name, func(t *testing.T) { same(t, body) })
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(requestBytes(f))
	f.Fuzz(func(t *testing.T, body []byte) { same(t, body) })
}
