package place

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// AddEvent adds an event of a span that is open, waits or is already written. It writes
// the event's record at once unless the span waits. It returns the id that the span has,
// or will have, in the file.
func (a *Assembler) AddEvent(key Key, e Event) (id uint64) {
	r := a.family.entry(key)
	if s := r.span; s != nil {
		if m := e.mark(); !s.has(m) {
			s.marks[m] = struct{}{}
			s.Events = append(s.Events, e)
			s.size += e.size()
			a.waiting.bytes += e.size()
			id = r.id
			a.bound()
			return id
		}
		return r.id
	}
	r = a.expect(r)
	m := e.mark()
	if r.marked(m) {
		return r.id // the event arrived with the span
	}
	a.family.mark(r, m)
	lane := r.lane
	if !r.done {
		lane = a.lanes.reservedFor(r.id)
		at := e.Time / 1000
		r.extend(at, at)
	}
	a.event(&e, r.id, a.tid(lane))
	return r.id
}

// WriteEvent writes the record of an event whose span is in another file of the process.
// id is the span's id in that file.
func (a *Assembler) WriteEvent(e *Event, id uint64) { a.event(e, id, a.tid(0)) }

// Begin writes the begin record of a span that may last long. parent is zero if it is
// unknown; start is in microseconds since the epoch. Begin does nothing if the span's
// begin is already known or the span has arrived.
func (a *Assembler) Begin(key, parent Key, name *dftracer.Key, start int64, args ...dftracer.Arg) {
	r := a.family.entry(key)
	if r.span != nil {
		return
	}
	r = a.expect(r)
	if r.done || r.begun != nil {
		return
	}
	above := dftracer.NoParent
	if !parent.IsZero() && parent != key {
		p := a.expect(a.family.entry(parent))
		if !p.done || p.contains(start, start) {
			r.parent, above = p, int64(p.id)
		}
		if !p.done {
			p.extend(start, start)
		}
	}
	if r.in == nil {
		return // expect(parent) evicted it: the limit is 1
	}
	lane := a.lanes.keep(r.id, start)
	r.begun = &begun{key: name, start: start}
	r.extend(start, start)
	tracefile.WriteBegin(a.w, &dftracer.Event{
		ID: r.id, Name: tracefile.KeyName(*name), Cat: tracefile.KeyCat(*name), TID: a.tid(lane), TS: start, Parent: above, Args: args,
	})
	a.counts.Begins++
}

// writeEvents writes those events of a span that AddEvent has not written.
func (a *Assembler) writeEvents(s *Span, tid int64) {
	written := slices.Clone(s.self.marks)
	for i := range s.Events {
		e := &s.Events[i]
		m := e.mark()
		if slices.Contains(written, m) {
			continue
		}
		a.event(e, s.self.id, tid)
		if a.o.LiveEvents {
			a.family.mark(s.self, m)
		}
	}
}

// The OpenTelemetry exporter of NVIDIA's one-logger sends each event of a span twice: at
// once, as a zero-length child span whose name contains the names of the event and the
// span, and as an event when the span ends.
const (
	oneLoggerScope = "one_logger"
	eventInfix     = "_event_for_"
	errorPrefix    = "error_for_"
)

// Folded returns the event that a span represents, and the name of the span that has the
// event. ok is false for an ordinary span. below reports that the span has a parent,
// length that it ends after its start, failed that its status is an error.
func Folded(scope, name string, below, length, failed bool) (event, span string, ok bool) {
	if scope != oneLoggerScope || !below || length {
		return "", "", false
	}
	if span, ok = strings.CutPrefix(name, errorPrefix); ok && failed {
		event = spans.EventError
	} else {
		event, span, ok = strings.Cut(name, eventInfix)
	}
	return event, span, ok && event != "" && span != ""
}

// maxNames bounds the encoded names that are cached per process, and maxNameBytes their
// text. Further names are encoded on each use.
const (
	maxNames     = 2048
	maxNameBytes = 128 << 10
)

// Names caches the encoded category and name of spans, as [vocab.TraceName] defines
// them. The zero value is ready for use. It is not safe for concurrent use.
type Names struct {
	known map[nameID]*dftracer.Key
	bytes int
}

type nameID struct {
	scope, name, cat, event string
}

