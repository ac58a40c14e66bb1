package assemble

import "time"

const (
	// maxWaitingBytes bounds the memory of the spans that wait.
	maxWaitingBytes = 16 << 20
	// maxClimb bounds the way up from a span; a sender can make circles.
	maxClimb = 1 << 12
)

// waiting has the spans that wait for their relatives.
type waiting struct {
	spans map[Key]*Span
	below map[Key]*Span // the first of the waiting children of a span
	queue []queued      // by arrival
	bytes int

	all []*Span // memory that is used again
}

type queued struct {
	span *Span
	at   time.Time
}

func newWaiting() waiting { return waiting{spans: make(map[Key]*Span), below: make(map[Key]*Span)} }

// add takes a span that came at now.
func (w *waiting) add(s *Span, now time.Time) {
	s.measure()
	w.spans[s.Key] = s
	if !s.Parent.IsZero() {
		if s.next = w.below[s.Parent]; s.next != nil {
			s.next.prev = s
		}
		w.below[s.Parent] = s
	}
	w.queue = append(w.queue, queued{s, now})
	w.bytes += s.size
}

// oldest takes the span that waits longest, with its relatives among the waiting
// ones; none if it went with theirs.
func (w *waiting) oldest() []*Span {
	s := w.queue[0].span
	w.queue[0] = queued{}
	if w.queue = w.queue[1:]; len(w.queue) == 0 {
		w.queue = nil
	}
	if s.taken {
		return nil
	}
	return w.gather(s)
}

// gather takes a span and all waiting spans that hang together with it. The
// list is good until the next call.
func (w *waiting) gather(s *Span) []*Span {
	top := s
	for range maxClimb {
		p := w.spans[top.Parent]
		if p == nil || p == s {
			break
		}
		top = p
	}
	top.taken = true
	all := append(w.all[:0], top)
	if top != s && !s.taken {
		// Where the way up was too long or a circle, s may not be below top.
		defer func() { s.taken = true }()
	}
	for i := 0; i < len(all); i++ {
		for c := w.below[all[i].Key]; c != nil; c = c.next {
			if !c.taken {
				c.taken = true
				all = append(all, c)
			}
		}
	}
	if !s.taken {
		s.taken = true
		all = append(all, s)
	}
	for _, m := range all {
		delete(w.spans, m.Key)
		w.leave(m)
		w.bytes -= m.size
	}
	w.all = all
	return all
}

// leave takes a span from the waiting children of its parent.
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
