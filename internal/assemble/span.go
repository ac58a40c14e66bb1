package assemble

import "github.com/trainspan/trainspan/dftracer"

// Key identifies a span among all traces.
type Key struct {
	Trace [16]byte
	Span  [8]byte
}

// IsZero reports whether there is no span id: the key of no span.
func (k Key) IsZero() bool { return k.Span == [8]byte{} }

// Span is a span that has ended. Its creator must not change it after Add, and
// may use it again once it was written.
type Span struct {
	Key        Key
	Parent     Key // zero for a root, and for a parent in another process
	Name       *dftracer.Key
	Start, End int64 // microseconds since the epoch; an end before the start is the start
	Args       []dftracer.Arg
	Events     []Event

	size       int   // bytes of memory, roughly
	next, prev *Span // siblings that wait, too

	// What gather and settle find out.
	taken bool
	self  *relative
	up    *Span     // its parent when that is written with it
	above *relative // its parent otherwise
	down  []*Span
	own   bool // placed by itself: something of it was written before
	level int
}

// Event is an event of a span. Name and time tell events of one span apart: it
// is written once, however often it comes.
type Event struct {
	Name string
	Time int64 // nanoseconds since the epoch
	Args []dftracer.Arg
}

func (e *Event) mark() mark { return mark{e.Name, e.Time} }

func (s *Span) contains(start, end int64) bool { return s.Start <= start && s.End >= end }

// reset forgets what the assembler knew of a span that is added again.
func (s *Span) reset() {
	s.End = max(s.Start, s.End)
	s.next, s.prev, s.taken = nil, nil, false
	s.self, s.up, s.above, s.down, s.own, s.level = nil, nil, nil, s.down[:0], false, 0
}

// measure sets the size.
func (s *Span) measure() {
	s.size = 256 + argsSize(s.Args)
	for i := range s.Events {
		s.size += s.Events[i].size()
	}
}

func (e *Event) size() int { return 64 + argsSize(e.Args) }

func argsSize(args []dftracer.Arg) (n int) {
	for i := range args {
		n += 48 + len(args[i].Key) + len(args[i].Str())
	}
	return n
}
