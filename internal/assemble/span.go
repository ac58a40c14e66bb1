package assemble

import (
	"hash/maphash"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
)

// Span is a span that has ended. Its creator must not change it after Add, and
// may use it again once it was written.
type Span struct {
	Key        Key
	Parent     Key // zero for a root, and for a parent in another process
	Name       *dftracer.Key
	Start, End int64 // microseconds since the epoch; an end before the start is the start
	Args       []dftracer.Arg
	Events     []Event

	id         uint64            // in the file
	size       int               // bytes of memory, roughly
	next, prev *Span             // siblings that wait, too
	marks      map[mark]struct{} // of Events, once others come by themselves

	self *relative // what was written below it before it came, or is now

	// What gather and settle find out.
	taken bool
	up    *Span     // its parent when that is written with it
	way   *Span     // one of those above it, or nil: see highest
	above *relative // its parent otherwise
	down  []*Span
	own   bool // placed by itself: something of it was written before
	level int  // how many are above it; -1 is not known yet
}

// Event is an event of a span. Name and time tell events of one span apart: it
// is written once, however often it comes.
type Event struct {
	Name string
	Time int64 // nanoseconds since the epoch
	Args []dftracer.Arg
}

func (e *Event) mark() mark { return mark{maphash.String(markSeed, e.Name), e.Time} }

func (s *Span) contains(start, end int64) bool { return s.Start <= start && s.End >= end }

// reset forgets what the assembler knew of a span that is added again.
func (s *Span) reset() {
	s.End = max(s.Start, s.End)
	s.next, s.prev, s.taken, s.marks = nil, nil, false, nil
	s.self, s.up, s.way, s.above, s.down, s.own, s.level = nil, nil, nil, nil, s.down[:0], false, -1
}

// highest is the span above all others above s, s itself if there is none. The
// way there becomes shorter with each call.
func (s *Span) highest() *Span {
	for s.way != nil {
		if s.way.way != nil {
			s.way = s.way.way
		}
		s = s.way
	}
	return s
}

// count sets the level of a span and of those above it.
func (s *Span) count() {
	above, n := -1, 0
	for p := s; p != nil; p = p.up {
		if p.level >= 0 {
			above = p.level
			break
		}
		n++
	}
	for p := s; n > 0; p, n = p.up, n-1 {
		p.level = above + n
	}
}

// has reports whether an event is among those of a span that waits.
func (s *Span) has(m mark) bool {
	if s.marks == nil {
		s.marks = make(map[mark]struct{}, len(s.Events)+1)
		for i := range s.Events {
			s.marks[s.Events[i].mark()] = struct{}{}
		}
	}
	_, known := s.marks[m]
	return known
}

// measure sets the size.
func (s *Span) measure() {
	s.size = 384 + argsSize(s.Args)
	for i := range s.Events {
		s.size += s.Events[i].size()
	}
}

func (e *Event) size() int { return 128 + len(e.Name) + argsSize(e.Args) }

func argsSize(args []dftracer.Arg) (n int) {
	for i := range args {
		n += 48 + len(args[i].Key) + len(dft.Str(args[i]))
	}
	return n
}
