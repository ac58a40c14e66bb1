package otlpspan

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// same checks that a request is read like the protobuf library does, and refused
// if the library does.
func same(t *testing.T, body []byte) {
	t.Helper()
	var messages collectorpb.ExportTraceServiceRequest
	want, got := proto.Unmarshal(body, &messages), Check(body)
	if errors.Is(got, ErrNesting) || errors.Is(got, ErrParts) {
		return
	}
	if (got == nil) != (want == nil) {
		t.Fatalf("Check() = %v, the library returns %v", got, want)
	}
	if got != nil {
		return
	}
	if got, want := readLines(body), messageLines(&messages); !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	n := 0
	kept := Filter(body, func() bool { n++; return n%2 == 0 })
	n = 0
	for _, rs := range messages.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			ss.Spans = slices.DeleteFunc(ss.Spans, func(*tracepb.Span) bool { n++; return n%2 != 0 })
		}
	}
	if got, want := readLines(kept), messageLines(&messages); Check(kept) != nil || !slices.Equal(got, want) {
		t.Fatalf("without each second span got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// readLines describes a request, with a line for each resource, span, event and link.
func readLines(body []byte) (lines []string) {
	attributes := func(list []Attribute) string {
		m := make([]any, 0, 2*len(list))
		for i := range list {
			m = append(m, list[i].Key, list[i].Value.plain(-MaxNesting))
		}
		return fmt.Sprintf("%#v", m)
	}
	for _, rs := range Resources(body) {
		lines = append(lines, fmt.Sprintf("%d spans, %s", rs.Len, attributes(rs.Resource)))
		for s, scope := range rs.Spans() {
			lines = append(lines, fmt.Sprintf("%q %x %x %x %d %q %d %d %s %d %q %d %d %d", scope, s.TraceID, s.SpanID, s.ParentSpanID, s.Flags, s.Name, s.Start, s.End,
				attributes(s.Attributes), s.Status, s.Message, s.DroppedAttributes, s.DroppedEvents, s.DroppedLinks))
			for _, e := range s.Events {
				lines = append(lines, fmt.Sprintf("event %d %q %s %d", e.Time, e.Name, attributes(e.Attributes), e.Dropped))
			}
			for _, l := range s.Links {
				lines = append(lines, fmt.Sprintf("link %x %x %s", l.TraceID, l.SpanID, attributes(l.Attributes)))
			}
		}
	}
	return lines
}

// messageLines describes a request that the library has read.
func messageLines(req *collectorpb.ExportTraceServiceRequest) (lines []string) {
	attributes := func(list []*commonpb.KeyValue) string {
		m := make([]any, 0, 2*len(list))
		for _, kv := range list {
			m = append(m, kv.GetKey(), plainMessage(kv.GetValue()))
		}
		return fmt.Sprintf("%#v", m)
	}
	for _, rs := range req.GetResourceSpans() {
		at := len(lines)
		lines = append(lines, "")
		n := 0
		for _, ss := range rs.GetScopeSpans() {
			n += len(ss.GetSpans())
			for _, s := range ss.GetSpans() {
				lines = append(lines, fmt.Sprintf("%q %x %x %x %d %q %d %d %s %d %q %d %d %d", ss.GetScope().GetName(), s.GetTraceId(), s.GetSpanId(), s.GetParentSpanId(),
					s.GetFlags(), s.GetName(), s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano(), attributes(s.GetAttributes()), int32(s.GetStatus().GetCode()),
					s.GetStatus().GetMessage(), s.GetDroppedAttributesCount(), s.GetDroppedEventsCount(), s.GetDroppedLinksCount()))
				for _, e := range s.GetEvents() {
					lines = append(lines, fmt.Sprintf("event %d %q %s %d", e.GetTimeUnixNano(), e.GetName(), attributes(e.GetAttributes()), e.GetDroppedAttributesCount()))
				}
				for _, l := range s.GetLinks() {
					lines = append(lines, fmt.Sprintf("link %x %x %s", l.GetTraceId(), l.GetSpanId(), attributes(l.GetAttributes())))
				}
			}
		}
		lines[at] = fmt.Sprintf("%d spans, %s", n, attributes(rs.GetResource().GetAttributes()))
	}
	return lines
}

// plainMessage is Value.plain for a value that the library has read.
func plainMessage(v *commonpb.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonpb.AnyValue_BytesValue:
		return v.BytesValue
	case *commonpb.AnyValue_ArrayValue:
		list := []any{}
		for _, item := range v.ArrayValue.GetValues() {
			list = append(list, plainMessage(item))
		}
		return list
	case *commonpb.AnyValue_KvlistValue:
		m := map[string]any{}
		for _, kv := range v.KvlistValue.GetValues() {
			m[kv.GetKey()] = plainMessage(kv.GetValue())
		}
		return m
	}
	return nil
}

func requestBytes(t testing.TB) []byte {
	body, err := proto.Marshal(everything())
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestRequest(t *testing.T) {
	body := requestBytes(t)
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
		"of a list":                     in(unknown, 5, 2, 9, 2, 2, 1),
		"of an attribute in a map":      in(unknown, 1, 6, 2, 9, 2, 2, 1),
		"reference that is no text":     in([]byte{255}, 2, 3, 1, 1),
		"field with a large number":     in(protowire.AppendVarint(nil, 1<<33), 2, 2, 1),
		"scope after its spans":         in(append(in(nil, 2), in([]byte("x"), 1, 1)...), 2, 1),
		"resource in two parts":         in(append(append(in(nil, 1, 1), in(nil, 2, 2)...), in(nil, 1, 1)...), 1),
		"empty bytes in a list":         in(in(nil, 7), 1, 5, 2, 9, 2, 2, 1),
		"name that is no text":          in([]byte{255}, 5, 2, 2, 1),
		"value that is no text":         in([]byte{255}, 1, 2, 9, 2, 2, 1),
		"group":                         in([]byte{9<<3 | 3, 9<<3 | 4}, 2, 2, 1),
		"status twice":                  in(append(in([]byte{3 << 3, 2}, 15), in([]byte("no"), 2, 15)...), 2, 2, 1),
	} {
		t.Run(name, func(t *testing.T) { same(t, body) })
	}
}

// TestLargestFieldNumbers reads unknown fields whose tags do not fit in 31 bits, of
// each wire type and in each message.
func TestLargestFieldNumbers(t *testing.T) {
	for _, body := range largeNumbers() {
		same(t, body)
	}
}

// largeNumbers returns requests with such fields.
func largeNumbers() (bodies [][]byte) {
	for _, number := range []protowire.Number{1<<28 - 1, 1 << 28, 1<<28 + 2, 1<<29 - 1, 1 << 29} {
		for kind := range protowire.Type(6) {
			unknown := protowire.AppendTag(nil, number, kind)
			switch kind {
			case protowire.StartGroupType:
				unknown = protowire.AppendTag(unknown, number, protowire.EndGroupType)
			case protowire.EndGroupType: // of no group
			default:
				size := map[protowire.Type]int{protowire.VarintType: 1, protowire.Fixed64Type: 8, protowire.BytesType: 1, protowire.Fixed32Type: 4}
				unknown = append(unknown, make([]byte, size[kind])...)
			}
			for _, in := range [][]protowire.Number{
				nil, {1}, {1, 1}, {3, 1, 1}, {2, 1}, {1, 2, 1}, {2, 2, 1}, {9, 2, 2, 1}, {2, 9, 2, 2, 1}, {5, 2, 9, 2, 2, 1}, {1, 5, 2, 9, 2, 2, 1}, {6, 2, 9, 2, 2, 1},
				{1, 6, 2, 9, 2, 2, 1}, {11, 2, 2, 1}, {13, 2, 2, 1}, {15, 2, 2, 1},
			} {
				body := unknown
				for _, n := range in {
					body = protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), body)
				}
				bodies = append(bodies, body)
			}
		}
	}
	return bodies
}

