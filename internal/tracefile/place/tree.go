package place

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// maxOutlived is the number of ancestors that a span may outlive before it becomes a
// root.
const maxOutlived = 128

// maxKept is the number of spans for which an Assembler keeps memory between groups.
const maxKept = 256

// writeTree writes the spans of one tree: it finds their parents, then their lanes.
func (a *Assembler) writeTree(all []*Span) {
	for _, s := range all {
		s.own = s.self.expected
	}
	cover(all)
	for _, s := range all {
		a.settle(s)
	}
	// A span with children or events written before has a reserved lane. It is placed
	// separately, after the spans that it may have to cover, and so are its ancestors.
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
	for i, s := range all {
		all[i] = nil
		s.end()
	}
	clear(a.heads)
}

// cover extends spans over those of their children that arrived before them, in this
// call or an earlier one: the result does not depend on how spans are batched.
func cover(all []*Span) {
	for _, s := range slices.Backward(all) { // children before parents
		s.cover(s.self)
		if p := s.over.member(); p != nil && p.seq > s.seq {
			p.self.extend(s.Start, s.End)
		}
	}
}

// member returns the span if writeTree is writing it, or nil.
func (r *relative) member() *Span {
	if r == nil || r.span == nil || !r.span.taken {
		return nil
	}
	return r.span
}

// cover extends s over the earlier children and events that r records, if the difference
// is at most Slack.
func (s *Span) cover(r *relative) {
	if !r.spanned {
		return
	}
	if r.start < s.Start && s.Start-r.start <= Slack {
		s.Start = r.start
	}
	if r.end > s.End && r.end-s.End <= Slack {
		s.End = r.end
	}
}

// beginWith moves the start of a span that arrived after its parent to the parent's
// start, if the difference is at most Slack and the span has no child or event that
// starts earlier.
func (s *Span) beginWith(start int64) {
	if s.Start < start && start-s.Start <= Slack && (!s.self.spanned || s.self.start >= start) {
		s.Start, s.End = start, max(s.End, start)
	}
}

// settle finds the parent of a span in the file: the nearest ancestor that contains it
// in time.
func (a *Assembler) settle(s *Span) {
	if s.over == nil {
		return
	}
	over := s.over
	for outlived := 0; outlived < maxOutlived; outlived++ {
		if p := over.member(); p != nil && p != s {
			if outlived == 0 && p.seq < s.seq {
				s.beginWith(p.Start)
			}
			// Spans with equal times may name each other as parent.
			if p.contains(s.Start, s.End) && p.highest() != s {
				s.up, s.way = p, p
				return
			}
			if p.over == nil {
				return
			}
			over = p.over
			continue
		}
		r := a.expect(over)
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
		if r.member() != nil {
			over = r
			continue
		}
		s.above = r
		if !r.done {
			r.extend(s.Start, s.End)
		}
		return
	}
}

// writeHead places a span together with its new descendants, and writes them.
func (a *Assembler) writeHead(head *Span) {
	in := interval{start: head.Start, end: head.End, id: head.self.id, several: len(head.down) > 0}
	above := head.above
	if head.up != nil {
		above = head.up.self
	}
	near, open := -1, false // open: the parent may still arrive and cover the block
	if above != nil {
		in.parent, near, open = above.id, above.lane, !above.done
	}
	lane, covered := a.lanes.place(in, near, open)
	if len(head.down) == 0 {
		a.write(head, lane)
		return
	}
	group := []*Span{head}
	var aside []*Span // children that overlap those written before
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

// writeGroup writes a span on its lane, and its descendants on the same or on other
// lanes.
func (a *Assembler) writeGroup(group []*Span, first int) {
	events := slices.Grow(a.events[:0], len(group))[:len(group)]
	if len(group) <= maxKept {
		a.events = events
	}
	for i, s := range group {
		events[i] = dftracer.Event{ID: s.self.id, TS: s.Start, Dur: s.End - s.Start, Level: s.level + 1}
		if i > 0 {
			events[i].Parent = int64(s.up.self.id)
		}
	}
	tracefile.AssignLanes(events, 0)
	// The lanes of AssignLanes other than the head's hold spans that overlap those on
	// the head's lane.
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

// write writes one span and its events on a lane.
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
	self.start, self.end, self.spanned, self.lane = s.Start, s.End, true, lane
	tid := a.spanTID(lane)
	a.w.WriteComplete(s.Name, dftracer.Span{ID: self.id, TID: tid, TS: s.Start, Dur: s.End - s.Start, Parent: parent}, s.Args...)
	a.counts.Spans++
	a.writeEvents(s, tid)
	a.family.arrived(self)
	clear(s.down)
	s.down, s.up, s.way, s.above, s.marks = s.down[:0], nil, nil, nil, nil
}
