package otlpreceiver

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// decoder decodes requests. Most of a request is spans with scalar attributes:
// these are decoded here, because the library allocates each message by
// reflection, which takes more time than the rest of the processing. Rare parts
// of a request go through the library, and a request with anything unknown goes
// through it as a whole.
//
// A decoder uses the memory of its last request again after reset. Its other
// methods return false for what the library has to decide.
type decoder struct {
	names [128]string // recent keys and names by hash; there are few different ones
	attrs slab[attribute]
	spans slab[tracepb.Span]
	lists []*commonpb.KeyValue // attributes of all spans
	bytes []byte               // identifiers
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// unmarshal decodes a request. The result is valid until reset.
func (d *decoder) unmarshal(body []byte) (*collectorpb.ExportTraceServiceRequest, error) {
	req := &collectorpb.ExportTraceServiceRequest{}
	if d.request(body, req) {
		return req, nil
	}
	proto.Reset(req)
	return req, proto.Unmarshal(body, req)
}

// reset makes the decoder ready for another request, with the memory of the
// last one unless that is much.
func (d *decoder) reset() {
	d.attrs.reset(maxReused)
	d.spans.reset(maxReused / 8)
	d.lists, d.bytes = d.lists[:0], d.bytes[:0]
	if cap(d.lists) > maxReused {
		d.lists = nil
	}
	if cap(d.bytes) > maxReused*maxIdentifier {
		d.bytes = nil
	}
}

// attribute is an attribute in a single allocation.
type attribute struct {
	kv   commonpb.KeyValue
	v    commonpb.AnyValue
	text commonpb.AnyValue_StringValue
	n    commonpb.AnyValue_IntValue
}

// slab allocates values of one type, many at a time.
type slab[T any] struct {
	blocks []*[slabBlock]T
	used   int
}

const slabBlock = 32

func (s *slab[T]) next() *T {
	at := s.used / slabBlock
	if at == len(s.blocks) {
		s.blocks = append(s.blocks, new([slabBlock]T))
	}
	v := &s.blocks[at][s.used%slabBlock]
	s.used++
	return v
}

// reset clears the values, and keeps memory for at most n.
func (s *slab[T]) reset(n int) {
	keep := min(len(s.blocks), n/slabBlock)
	clear(s.blocks[keep:])
	s.blocks = s.blocks[:keep]
	for i, block := range s.blocks {
		if i*slabBlock >= s.used {
			break
		}
		clear(block[:])
	}
	s.used = 0
}

const (
	maxReused     = 8192 // attributes whose memory is kept for the next request
	maxIdentifier = 64   // more than the length of identifiers
	maxName       = 256  // length of names that are kept
)

// Tags of fields: their numbers and wire types.
const (
	bytesField   = protowire.Number(protowire.BytesType)
	varintField  = protowire.Number(protowire.VarintType)
	fixed32Field = protowire.Number(protowire.Fixed32Type)
	fixed64Field = protowire.Number(protowire.Fixed64Type)
)

// field is a field of a message.
type field struct {
	tag  protowire.Number // eight times its number, plus the wire type
	n    uint64           // of a numeric field
	data []byte           // of a field of bytes
}

// take reads the next field of b and returns the rest; ok is false for an
// invalid field.
func take(b []byte) (f field, rest []byte, ok bool) {
	// Nearly all fields are short bytes with a number below 16.
	if len(b) > 2 && b[0]&7 == byte(protowire.BytesType) && b[0] > 7 && b[0] < 0x80 && int(b[1]) <= min(len(b)-2, 0x7f) {
		n := 2 + int(b[1])
		return field{tag: protowire.Number(b[0]), data: b[2:n:n]}, b[n:], true
	}
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, nil, false
	}
	b, f.tag = b[n:], number<<3|protowire.Number(kind)
	switch kind {
	case protowire.VarintType:
		f.n, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.n, n = protowire.ConsumeFixed64(b)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(b)
		f.n = uint64(v)
	case protowire.BytesType:
		f.data, n = protowire.ConsumeBytes(b)
	default:
		return f, nil, false
	}
	if n < 0 {
		return f, nil, false
	}
	return f, b[n:], true
}

// eachField calls f with the fields of a message, and reports whether all of
// them are valid and f returned true.
func eachField(b []byte, f func(field) bool) bool {
	for len(b) > 0 {
		next, rest, ok := take(b)
		if b = rest; !ok || !f(next) {
			return false
		}
	}
	return true
}