// Find returns the key of a span. cat and event are the values of the attributes
// [spans.AttrCategory] and [spans.AttrName], empty if the span does not have them.
func (n *Names) Find(scope, name, cat, event string) *dftracer.Key {
	id := nameID{scope, name, cat, event}
	if key := n.known[id]; key != nil {
		return key
	}
	key := dftracer.NewKey(vocab.TraceName(scope, name, cat, event))
	if n.known == nil {
		n.known = make(map[nameID]*dftracer.Key)
	}
	if size := len(scope) + len(name) + len(cat) + len(event); len(n.known) < maxNames && n.bytes+size <= maxNameBytes {
		n.bytes += size
		n.known[nameID{strings.Clone(scope), strings.Clone(name), strings.Clone(cat), strings.Clone(event)}] = &key
	}
	return &key
}

// Key identifies a span across all traces.
type Key struct {
	Trace [16]byte
	Span  [8]byte
}

// IsZero reports whether the span id is zero, which is not a valid id.
func (k Key) IsZero() bool { return k.Span == [8]byte{} }

// mark identifies an event within its span. It holds a hash of the name, because names
// come from the sender and can be long.
type mark struct {
	name uint64
	time int64
}

var markSeed = maphash.MakeSeed()

// Argument names for the status and links of a span. The OpenTelemetry specification
// defines the otel.status names for formats without such fields.
const (
	ArgStatus            = "otel.status_code"
	ArgStatusDescription = "otel.status_description"
	ArgLinks             = "otel.links"

	// StatusError is the value of ArgStatus for a failed span.
	StatusError = "ERROR"
)

// maxLinkText bounds the text of all links of a span: half of the longest line.
const maxLinkText = 8 << 10

// Composite returns an argument whose value is a list or an object, as [tracefile.JSON]
// encodes it. If the JSON is longer than MaxText, the value is its first MaxText bytes,
// as a string.
func Composite(key string, v any) dftracer.Arg {
	text := tracefile.JSON(v)
	if len(text) > MaxText {
		return dftracer.String(key, Bounded(text))
	}
	return dftracer.Raw(key, text)
}

// Progress converts the arguments epoch and step to integers if their value is a whole
// number. Analyzers expect integers, but some languages have no integers and some
// senders send only strings.
func Progress(a dftracer.Arg) dftracer.Arg {
	if a.Key == attributes.Epoch || a.Key == attributes.Step {
		if n, ok := tracefile.Whole(a); ok {
			return dftracer.Int(a.Key, n)
		}
	}
	return a
}

// AppendStatus appends the status of a span: an error if failed is set, OK if well is
// set, and otherwise nothing.
func AppendStatus(dst []dftracer.Arg, failed, well bool, description string) []dftracer.Arg {
	switch {
	case failed:
		dst = append(dst, dftracer.String(ArgStatus, StatusError))
		if description != "" {
			dst = append(dst, dftracer.String(ArgStatusDescription, description))
		}
	case well:
		dst = append(dst, dftracer.String(ArgStatus, "OK"))
	}
	return dst
}

// AppendCount appends the sum of before, the number that the sender dropped, and cut,
// the number that was dropped here. It appends nothing if the sum is 0.
func AppendCount(dst []dftracer.Arg, key string, before, cut int64) []dftracer.Arg {
	if n := before + cut; n > 0 {
		return append(dst, dftracer.Int(key, n))
	}
	return dst
}

// Link is a link of a span. Its ids are hexadecimal.
type Link struct {
	TraceID, SpanID string
	Attributes      map[string]any
}

// text returns the link as JSON.
func (l *Link) text() string {
	text := `{"trace_id":"` + l.TraceID + `","span_id":"` + l.SpanID + `"`
	if len(l.Attributes) > 0 {
		if attributes := tracefile.JSON(l.Attributes); len(text)+len(attributes) < maxLinkText/2 {
			text += `,"attributes":` + attributes
		}
	}
	return text + "}"
}

// AppendLinks appends the first of n links, at most limit and at most maxLinkText bytes
// of JSON, and returns the number of dropped links. A link's attributes are omitted if
// they are too long.
func AppendLinks(dst []dftracer.Arg, n, limit int, at func(int) Link) (args []dftracer.Arg, cut int64) {
	var list []string
	size := 0
	for i := range min(n, limit) {
		l := at(i)
		text := l.text()
		if size += len(text) + 1; size > maxLinkText {
			break
		}
		list = append(list, text)
	}
	if len(list) > 0 {
		dst = append(dst, dftracer.Raw(ArgLinks, "["+strings.Join(list, ",")+"]"))
	}
	return dst, int64(n - len(list))
}
