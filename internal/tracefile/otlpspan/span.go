package otlpspan

import (
	"hash/maphash"
	"iter"
	"sync"
)

// ResourceSpans are the spans of a resource in a request, which must not change while
// they are used.
type ResourceSpans struct {
	Resource Resource
	Len      int // number of spans

	scopes [][]byte
}

// Resources returns the content of a valid request: [Check] tells for one from
// outside, and encoders make no other. It refers to the memory of the request.
func Resources(request []byte) (all []ResourceSpans) {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	for f := range eachField(request) {
		if f.tag == 1<<3|bytesField {
			all = append(all, r.resource(f.data))
		}
	}
	return all
}

// Spans yields the spans, each with the name of its scope. A span is only valid
// until the next one.
func (rs *ResourceSpans) Spans() iter.Seq2[*Span, string] {
	return func(yield func(*Span, string) bool) {
		r := readers.Get().(*reader)
		for _, b := range rs.scopes {
			name := r.scopeName(b)
			for len(b) > 0 {
				f, rest, _ := take(b)
				if b = rest; f.tag != 2<<3|bytesField {
					continue
				}
				r.span(f.data)
				if !yield(&r.s, name) {
					return
				}
				if len(f.data) > maxReused {
					r = new(reader)
				}
			}
		}
		r.forget()
		readers.Put(r)
	}
}

// Span is a span of a request.
type Span struct {
	TraceID, SpanID, ParentSpanID []byte
	Flags                         uint32
	Name                          string
	Start, End                    uint64 // nanoseconds since the epoch
	Attributes                    []Attribute
	Events                        []Event
	Links                         []Link
	Status                        int32
	Message                       string // of the status

	DroppedAttributes, DroppedEvents, DroppedLinks uint32
}

// Event is an event of a span.
type Event struct {
	Time       uint64 // nanoseconds since the epoch
	Name       string
	Attributes []Attribute
	Dropped    uint32 // attributes
}

// Link is a link of a span.
type Link struct {
	TraceID, SpanID []byte
	Attributes      []Attribute
}

// Attribute is an attribute.
type Attribute struct {
	Key   string
	Value Value
}

// Value is the value of an attribute.
type Value struct {
	kind kind
	num  uint64
	text string
	data []byte // of a list or a map its encoding, in which a reader finds more values
}

type kind uint8

const (
	kindNone kind = iota
	kindText
	kindBool
	kindInt
	kindFloat
	kindBytes
	kindList
	kindMap
)

// Text returns a text, or "" for other values.
func (v *Value) Text() string {
	if v.kind == kindText {
		return v.text
	}
	return ""
}

// maxReused is the size of a span whose memory is used again.
const maxReused = 64 << 10