// TestReaderForgets checks that a reader that is not in use refers to no request and to no
// long text.
func TestReaderForgets(t *testing.T) {
	req := everything()
	span := req.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0]
	for i, a := range span.GetAttributes() {
		a.Key += strings.Repeat("k", 300*(i%2))
	}
	span.Attributes = append(span.Attributes, &commonpb.KeyValue{Key: "long", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.Repeat("v", 300)}}})
	body, err := proto.Marshal(span)
	if err != nil {
		t.Fatal(err)
	}
	var r reader
	r.span(body)
	if text := fmt.Sprintf("%#v", r.s); !strings.Contains(text, "grün") || !strings.Contains(text, "vvv") || !strings.Contains(text, "0x1, 0x2, 0x3") {
		t.Fatalf("the reader has read %s, want the span", text)
	}
	r.forget()
	s := r.s
	s.Attributes, s.Events, s.Links = s.Attributes[:cap(s.Attributes)], s.Events[:cap(s.Events)], s.Links[:cap(s.Links)]
	if text := fmt.Sprintf("%#v", s); strings.Contains(text, "0x1, 0x2, 0x3") || strings.Contains(text, "vvv") || strings.Contains(text, "kkk") || strings.Contains(text, "[]uint8{") {
		t.Errorf("the reader has %s, want no bytes of the request", text)
	}
}

// TestRandomRequests reads random requests, damaged ones among them.
func TestRandomRequests(t *testing.T) {
	rng := rand.New(rand.NewPCG(49, 1))
	names := []string{"", "step", "loss", "grün", strings.Repeat("long", 100), "\x00"}
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
	requests := 100
	if testing.Short() {
		requests = 20
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
		same(t, body)
		for n := rng.IntN(3); n > 0 && len(body) > 0; n-- {
			body[rng.IntN(len(body))] = byte(rng.Uint32())
		}
		same(t, body)
	}
}

// FuzzRequest compares requests with the library. Run it with -fuzzminimizetime 1x,
// because the texts that are kept make coverage vary.
func FuzzRequest(f *testing.F) {
	f.Add(requestBytes(f))
	for _, body := range largeNumbers() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) { same(t, body) })
}
