package dftracerexporter

import "github.com/trainspan/trainspan/dftracer"

// maxClimb bounds the way up from a span; a sender can make circles.
const maxClimb = 1 << 12

// gather takes a span and all waiting spans that hang together with it.
func (t *trace) gather(s *span) []*span {
	top := s
	for range maxClimb {
		p := t.waiting[top.parent]
		if p == nil || p == s {
			break
		}
		top = p
	}
	top.taken = true
	all := []*span{top}
	if top != s && !s.taken {
		// Where the way up was too long or a circle, s may not be below top.
		defer func() { s.taken = true }()
	}
	for i := 0; i < len(all); i++ {
		for c := t.below[all[i].key]; c != nil; c = c.next {
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
		delete(t.waiting, m.key)
		t.leave(m)
		t.bytes -= m.size
	}
	return all
}

// leave takes a span from the waiting children of its parent.
func (t *trace) leave(s *span) {
	switch {
	case s.prev != nil:
		s.prev.next = s.next
	case t.below[s.parent] == s && s.next != nil:
		t.below[s.parent] = s.next
	case t.below[s.parent] == s:
		delete(t.below, s.parent)
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.next, s.prev = nil, nil
}

// writeFamily writes spans that hang together: first it finds their parents,
// then their lanes.
func (t *trace) writeFamily(all []*span) {
	members := make(map[spanKey]*span, len(all))
	for _, s := range all {
		members[s.key] = s
		s.self = t.family.claim(s.key)
		if s.own = s.self != nil; !s.own {
			s.self = &relative{key: s.key, id: t.w.NextID()}
		}
	}
	for _, s := range all {
		t.settle(s, members)
	}
	// What was written of a span keeps a lane for it, so it is placed by itself,
	// after what it may have to cover, and so are those above it.
	for _, s := range all {
		for p := s.up; p != nil && s.own && !p.own; p = p.up {
			p.own = true
		}
	}
	var heads []*span
	for _, s := range all {
		if s.up == nil || s.own {
			heads = append(heads, s)
		} else {
			s.up.down = append(s.up.down, s)
		}
	}
	for _, s := range all {
		s.level = depth(s)
	}
	for level := maxLevel(heads); level >= 0; level-- {
		for _, s := range heads {
			if s.level == level {
				t.writeHead(s)
			}
		}
	}
	t.announce()
}

// settle finds the parent of a span: the nearest ancestor that it lies within.
func (t *trace) settle(s *span, members map[spanKey]*span) {
	if s.parent.span.IsEmpty() {
		return
	}
	key := s.parent
	for range maxClimb {
		if p := members[key]; p != nil && p != s {
			if p.contains(s.start, s.end) && !p.circles(s) {
				s.up = p
				return
			}
			if p.parent.span.IsEmpty() {
				return
			}
			key = p.parent
			continue
		}
		r := t.expect(key)
		for r != nil && r.done && !r.contains(s.start, s.end) {
			r = r.parent
		}
		if r == nil {
			return
		}
		if m := members[r.key]; m != nil && m.self == r {
			key = r.key
			continue
		}
		s.above = r
		if !r.done {
			r.extend(s.start, s.end)
			t.touch(r)
		}
		return
	}
}

// circles tells whether s is above p already: spans of the same time may name
// each other.
func (p *span) circles(s *span) bool {
	for a := p; a != nil; a = a.up {
		if a == s {
			return true
		}
	}
	return false
}

func depth(s *span) (n int) {
	for p := s.up; p != nil; p = p.up {
		n++
	}
	return n
}

func maxLevel(heads []*span) (n int) {
	for _, s := range heads {
		n = max(n, s.level)
	}
	return n
}

// writeHead places a span with those below it that nothing was written of, and
// writes them.
func (t *trace) writeHead(head *span) {
	var parent uint64 // that may still come to cover the block
	switch {
	case head.up != nil:
		if !head.up.self.done {
			parent = head.up.self.id
		}
	case head.above != nil && !head.above.done:
		parent = head.above.id
	}
	lane, covered := t.lanes.place(head.self.id, parent, head.start, head.end)
	group := []*span{head}
	var aside []*span // children for which there is no room beside those written before
	for _, c := range head.down {
		if overlaps(covered, c) {
			aside = append(aside, c)
		} else {
			group = append(group, c)
		}
	}
	for i := 1; i < len(group); i++ {
		group = append(group, group[i].down...)
	}
	t.writeGroup(group, lane)
	for _, c := range aside {
		t.writeHead(c)
	}
}

func overlaps(runs []run, s *span) bool {
	for _, r := range runs {
		if r.start < s.end && s.start < r.end || r.start == s.start || r.end == s.end {
			return true
		}
	}
	return false
}

// writeGroup writes a span on its lane and those below it there or beside.
func (t *trace) writeGroup(group []*span, first int) {
	if len(group) == 1 {
		t.write(group[0], first)
		return
	}
	events := make([]dftracer.Event, len(group))
	for i, s := range group {
		events[i] = dftracer.Event{ID: s.self.id, TS: s.start, Dur: s.end - s.start, Level: s.level + 1}
		if i > 0 {
			events[i].Parent = int64(s.up.self.id)
		}
	}
	dftracer.AssignLanes(events, 0)
	// The packer's lanes other than the head's hold what runs beside it.
	blocks := map[int64]*run{}
	for i := range events {
		ev := &events[i]
		if ev.TID == events[0].TID {
			continue
		}
		b := blocks[ev.TID]
		if b == nil {
			b = &run{start: ev.TS, end: ev.End()}
			blocks[ev.TID] = b
		}
		b.start, b.end = min(b.start, ev.TS), max(b.end, ev.End())
	}
	where := map[int64]int{events[0].TID: first}
	for i := range events {
		tid := events[i].TID
		if _, known := where[tid]; !known {
			where[tid] = t.lanes.beside(blocks[tid].start, blocks[tid].end)
		}
		t.write(group[i], where[tid])
	}
}

// write writes a span on a lane.
func (t *trace) write(s *span, lane int) {
	parent := dftracer.NoParent
	switch {
	case s.up != nil:
		parent, s.self.parent = int64(s.up.self.id), s.up.self
	case s.above != nil:
		parent, s.self.parent = int64(s.above.id), s.above
	}
	s.self.start, s.self.end = s.start, s.end
	tid := t.tid(lane)
	t.w.WriteComplete(s.name, dftracer.Span{
		ID: s.self.id, TID: tid, TS: s.start, Dur: s.end - s.start, Parent: parent,
	}, s.args...)
	t.rec.spans++
	for i := range s.events {
		e := &s.events[i]
		if !s.self.marked(e.mark) {
			t.writeEvent(e, s.self.id, tid)
			s.self.mark(e.mark)
		}
	}
	t.family.arrived(s.self)
	s.down, s.up, s.above = nil, nil, nil
}