// reader reads parts of a request that was checked. It uses the memory of a span
// for the next one.
type reader struct {
	names texts
	s     Span
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// forget releases the request and long texts of it.
func (r *reader) forget() {
	s := &r.s
	attributes, events, links := s.Attributes[:cap(s.Attributes)], s.Events[:cap(s.Events)], s.Links[:cap(s.Links)]
	if max(len(attributes), len(events), len(links)) > maxItems {
		r.s = Span{}
		return
	}
	for i := range attributes {
		v := &attributes[i].Value
		if v.data = nil; len(v.text) > maxKept {
			v.text = ""
		}
		if len(attributes[i].Key) > maxKept {
			attributes[i].Key = ""
		}
	}
	clear(events)
	clear(links)
	*s = Span{Attributes: attributes[:0], Events: events[:0], Links: links[:0]}
}

// What is kept for later spans.
const (
	maxKept  = 256  // the length of a text
	maxItems = 1024 // of a list
)

// texts holds recent keys and names by their hashes: there are few different ones.
type texts [256]string

var textSeed = maphash.MakeSeed()

// find returns a text, and keeps it unless it is long. A nil texts keeps nothing.
func (t *texts) find(b []byte) string {
	if t == nil || len(b) == 0 || len(b) > maxKept {
		return string(b)
	}
	known := &t[maphash.Bytes(textSeed, b)%uint64(len(t))]
	if *known != string(b) {
		*known = string(b)
	}
	return *known
}

// eachField yields the fields of a message.
func eachField(b []byte) iter.Seq[field] {
	return func(yield func(field) bool) {
		for len(b) > 0 {
			f, rest, _ := take(b)
			if b = rest; !yield(f) {
				return
			}
		}
	}
}

func (r *reader) resource(b []byte) (rs ResourceSpans) {
	for f := range eachField(b) {
		switch f.tag {
		case 1<<3 | bytesField:
			for f := range eachField(f.data) {
				if f.tag == 1<<3|bytesField {
					rs.Resource = r.names.appendAttribute(rs.Resource, f.data)
				}
			}
		case 2<<3 | bytesField:
			rs.scopes = append(rs.scopes, f.data)
			for f := range eachField(f.data) {
				if f.tag == 2<<3|bytesField {
					rs.Len++
				}
			}
		}
	}
	return rs
}

// scopeName returns the name of a scope, which may be at the end.
func (r *reader) scopeName(b []byte) (name string) {
	for f := range eachField(b) {
		if f.tag == 1<<3|bytesField {
			for f := range eachField(f.data) {
				if f.tag == 1<<3|bytesField {
					name = r.names.find(f.data)
				}
			}
		}
	}
	return name
}

// span reads a span into s.
func (r *reader) span(b []byte) {
	s := &r.s
	*s = Span{Attributes: s.Attributes[:0], Events: s.Events[:0], Links: s.Links[:0]}
	for len(b) > 0 {
		f, rest, _ := take(b)
		b = rest
		switch f.tag {
		case 1<<3 | bytesField:
			s.TraceID = f.data
		case 2<<3 | bytesField:
			s.SpanID = f.data
		case 4<<3 | bytesField:
			s.ParentSpanID = f.data
		case 5<<3 | bytesField:
			s.Name = r.names.find(f.data)
		case 7<<3 | fixed64Field:
			s.Start = f.n
		case 8<<3 | fixed64Field:
			s.End = f.n
		case 9<<3 | bytesField:
			s.Attributes = r.names.appendAttribute(s.Attributes, f.data)
		case 10<<3 | varintField:
			s.DroppedAttributes = uint32(f.n) //nolint:gosec // as protobuf does
		case 11<<3 | bytesField:
			s.Events = append(s.Events, r.event(f.data))
		case 12<<3 | varintField:
			s.DroppedEvents = uint32(f.n) //nolint:gosec // as protobuf does
		case 13<<3 | bytesField:
			s.Links = append(s.Links, r.link(f.data))
		case 14<<3 | varintField:
			s.DroppedLinks = uint32(f.n) //nolint:gosec // as protobuf does
		case 15<<3 | bytesField:
			for f := range eachField(f.data) {
				switch f.tag {
				case 2<<3 | bytesField:
					s.Message = string(f.data)
				case 3<<3 | varintField:
					s.Status = int32(f.n) //nolint:gosec // as protobuf does
				}
			}
		case 16<<3 | fixed32Field:
			s.Flags = uint32(f.n) //nolint:gosec // it was one
		}
	}
}

func (r *reader) event(b []byte) (e Event) {
	for f := range eachField(b) {
		switch f.tag {
		case 1<<3 | fixed64Field:
			e.Time = f.n
		case 2<<3 | bytesField:
			e.Name = r.names.find(f.data)
		case 3<<3 | bytesField:
			e.Attributes = r.names.appendAttribute(e.Attributes, f.data)
		case 4<<3 | varintField:
			e.Dropped = uint32(f.n) //nolint:gosec // as protobuf does
		}
	}
	return e
}

func (r *reader) link(b []byte) (l Link) {
	for f := range eachField(b) {
		switch f.tag {
		case 1<<3 | bytesField:
			l.TraceID = f.data
		case 2<<3 | bytesField:
			l.SpanID = f.data
		case 4<<3 | bytesField:
			l.Attributes = r.names.appendAttribute(l.Attributes, f.data)
		}
	}
	return l
}

// appendAttribute appends an attribute. The element that the list had there before
// lends its texts, which are usually the same.
func (t *texts) appendAttribute(list []Attribute, b []byte) []Attribute {
	n := len(list)
	if n < cap(list) {
		list = list[:n+1]
	} else {
		list = append(list, Attribute{})
	}
	a := &list[n]
	key, value, ok := splitPair(b)
	if ok {
		if a.Key != string(key) {
			a.Key = t.find(key)
		}
		a.Value.set(value, false)
		return list
	}
	*a = Attribute{}
	for len(b) > 0 {
		f, rest, _ := take(b)
		b = rest
		switch f.tag {
		case 1<<3 | bytesField:
			a.Key = t.find(f.data)
		case 2<<3 | bytesField:
			a.Value.set(f.data, true)
		}
	}
	return list
}

// set sets a value; more means that it continues one. Of several values the last
// one counts, except that lists and maps are continued.
func (v *Value) set(b []byte, more bool) {
	if !more {
		v.kind, v.data = kindNone, nil
	}
	for len(b) > 0 {
		f, rest, _ := take(b)
		b = rest
		switch f.tag {
		case 1<<3 | bytesField:
			if v.kind = kindText; v.text != string(f.data) {
				v.text = string(f.data)
			}
		case 2<<3 | varintField:
			v.kind, v.num = kindBool, f.n
		case 3<<3 | varintField:
			v.kind, v.num = kindInt, f.n
		case 4<<3 | fixed64Field:
			v.kind, v.num = kindFloat, f.n
		case 5<<3 | bytesField:
			v.setData(kindList, f.data)
		case 6<<3 | bytesField:
			v.setData(kindMap, f.data)
		case 7<<3 | bytesField:
			v.kind, v.data = kindBytes, f.data
		case 8<<3 | varintField: // an index of text that is not sent with traces
			v.kind = kindNone
		}
	}
}

// setData sets or continues a list or a map.
func (v *Value) setData(k kind, b []byte) {
	if v.kind == k {
		b = append(v.data, b...)
	}
	v.kind, v.data = k, b
}