func (d *decoder) request(b []byte, req *collectorpb.ExportTraceServiceRequest) bool {
	return eachField(b, func(f field) bool {
		rs := &tracepb.ResourceSpans{}
		req.ResourceSpans = append(req.ResourceSpans, rs)
		return f.tag == 1<<3|bytesField && d.resource(f.data, rs)
	})
}

func (d *decoder) resource(b []byte, rs *tracepb.ResourceSpans) bool {
	return eachField(b, func(f field) (ok bool) {
		switch f.tag {
		case 1<<3 | bytesField:
			if rs.Resource == nil {
				rs.Resource = &resourcepb.Resource{}
			}
			ok = merge(f.data, rs.Resource)
		case 2<<3 | bytesField:
			ss := &tracepb.ScopeSpans{}
			rs.ScopeSpans = append(rs.ScopeSpans, ss)
			ok = d.scope(f.data, ss)
		case 3<<3 | bytesField:
			rs.SchemaUrl, ok = d.name(f.data)
		}
		return ok
	})
}

func (d *decoder) scope(b []byte, ss *tracepb.ScopeSpans) bool {
	return eachField(b, func(f field) (ok bool) {
		switch f.tag {
		case 2<<3 | bytesField:
			s := d.spans.next()
			ss.Spans = append(ss.Spans, s)
			ok = d.span(f.data, s)
		case 1<<3 | bytesField:
			if ss.Scope == nil {
				ss.Scope = &commonpb.InstrumentationScope{}
			}
			ok = merge(f.data, ss.Scope)
		case 3<<3 | bytesField:
			ss.SchemaUrl, ok = d.name(f.data)
		}
		return ok
	})
}

