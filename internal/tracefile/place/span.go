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

	id         uint64            // id in the file
	seq        uint64            // order of arrival
	size       int               // approximate memory in bytes
	next, prev *Span             // waiting siblings
	marks      map[mark]struct{} // of Events, once AddEvent adds one

	self *relative // its index entry: what was written below it before it arrived, or a new entry

	// Set by gather and settle.
	taken bool
	up    *Span     // its parent, if written in the same call
	way   *Span     // an ancestor, or nil: see highest
	above *relative // its parent, if not written in the same call
	down  []*Span
	own   bool // placed separately: a child or an event of it was written before
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

// Event is an event of a span. Name and Time identify it within its span: it is written
// once, even if it arrives several times.
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
	s.next, s.prev, s.taken, s.marks = nil, nil, false, nil
	s.self, s.up, s.way, s.above, s.down, s.own, s.level = nil, nil, nil, nil, s.down[:0], false, -1
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
	s.size = 384 + argsSize(s.Args)
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
	spans map[Key]*Span
	below map[Key]*Span // first waiting child by parent
	queue []queued      // in order of arrival
	bytes int
	seq   uint64 // of the last span added

	all []*Span // reused buffer
}

type queued struct {
	span *Span
	seq  uint64 // of the span: another one may have its memory
	at   time.Time
}

// taken reports whether the span is already removed.
func (q *queued) taken() bool { return q.span.taken || q.span.seq != q.seq }

func newWaiting() waiting { return waiting{spans: make(map[Key]*Span), below: make(map[Key]*Span)} }

// add adds a span that arrived at now.
func (w *waiting) add(s *Span, now time.Time) {
	s.measure()
	w.seq++
	s.seq = w.seq
	w.spans[s.Key] = s
	if !s.Parent.IsZero() {
		if s.next = w.below[s.Parent]; s.next != nil {
			s.next.prev = s
		}
		w.below[s.Parent] = s
	}
	w.queue = append(w.queue, queued{s, s.seq, now})
	w.bytes += s.size
}

// oldest removes and returns the span that waits longest and all waiting spans of its
// tree. It returns nil if that span was already removed with another one.
func (w *waiting) oldest() []*Span {
	first := w.queue[0]
	w.queue[0] = queued{}
	if w.queue = w.queue[1:]; len(w.queue) == 0 {
		w.queue = nil
	}
	if first.taken() {
		return nil
	}
	return w.gather(first.span)
}

// gather removes and returns a span and all waiting spans of its tree. The list is valid
// until the next call.
func (w *waiting) gather(s *Span) []*Span {
	top := s // s stays below it: each step up is from a waiting child to its waiting parent
	for range maxClimb {
		p := w.spans[top.Parent]
		if p == nil || p == s {
			break
		}
		top = p
	}
	top.taken = true
	all := append(w.all[:0], top)
	for i := 0; i < len(all); i++ {
		for c := w.below[all[i].Key]; c != nil; c = c.next {
			if !c.taken {
				c.taken = true
				all = append(all, c)
			}
		}
	}
	for _, m := range all {
		delete(w.spans, m.Key)
		w.leave(m)
		w.bytes -= m.size
	}
	w.all = all
	return all
}

// leave removes a span from the waiting children of its parent.
func (w *waiting) leave(s *Span) {
	switch {
	case s.prev != nil:
		s.prev.next = s.next
	case w.below[s.Parent] == s && s.next != nil:
		w.below[s.Parent] = s.next
	case w.below[s.Parent] == s:
		delete(w.below, s.Parent)
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.next, s.prev = nil, nil
}
