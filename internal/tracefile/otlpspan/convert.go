// Package otlpspan converts OTLP spans to spans of a trace file. The receiver
// of OTLP and the reader of OTLP files share it, so that both give spans the
// same names.
package otlpspan

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// Arguments other than a span's attributes.
const (
	argName       = "otel.name" // the original name, if the name in the file differs
	argBackground = "background"
)

const (
	maxLinkAttributes = 64 // per link
	maxDepth          = 16 // of nested lists and maps
)

// Values of the protocol.
const (
	statusOK, statusError = 1, 2        // Status.StatusCode
	parentIsRemote        = 1<<8 | 1<<9 // SpanFlags: whether the parent is remote is known, and it is
)

// Micros converts nanoseconds to microseconds since the epoch. Values above the
// range of int64, which a broken sender could send, become its maximum.
func Micros(ns uint64) int64 { return int64(min(ns, math.MaxInt64) / 1000) } //nolint:gosec // bounded

// Key returns the key of a span.
func (s *Span) Key() place.Key { return keyOf(s.TraceID, s.SpanID) }

// Parent returns the key of its parent, which may be in another process.
func (s *Span) Parent() place.Key { return keyOf(s.TraceID, s.ParentSpanID) }

func keyOf(trace, span []byte) (k place.Key) {
	copy(k.Trace[:], trace)
	copy(k.Span[:], span)
	return k
}

// Converter converts the spans of one process. Set its names and limits before
// use. It is not safe for concurrent use.
type Converter struct {
	Names  *place.Names
	Limits place.Limits
	// Sender, if not nil, is added to the arguments of each span, for files with
	// spans of several processes.
	Sender *place.Sender
	// Cut is called with what exceeded the limits.
	Cut func(place.Cut)
}

// Span converts a span. Its name and attributes become this library's if the
// vocabulary knows them.
func (c *Converter) Span(src *Span, scope string) *place.Span {
	s := place.NewSpan()
	s.Key, s.Start, s.End = src.Key(), Micros(src.Start), Micros(src.End)
	if src.Flags&parentIsRemote != parentIsRemote {
		s.Parent = src.Parent()
	}
	known, found := vocab.Known(src.Name)
	var cat, name string
	var cut place.Cut
	list := arguments{args: slices.Grow(s.Args, min(len(src.Attributes), c.Limits.Attributes)+4), span: known.Standard}
	for i := range src.Attributes {
		a := &src.Attributes[i]
		switch a.Key {
		case spans.AttrCategory:
			cat = a.Value.Text()
		case spans.AttrName:
			name = a.Value.Text()
		default:
			if len(list.args) >= c.Limits.Attributes {
				cut.Attributes++
				continue
			}
			list.add(a)
		}
	}
	args := list.args
	if found && known.Standard != src.Name {
		args = append(args, dftracer.String(argName, place.Bounded(src.Name)))
	}
	if c.Sender != nil {
		args = c.Sender.Arguments(args)
	}
	if known.Background {
		args = append(args, dftracer.Bool(argBackground, true))
	}
	s.Name = c.Names.Find(scope, src.Name, cat, name)
	args = place.AppendStatus(args, src.Status == statusError, src.Status == statusOK, place.Bounded(src.Message))
	args, cut.Links = appendLinks(args, src.Links, c.Limits.Links)
	cut.Events = int64(max(len(src.Events)-c.Limits.Events, 0))
	for i := range min(len(src.Events), c.Limits.Events) {
		s.Events = append(s.Events, c.Event(&src.Events[i]))
	}
	args = place.AppendCount(args, place.ArgDroppedAttributes, int64(src.DroppedAttributes), cut.Attributes)
	args = place.AppendCount(args, place.ArgDroppedEvents, int64(src.DroppedEvents), cut.Events)
	s.Args = place.AppendCount(args, place.ArgDroppedLinks, int64(src.DroppedLinks), cut.Links)
	c.Cut(cut)
	return s
}

