package place

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// maxOutlived is how many of the spans above it a span may outlive before it
// is taken for one without a parent.
const maxOutlived = 128

// writeTree writes spans that hang together: first it finds their parents,
// then their lanes.
func (a *Assembler) writeTree(all []*Span) {
	clear(a.members)
	for _, s := range all {
		if len(all) > 1 { // one span finds nothing there
			a.members[s.Key] = s
		}
		if s.own = s.self != nil; !s.own {
			s.self = &relative{key: s.Key, id: s.id}
		}
	}
	a.cover(all)
	for _, s := range all {
		a.settle(s)
	}
	// What was written of a span keeps a lane for it, so it is placed by itself,
	// after what it may have to cover, and so are those above it.
	for _, s := range all {
		for p := s.up; p != nil && s.own && !p.own; p = p.up {
			p.own = true
		}
	}
	heads := a.heads[:0]
	for _, s := range all {
		if s.up == nil || s.own {
			heads = append(heads, s)
		} else {
			s.up.down = append(s.up.down, s)
		}
	}
	for _, s := range all {
		s.count()
	}
	slices.SortStableFunc(heads, func(x, y *Span) int { return y.level - x.level })
	for _, s := range heads {
		a.writeHead(s)
	}
	a.heads = heads
	clear(all)
	clear(a.heads)
	a.announce()
}

// cover extends spans over those inside of them that came before them, alone or with
// them: how spans come together does not change what they are.
func (a *Assembler) cover(all []*Span) {
	for _, s := range slices.Backward(all) { // the inner ones first
		s.cover(s.self)
		if len(all) == 1 {
			return
		}
		if p := a.members[s.Parent]; p != nil && p.seq > s.seq {
			p.self.extend(s.Start, s.End)
		}
	}
}

// cover extends a span over what was written or came before it and is inside of it,
// where their clocks may disagree.
func (s *Span) cover(r *relative) {
	if r.end == 0 {
		return
	}
	if r.start < s.Start && s.Start-r.start <= Slack {
		s.Start = r.start
	}
	if r.end > s.End && r.end-s.End <= Slack {
		s.End = r.end
	}
}

// beginWith makes a span that came after the one around it begin with that where their
// clocks may disagree, unless it is around something that began before.
func (s *Span) beginWith(start int64) {
	if s.Start < start && start-s.Start <= Slack && (s.self.end == 0 || s.self.start >= start) {
		s.Start, s.End = start, max(s.End, start)
	}
}

// settle finds the parent of a span: the nearest ancestor that it lies within.
func (a *Assembler) settle(s *Span) {
	if s.Parent.IsZero() {
		return
	}
	key := s.Parent
	for outlived := 0; outlived < maxOutlived; outlived++ {
		if p := a.members[key]; p != nil && p != s {
			if outlived == 0 && p.seq < s.seq {
				s.beginWith(p.Start)
			}
			// Spans of the same time may name each other.
			if p.contains(s.Start, s.End) && p.highest() != s {
				s.up, s.way = p, p
				return
			}
			if p.Parent.IsZero() {
				return
			}
			key = p.Parent
			continue
		}
		r := a.expect(key)
		if outlived == 0 && r.done {
			s.beginWith(r.start)
		}
		for ; r != nil && r.done && !r.contains(s.Start, s.End) && outlived < maxOutlived; outlived++ {
			r = r.parent
		}
		if outlived >= maxOutlived {
			return
		}
		if r == nil || r == s.self {
			return
		}
		if m := a.members[r.key]; m != nil && m.self == r {
			key = r.key
			continue
		}
		s.above = r
		if !r.done {
			r.extend(s.Start, s.End)
			a.touch(r)
		}
		return
	}
}

// writeHead places a span with those below it that nothing was written of, and
// writes them.
func (a *Assembler) writeHead(head *Span) {
	in := interval{start: head.Start, end: head.End, id: head.self.id, several: len(head.down) > 0}
	above := head.above
	if head.up != nil {
		above = head.up.self
	}
	near, open := -1, false // the parent may still come to cover the block
	if above != nil {
		in.parent, near, open = above.id, above.lane, !above.done
	}
	lane, covered := a.lanes.place(in, near, open)
	if len(head.down) == 0 {
		a.write(head, lane)
		return
	}
	group := []*Span{head}
	var aside []*Span // children for which there is no room beside those written before
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
	a.writeGroup(group, lane)
	for _, c := range aside {
		a.writeHead(c)
	}
}

func overlaps(list []interval, s *Span) bool {
	for _, r := range list {
		if r.start < s.End && s.Start < r.end || r.start == s.Start || r.end == s.End {
			return true
		}
	}
	return false
}

// writeGroup writes a span on its lane and those below it there or beside.
func (a *Assembler) writeGroup(group []*Span, first int) {
	events := make([]dftracer.Event, len(group))
	for i, s := range group {
		events[i] = dftracer.Event{ID: s.self.id, TS: s.Start, Dur: s.End - s.Start, Level: s.level + 1}
		if i > 0 {
			events[i].Parent = int64(s.up.self.id)
		}
	}
	tracefile.AssignLanes(events, 0)
	// The packer's lanes other than the head's hold what runs beside it.
	blocks := map[int64]*interval{}
	for i := range events {
		ev := &events[i]
		if ev.TID == events[0].TID {
			continue
		}
		b := blocks[ev.TID]
		if b == nil {
			b = &interval{start: ev.TS, end: ev.End()}
			blocks[ev.TID] = b
		}
		b.start, b.end = min(b.start, ev.TS), max(b.end, ev.End())
	}
	where := map[int64]int{events[0].TID: first}
	for i := range events {
		tid := events[i].TID
		if _, known := where[tid]; !known {
			where[tid] = a.lanes.uncoveredLane(blocks[tid].start, blocks[tid].end)
		}
		a.write(group[i], where[tid])
	}
}

// write writes a span on a lane.
func (a *Assembler) write(s *Span, lane int) {
	self, parent := s.self, dftracer.NoParent
	if s.up != nil {
		self.parent = s.up.self
	} else {
		self.parent = s.above
	}
	if self.parent != nil {
		parent = int64(self.parent.id)
	}
	self.start, self.end, self.lane = s.Start, s.End, lane
	tid := a.tid(lane)
	a.w.WriteComplete(s.Name, dftracer.Span{ID: self.id, TID: tid, TS: s.Start, Dur: s.End - s.Start, Parent: parent}, s.Args...)
	a.counts.Spans++
	a.writeEvents(s, tid)
	a.family.arrived(self)
	clear(s.down)
	s.down, s.up, s.way, s.above, s.marks = s.down[:0], nil, nil, nil, nil
}
