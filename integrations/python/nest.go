package python

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
)

// maxWaiting is how many finished spans wait for the one around them before it
// gets its id without having come.
const maxWaiting = 64

// thread puts the spans of a thread below each other. A slot says at which
// depth its span stood on the stack of open spans; what is below it came
// earlier, and what is above it comes later.
type thread struct {
	tid    int64
	number uint32
	levels []level // by depth, from 1
	known  []began // spans whose begin was written
	ends   []int64 // of the last spans, by depth
	lanes  []lane
}

// level is what is known of the span that is open at a depth.
type level struct {
	gap     bool // it has ended, and something that began inside it has not
	id      uint64
	start   int64 // that a begin slot said, or 0
	node    *node
	args    []dftracer.Arg // of the begin slot
	first   int64          // the earliest start of a child that has the id, and the
	last    int64          // latest end
	waiting []span         // and what is below them
	size    int            // how many that are in all
}

// span is one that ended, or is open, on its way to the file.
type span struct {
	node       *node
	id         uint64
	start, end int64 // nanoseconds
	thread     *thread
	aside      bool // it began before the span before it ended
	level      int
	args       []dftracer.Arg
	below      []span // what waits with it
	size       int    // of that, and one
}

// began is a span whose begin record was written.
type began struct {
	node  *node
	start int64
	id    uint64
}

// reach makes the levels reach to a depth.
func (t *thread) reach(depth int) {
	for len(t.levels) <= depth {
		t.levels = append(t.levels, level{})
	}
	for len(t.ends) <= depth {
		t.ends = append(t.ends, 0)
	}
}

// above gives the depth of the span around what stands at a depth, 0 for none,
// and the level of what stands there.
func (t *thread) above(depth int) (outer, number int) {
	number = 1
	for k := depth - 1; k > 0; k-- {
		if !t.levels[k].gap {
			if outer == 0 {
				outer = k
			}
			number++
		}
	}
	return outer, number
}

// end takes a span that ended at a depth.
func (p *process) end(t *thread, s span, depth int, crossed bool) {
	t.reach(depth)
	outer, _ := t.above(depth)
	l := &t.levels[depth]
	switch {
	case l.start != 0 && (l.start != s.start || l.node != s.node), l.start == 0 && l.first != 0 && l.first < s.start:
		l.id = 0 // of a span whose slot was lost
	default:
		if l.first != 0 { // what was written below it lies inside it
			s.start, s.end = min(s.start, l.first), max(s.end, l.last)
		}
		if len(l.args) > 0 {
			s.args = both(l.args, s.args)
		}
	}
	s.aside = s.start/1000 < t.ends[depth]/1000
	t.ends[depth] = max(t.ends[depth], s.end)
	s.id = l.id
	if i := t.began(s.start); i >= 0 {
		s.id = t.known[i].id
		t.known = slices.Delete(t.known, i, i+1)
	}
	s.size = 1
	waiting := l.waiting
	waiting = append(waiting, t.leave(depth, crossed)...)
	for i := range waiting {
		w := &waiting[i]
		if w.start < s.start || w.end > s.end { // by times that the program gave
			p.hand(t, w, outer)
			continue
		}
		if s.below == nil {
			s.below = waiting[:0]
		}
		s.below = append(s.below, *w)
		s.size += w.size
	}
	if len(s.below) == 0 {
		p.spareSpans(waiting)
	}
	p.hand(t, &s, outer)
}

// leave takes a span off its level. It gives what waited below it for spans that
// have not come.
func (t *thread) leave(depth int, crossed bool) (orphans []span) {
	t.levels[depth] = level{}
	if crossed {
		t.levels[depth].gap = true
		return nil
	}
	orphans = t.clear(depth + 1)
	for k := depth - 1; k > 0 && t.levels[k].gap; k-- {
		t.levels[k].gap = false
	}
	return orphans
}

// clear empties the levels from a depth on, and gives what waited there.
func (t *thread) clear(depth int) (orphans []span) {
	for k := depth; k < len(t.levels); k++ {
		orphans = append(orphans, t.levels[k].waiting...)
		t.levels[k] = level{}
	}
	return orphans
}