// Event converts an event of a span.
func (c *Converter) Event(src *Event) place.Event {
	n := min(len(src.Attributes), c.Limits.Attributes)
	cut := place.Cut{Attributes: int64(len(src.Attributes) - n)}
	e := place.Event{Name: place.Bounded(src.Name), Time: int64(min(src.Time, math.MaxInt64)), Args: make([]dftracer.Arg, 0, n)} //nolint:gosec // bounded
	for i := range n {
		e.Args = append(e.Args, src.Attributes[i].arg(src.Attributes[i].Key))
	}
	e.Args = place.AppendCount(e.Args, place.ArgDroppedAttributes, int64(src.Dropped), cut.Attributes)
	c.Cut(cut)
	return e
}

// Folded returns the event that a span represents, and the name of the span that
// has it: see [place.Folded].
func Folded(src *Span, scope string) (e Event, span string, ok bool) {
	e = Event{Time: src.Start, Attributes: src.Attributes, Dropped: src.DroppedAttributes}
	e.Name, span, ok = place.Folded(scope, src.Name, len(src.ParentSpanID) > 0, src.End > src.Start, src.Status == statusError)
	return e, span, ok
}

// arguments collects the arguments of a span. Attributes get the names that
// analyzers look for.
type arguments struct {
	args  []dftracer.Arg
	span  string   // the standard span, or empty
	taken []string // the used names that analyzers look for
}

// add appends an attribute. An argument that already exists keeps its name.
func (l *arguments) add(a *Attribute) {
	key := vocab.Argument(l.span, a.Key)
	if key != a.Key || vocab.Analyzed(key) {
		if !slices.Contains(l.taken, key) {
			l.taken = append(l.taken, key)
		} else {
			key = a.Key
		}
	}
	l.args = append(l.args, a.arg(key))
}

// Arg converts an attribute.
func (a *Attribute) Arg() dftracer.Arg { return a.arg(a.Key) }

// arg converts an attribute with another key.
func (a *Attribute) arg(key string) dftracer.Arg {
	v := &a.Value
	switch v.kind {
	case kindInt:
		return dftracer.Int(key, int64(v.num)) //nolint:gosec // as protobuf does
	case kindText:
		return place.Progress(dftracer.String(key, place.Bounded(v.text)))
	case kindBool:
		return dftracer.Bool(key, v.num != 0)
	case kindFloat:
		return place.Progress(dftracer.Float(key, math.Float64frombits(v.num)))
	case kindBytes:
		return dftracer.String(key, place.Bounded(base64.StdEncoding.EncodeToString(v.data[:min(len(v.data), place.MaxText)])))
	case kindNone:
		return dftracer.Raw(key, "null")
	}
	return place.Composite(key, v.plain(0))
}

// plain converts a value to the types of encoding/json.
func (v *Value) plain(depth int) any {
	if depth > maxDepth {
		return "..."
	}
	switch v.kind {
	case kindInt:
		return int64(v.num) //nolint:gosec // as protobuf does
	case kindText:
		return v.text
	case kindBool:
		return v.num != 0
	case kindFloat:
		return math.Float64frombits(v.num)
	case kindBytes:
		return v.data
	case kindList:
		list := []any{}
		for f := range eachField(v.data) {
			if f.tag == 1<<3|bytesField {
				var item Value
				item.set(f.data, false)
				list = append(list, item.plain(depth+1))
			}
		}
		return list
	case kindMap:
		m := map[string]any{}
		var pairs []Attribute
		for f := range eachField(v.data) {
			if f.tag == 1<<3|bytesField {
				pairs = (*texts)(nil).appendAttribute(pairs[:0], f.data)
				m[pairs[0].Key] = pairs[0].Value.plain(depth + 1)
			}
		}
		return m
	}
	return nil
}

// appendLinks appends the links within the limit and returns how many it left
// out.
func appendLinks(dst []dftracer.Arg, links []Link, limit int) (args []dftracer.Arg, cut int64) {
	return place.AppendLinks(dst, len(links), limit, func(i int) place.Link {
		l := place.Link{TraceID: hex.EncodeToString(id(links[i].TraceID, 16)), SpanID: hex.EncodeToString(id(links[i].SpanID, 8))}
		for j := range min(len(links[i].Attributes), maxLinkAttributes) {
			a := &links[i].Attributes[j]
			if l.Attributes == nil {
				l.Attributes = make(map[string]any)
			}
			l.Attributes[a.Key] = a.Value.plain(1)
		}
		return l
	})
}

// id returns an identifier, truncated to size.
func id(b []byte, size int) []byte { return b[:min(len(b), size)] }