func (d *decoder) span(b []byte, s *tracepb.Span) bool {
	from := len(d.lists)
	for len(b) > 0 {
		f, rest, ok := take(b)
		if b = rest; !ok {
			return false
		}
		switch f.tag {
		case 1<<3 | bytesField:
			s.TraceId = d.identifier(f.data)
		case 2<<3 | bytesField:
			s.SpanId = d.identifier(f.data)
		case 3<<3 | bytesField:
			s.TraceState, ok = d.name(f.data)
		case 4<<3 | bytesField:
			s.ParentSpanId = d.identifier(f.data)
		case 5<<3 | bytesField:
			s.Name, ok = d.name(f.data)
		case 6<<3 | varintField:
			s.Kind = tracepb.Span_SpanKind(int32(f.n)) //nolint:gosec // as the library does
		case 7<<3 | fixed64Field:
			s.StartTimeUnixNano = f.n
		case 8<<3 | fixed64Field:
			s.EndTimeUnixNano = f.n
		case 9<<3 | bytesField:
			a := d.attrs.next()
			d.lists = append(d.lists, &a.kv)
			ok = d.attribute(f.data, a)
		case 10<<3 | varintField:
			s.DroppedAttributesCount = uint32(f.n) //nolint:gosec // as the library does
		case 11<<3 | bytesField:
			e := &tracepb.Span_Event{}
			s.Events = append(s.Events, e)
			ok = merge(f.data, e)
		case 12<<3 | varintField:
			s.DroppedEventsCount = uint32(f.n) //nolint:gosec // as the library does
		case 13<<3 | bytesField:
			l := &tracepb.Span_Link{}
			s.Links = append(s.Links, l)
			ok = merge(f.data, l)
		case 14<<3 | varintField:
			s.DroppedLinksCount = uint32(f.n) //nolint:gosec // as the library does
		case 15<<3 | bytesField:
			if s.Status == nil {
				s.Status = &tracepb.Status{}
			}
			ok = merge(f.data, s.Status)
		case 16<<3 | fixed32Field:
			s.Flags = uint32(f.n) //nolint:gosec // it was one
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	if list := d.lists[from:]; len(list) > 0 {
		s.Attributes = list[:len(list):len(list)]
	}
	return true
}

// attribute has its own loop instead of eachField, because there are many.
func (d *decoder) attribute(b []byte, a *attribute) bool {
	for len(b) > 0 {
		f, rest, ok := take(b)
		b = rest
		switch {
		case !ok:
		case f.tag == 1<<3|bytesField:
			a.kv.Key, ok = d.name(f.data)
		case f.tag == 2<<3|bytesField:
			a.kv.Value = &a.v
			ok = a.value(f.data)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

// value decodes a value; the library decodes lists and maps.
func (a *attribute) value(b []byte) bool {
	for whole := b; len(b) > 0; {
		f, rest, ok := take(b)
		if b = rest; !ok {
			return false
		}
		switch f.tag {
		case 1<<3 | bytesField:
			if !utf8.Valid(f.data) {
				return false
			}
			a.text.StringValue = string(f.data)
			a.v.Value = &a.text
		case 2<<3 | varintField:
			a.v.Value = &commonpb.AnyValue_BoolValue{BoolValue: f.n != 0}
		case 3<<3 | varintField:
			a.n.IntValue = int64(f.n) //nolint:gosec // as the library does
			a.v.Value = &a.n
		case 4<<3 | fixed64Field:
			a.v.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: math.Float64frombits(f.n)}
		default:
			return merge(whole, &a.v)
		}
	}
	return true
}

// merge lets the library decode a message into m, which may have fields
// already.
func merge(b []byte, m proto.Message) bool {
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(b, m) == nil
}

// name returns an interned string.
func (d *decoder) name(b []byte) (string, bool) {
	switch {
	case len(b) == 0:
		return "", true
	case len(b) > maxName:
		return string(b), utf8.Valid(b)
	}
	known := &d.names[(uint(len(b))+uint(b[0])*5+uint(b[len(b)-1])*11+uint(b[len(b)/2])*23)%uint(len(d.names))]
	if *known != string(b) {
		if !utf8.Valid(b) {
			return "", false
		}
		*known = string(b)
	}
	return *known, true
}

// identifier returns a copy of a few bytes.
func (d *decoder) identifier(b []byte) []byte {
	if len(b) > maxIdentifier {
		return slices.Clone(b)
	}
	if len(b) > cap(d.bytes)-len(d.bytes) {
		d.bytes = make([]byte, 0, max(2048, min(2*cap(d.bytes), maxReused*maxIdentifier)))
	}
	at := len(d.bytes)
	d.bytes = append(d.bytes, b...)
	return d.bytes[at:len(d.bytes):len(d.bytes)]
}

// An empty message is two bytes in a request and hundreds in memory. So not
// only the size of a request is bounded.
const (
	// maxMessages is how many spans, attributes, values, events and links a request
	// may have.
	maxMessages = 1 << 20
	// smallBody is the size of a request whose messages are not counted.
	smallBody = 64 << 10
	// largeBody is the size above which requests are handled one at a time.
	largeBody = 1 << 20
	// maxNesting bounds nested values.
	maxNesting = 64
)

var errMany = &httpError{
	http.StatusRequestEntityTooLarge, codes.ResourceExhausted,
	fmt.Sprintf("the request contains more than %d spans, attributes, events and links", maxMessages),
}

// checkProtobuf refuses a request with too many messages before memory is
// allocated for them.
func checkProtobuf(body []byte) error {
	if len(body) <= smallBody {
		return nil
	}
	// A message takes at least two bytes: a shorter body cannot have too many
	// messages, and is only checked for its depth.
	c := messageCount{left: maxMessages, few: len(body) <= 2*maxMessages}
	c.take(body, (&collectorpb.ExportTraceServiceRequest{}).ProtoReflect().Descriptor(), 0)
	if c.left < 0 {
		return errMany
	}
	return nil
}

// checkJSON is checkProtobuf for JSON, in which every message is an object.
func checkJSON(body []byte) error {
	if len(body) > smallBody && bytes.Count(body, []byte("{")) > maxMessages {
		return errMany
	}
	return nil
}

// messageCount counts down from the maximum number of messages; negative means
// too many.
type messageCount struct {
	left int
	few  bool // too many are impossible: only the nesting depth is checked
}

// take counts the messages in b. It stops at invalid input, which the parser
// reports.
func (c *messageCount) take(b []byte, of protoreflect.MessageDescriptor, depth int) {
	if depth > maxNesting {
		c.left = -1
	}
	for len(b) > 0 && c.left >= 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return
		}
		if kind == protowire.BytesType && !(c.few && n < 2*(maxNesting-depth)) {
			if field := of.Fields().ByNumber(number); field != nil && field.Message() != nil {
				c.left--
				inside, _ := protowire.ConsumeBytes(b)
				c.take(inside, field.Message(), depth+1)
			}
		}
		b = b[n:]
	}
}

// turn is the right to handle a large request. The zero value does not have it.
type turn struct {
	r    *Receiver
	mine bool
}

// wait waits for the turn for a moment, if a body is large.
func (t *turn) wait(ctx context.Context, size int) error {
	if size <= largeBody || t.mine {
		return nil
	}
	patience := time.NewTimer(slotWait)
	defer patience.Stop()
	select {
	case t.r.large <- struct{}{}:
		t.mine = true
		return nil
	case <-ctx.Done():
	case <-patience.C:
	}
	return errBusy
}

func (t *turn) end() {
	if t.mine {
		<-t.r.large
	}
}