// hand gives a span to the one around it: to wait for that, or to be written.
func (p *process) hand(t *thread, s *span, outer int) {
	for outer != 0 && s.start < t.levels[outer].start { // by a time that the program gave
		outer, _ = t.above(outer)
	}
	s.level = 1
	if outer == 0 {
		p.write(s, 0)
		return
	}
	_, number := t.above(outer)
	s.level += number
	l := &t.levels[outer]
	if l.id == 0 {
		if n := len(p.spans); l.waiting == nil && n > 0 {
			l.waiting, p.spans = p.spans[n-1], p.spans[:n-1]
		}
		l.waiting = append(l.waiting, *s)
		if l.size += s.size; l.size >= maxWaiting {
			p.settle(t, outer)
		}
		return
	}
	l.cover(s)
	p.write(s, l.id)
}

// cover notes a child that is written.
func (l *level) cover(s *span) {
	l.first, l.last = earlier(l.first, s.start), max(l.last, s.end)
}

func earlier(a, b int64) int64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// spareSpans keeps a list for later.
func (p *process) spareSpans(list []span) {
	if cap(list) > 0 && len(p.spans) < maxSpare {
		clear(list)
		p.spans = append(p.spans, list[:0])
	}
}

// settle gives an open span, and those around it, their ids and writes what waits
// for them. With ids they are not dropped without a trace, so that what was
// written keeps its place.
func (p *process) settle(t *thread, depth int) uint64 {
	for k := 1; k <= depth; k++ {
		l := &t.levels[k]
		if l.gap {
			continue
		}
		if l.id == 0 {
			l.id = p.w.NextID()
		}
		waiting := l.waiting
		l.waiting, l.size = nil, 0
		for i := range waiting {
			l.cover(&waiting[i])
			p.write(&waiting[i], l.id)
		}
		p.spareSpans(waiting)
	}
	return t.levels[depth].id
}

// settleAll does so for all that waits on a thread.
func (p *process) settleAll(t *thread) {
	for depth := len(t.levels) - 1; depth > 0; depth-- {
		if len(t.levels[depth].waiting) > 0 {
			p.settle(t, depth)
			return
		}
	}
}

// begin takes the begin of a span.
func (p *process) begin(t *thread, s span, depth int) {
	t.reach(depth)
	outer, _ := t.above(depth)
	orphans := t.clear(depth)
	t.levels[depth] = level{start: s.start, node: s.node, args: s.args}
	for i := range orphans {
		p.hand(t, &orphans[i], outer)
	}
}

// both gives the arguments of the begin of a span with those of its end, which
// win.
func both(begin, end []dftracer.Arg) []dftracer.Arg {
	for _, a := range end {
		begin = upsert(begin, a)
	}
	return begin
}

// drop forgets an open span: what is below it belongs to the one around it. One
// that was written of already becomes an unfinished span of no category.
func (p *process) drop(t *thread, s span, depth int, crossed bool) {
	t.reach(depth)
	outer, _ := t.above(depth)
	l := &t.levels[depth]
	waiting := l.waiting
	s.id = l.id
	if i := t.began(s.start); i >= 0 {
		s.id = t.known[i].id
		t.known = slices.Delete(t.known, i, i+1)
	}
	waiting = append(waiting, t.leave(depth, crossed)...)
	if s.id != 0 {
		s.below = waiting
		s.node = &p.unfinished
		p.hand(t, &s, outer)
		return
	}
	for i := range waiting {
		p.hand(t, &waiting[i], outer)
	}
	p.spareSpans(waiting)
}

func (t *thread) began(start int64) int {
	for i := range t.known {
		if t.known[i].start == start {
			return i
		}
	}
	return -1
}

// announce writes begin records of open spans: those that a begin slot said,
// and those that the cells of the ring show, all of them from before a time.
func (p *process) announce(t *thread, cells []began, before int64) {
	slices.SortFunc(cells, func(a, b began) int { return int(min(max(a.start-b.start, -1), 1)) })
	var parent uint64
	number := 0
	for depth := 1; depth < len(t.levels) || len(cells) > 0; depth++ {
		t.reach(depth)
		l := &t.levels[depth]
		if l.gap {
			continue
		}
		open := began{l.node, l.start, l.id}
		if l.start == 0 {
			if len(cells) == 0 {
				continue // nothing is known of it
			}
			open.node, open.start = cells[0].node, cells[0].start
			cells = cells[1:]
		}
		if open.start > before {
			return
		}
		number++
		open.id = p.settle(t, depth)
		if t.began(open.start) < 0 {
			t.known = append(t.known, open)
			p.w.Begin(p.event(&span{node: open.node, id: open.id, start: open.start, end: open.start, thread: t, level: number, args: both(p.arguments(open.node, open.start, p.args[:0], nil), l.args)}, parent))
		}
		parent = open.id
	}
}
