package place

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Span is a span that has ended. The caller must not change it after Add, and may reuse
// it once it is written, unless it is from [NewSpan].
type Span struct {
	Key        Key
	Parent     Key // zero for a root, and for a parent in another process
	Name       *dftracer.Key
	Start, End int64 // microseconds since the epoch; an End before Start counts as Start
	Args       []dftracer.Arg
	Events     []Event

	self, over   *relative         // its own index entry and its parent's, nil for a root
	seq          uint64            // order of arrival
	at           time.Time         // of arrival
	size         int               // approximate memory in bytes
	older, newer *Span             // neighbours in the order of arrival
	next, prev   *Span             // waiting siblings
	marks        map[mark]struct{} // of Events, once AddEvent adds one

	// Set by gather and settle.
	taken bool      // is being written
	up    *Span     // its parent, if written in the same call
	way   *Span     // an ancestor, or nil: see highest
	above *relative // its parent, if not written in the same call
	down  []*Span
	own   bool // placed separately: a child or an event was written before
	level int  // number of ancestors in the same call; -1 if unknown

	pooled bool // from NewSpan
}

var written = sync.Pool{New: func() any { return &Span{pooled: true} }}

// NewSpan returns an empty span, for one call of Add. It has the memory of a span that
// was written.
func NewSpan() *Span { return written.Get().(*Span) }

// end makes the memory of a span available, if it is from NewSpan.
func (s *Span) end() {
	if s.pooled {
		*s = Span{Args: s.Args[:0], Events: s.Events[:0], down: s.down[:0], pooled: true}
		written.Put(s)
	}
}

// Event is an event of a span. Name and Time identify it within its span: AddEvent does
// not write one that was written before. Equal events of one Span are all written.
type Event struct {
	Name string
	Time int64 // nanoseconds since the epoch
	Args []dftracer.Arg
}

func (e *Event) mark() mark { return mark{maphash.String(markSeed, e.Name), e.Time} }

func (s *Span) contains(start, end int64) bool { return s.Start <= start && s.End >= end }

// reset clears the assembler's fields of a span that is added again.
func (s *Span) reset() {
	s.End = max(s.Start, s.End)
	s.older, s.newer, s.next, s.prev, s.taken, s.marks = nil, nil, nil, nil, false, nil
	s.self, s.over, s.up, s.way, s.above, s.down, s.own, s.level = nil, nil, nil, nil, nil, s.down[:0], false, -1
}

// highest returns the topmost ancestor of s, or s if it has no parent. It shortens the
// path for later calls.
func (s *Span) highest() *Span {
	for s.way != nil {
		if s.way.way != nil {
			s.way = s.way.way
		}
		s = s.way
	}
	return s
}

// count sets the level of a span and of its ancestors.
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

// has reports whether a waiting span has an event.
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

// measure sets size.
func (s *Span) measure() {
	s.size = 512 + argsSize(s.Args)
	for i := range s.Events {
		s.size += s.Events[i].size()
	}
}

func (e *Event) size() int { return 128 + len(e.Name) + argsSize(e.Args) }

func argsSize(args []dftracer.Arg) (n int) {
	for i := range args {
		n += 48 + len(args[i].Key) + len(tracefile.Str(args[i]))
	}
	return n
}

const (
	// maxWaitingBytes bounds the memory of waiting spans.
	maxWaitingBytes = 16 << 20
	// maxClimb bounds the ancestors that gather visits: the parents that a sender gives can form a cycle.
	maxClimb = 1 << 12
)

// waiting holds the spans that wait for their parents and children.
type waiting struct {
	oldest, newest *Span
	n, bytes       int
	seq            uint64 // of the last span added

	all []*Span // reused buffer
}

// add adds a span that arrived at now.
func (w *waiting) add(s *Span, now time.Time) {
	s.measure()
	w.seq++
	s.seq, s.at = w.seq, now
	if s.over != nil {
		if s.next = s.over.below; s.next != nil {
			s.next.prev = s
		}
		s.over.below = s
	}
	if s.older = w.newest; s.older != nil {
		s.older.newer = s
	} else {
		w.oldest = s
	}
	w.newest = s
	w.n++
	w.bytes += s.size
}

// gather removes and returns the span that waits longest, and all waiting spans of its
// tree. The list is valid until the next call.
func (w *waiting) gather() []*Span {
	s := w.oldest
	top := s // s stays below it: each step up is from a waiting child to its waiting parent
	for range maxClimb {
		if top.over == nil || top.over.span == nil || top.over.span == s {
			break
		}
		top = top.over.span
	}
	top.taken = true
	all := append(w.all[:0], top)
	for i := 0; i < len(all); i++ {
		for c := all[i].self.below; c != nil; c = c.next {
			if !c.taken {
				c.taken = true
				all = append(all, c)
			}
		}
	}
	for _, m := range all {
		w.remove(m)
	}
	w.all = all
	return all
}

// remove removes a span.
func (w *waiting) remove(s *Span) {
	if s.prev != nil {
		s.prev.next = s.next
	} else if s.over != nil {
		s.over.below = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		w.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		w.newest = s.older
	}
	s.older, s.newer, s.next, s.prev = nil, nil, nil, nil
	w.n--
	w.bytes -= s.size
}
