package otlpreceiver

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
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
// errors, with a new decoder and with one that has decoded other requests.
func same(t *testing.T, body []byte) {
	t.Helper()
	used := new(decoder)
	if _, err := used.unmarshal(requestBytes(t)); err != nil {
		t.Fatal(err)
	}
	used.reset()
	for _, d := range []*decoder{new(decoder), used} {
		sameWith(t, d, body)
	}
}

// sameWith is same with one decoder.
func sameWith(t *testing.T, d *decoder, body []byte) {
	t.Helper()
	want := &collectorpb.ExportTraceServiceRequest{}
	wantErr := proto.Unmarshal(body, want)
	got, err := d.unmarshal(body)
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

// TestDecodeRandom decodes random requests, damaged ones among them, one after
// the other with the same decoder.
func TestDecodeRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(49, 1))
	names := []string{"", "step", "loss", "grün", strings.Repeat("long", maxName), "\x00"}
	name := func() string { return names[rng.IntN(len(names))] }
	some := func(most int, f func()) {
		for range rng.IntN(most + 1) {
			f()
		}
	}
	identifier := func() []byte { return bytes.Repeat([]byte{byte(rng.Uint32())}, []int{0, 8, 16, 100}[rng.IntN(4)]) }
	var value func(depth int) *commonpb.AnyValue
	attributes := func(most, depth int) (list []*commonpb.KeyValue) {
		some(most, func() {
			kv := &commonpb.KeyValue{Key: name()}
			if rng.IntN(8) > 0 {
				kv.Value = value(depth)
			}
			list = append(list, kv)
		})
		return list
	}
	value = func(depth int) *commonpb.AnyValue {
		switch n := rng.IntN(8); {
		case n == 0:
			return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: name()}}
		case n == 1:
			return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: rng.IntN(2) == 0}}
		case n == 2:
			return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: rng.NormFloat64()}}
		case n == 3:
			return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: identifier()}}
		case n == 4 && depth < 3:
			return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: attributes(3, depth+1)}}}
		case n == 5 && depth < 3:
			return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{value(depth + 1)}}}}
		case n == 6:
			return &commonpb.AnyValue{}
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: rng.Int64() >> rng.IntN(64)}}
	}
	span := func() *tracepb.Span {
		s := &tracepb.Span{
			TraceId: identifier(), SpanId: identifier(), ParentSpanId: identifier(), TraceState: name(), Name: name(), Kind: tracepb.Span_SpanKind(rng.Int32N(9) - 2),
			StartTimeUnixNano: rng.Uint64(), EndTimeUnixNano: rng.Uint64(), Attributes: attributes(40, 0), DroppedAttributesCount: rng.Uint32N(2), Flags: rng.Uint32N(2),
		}
		some(2, func() { s.Events = append(s.Events, &tracepb.Span_Event{Name: name(), Attributes: attributes(3, 0)}) })
		some(2, func() {
			s.Links = append(s.Links, &tracepb.Span_Link{SpanId: identifier(), Attributes: attributes(3, 0)})
		})
		some(1, func() { s.Status = &tracepb.Status{Message: name(), Code: tracepb.Status_StatusCode(rng.Int32N(4))} })
		return s
	}
	d := new(decoder)
	requests := 300
	if testing.Short() {
		requests = 100
	}
	for range requests {
		req := &collectorpb.ExportTraceServiceRequest{}
		some(3, func() {
			rs := &tracepb.ResourceSpans{SchemaUrl: name()}
			some(1, func() { rs.Resource = &resourcepb.Resource{Attributes: attributes(5, 0)} })
			some(3, func() {
				ss := &tracepb.ScopeSpans{SchemaUrl: name()}
				some(1, func() { ss.Scope = &commonpb.InstrumentationScope{Name: name(), Attributes: attributes(5, 0)} })
				some(50, func() { ss.Spans = append(ss.Spans, span()) })
				rs.ScopeSpans = append(rs.ScopeSpans, ss)
			})
			req.ResourceSpans = append(req.ResourceSpans, rs)
		})
		body, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		sameWith(t, d, body)
		d.reset()
		for n := rng.IntN(3); n > 0 && len(body) > 0; n-- {
			body[rng.IntN(len(body))] = byte(rng.Uint32())
		}
		sameWith(t, d, body)
		d.reset()
	}
}

// TestMemoryIsBounded checks that a decoder does not keep the memory of a large
// request.
func TestMemoryIsBounded(t *testing.T) {
	req := everything()
	for range 20_000 {
		req.ResourceSpans[0].ScopeSpans[0].Spans = append(req.ResourceSpans[0].ScopeSpans[0].Spans, req.ResourceSpans[0].ScopeSpans[0].Spans[0])
	}
	body, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	d := new(decoder)
	sameWith(t, d, body)
	d.reset()
	if attrs, spans := len(d.attrs.blocks)*slabBlock, len(d.spans.blocks)*slabBlock; attrs > maxReused || spans > maxReused || cap(d.lists) > maxReused || cap(d.bytes) > maxReused*maxIdentifier {
		t.Errorf("memory for %d attributes, %d spans, %d pointers and %d bytes, want at most %d, %d, %d and %d",
			attrs, spans, cap(d.lists), cap(d.bytes), maxReused, maxReused, maxReused, maxReused*maxIdentifier)
	}
}

// TestKept checks that a Sink may keep the spans of a request.
func TestKept(t *testing.T) {
	var kept []*Batch
	r, err := Listen(func(_ context.Context, b *Batch) error {
		b.Kept = true
		kept = append(kept, b)
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Shutdown(context.Background()) //nolint:errcheck // nothing is in progress
	for range 50 {
		b, err := newBatch(requestBytes(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.take(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for i, b := range kept {
		if got := (&collectorpb.ExportTraceServiceRequest{ResourceSpans: b.Spans}); !proto.Equal(got, everything()) {
			t.Fatalf("request %d is\n%v, want\n%v", i, got, everything())
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(requestBytes(f))
	f.Fuzz(func(t *testing.T, body []byte) { same(t, body) })
}
