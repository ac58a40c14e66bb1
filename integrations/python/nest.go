package python

import (
	"maps"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ring"
)

const (
	// maxWaiting is how many finished spans wait for the one around them before it
	// gets its id without having come.
	maxWaiting = 64
	// maxDepth is how deep spans nest; what is deeper lies side by side there.
	maxDepth = 1024
)

// thread puts the spans of a thread below each other. A slot says at which
// depth its span stood on the stack of open spans; what is below it came
// earlier, and what is above it comes later.
type thread struct {
	tid    int64
	number uint32
	levels []level         // by depth, those of which something is known
	known  map[int64]began // spans whose begin was written, by their start
	ends   []int64         // of the last spans, by depth
	given  bool            // its number is one that the program gave: spans come there in any order
	lanes  []lane
	open   []known   // by depth, of which the relay knows
	held   []waiting // by depth
}

// level is what is known of the span that is open at a depth.
type level struct {
	depth   int  // from 1
	gaps    int  // levels below it that are one
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
	depth int
	id    uint64
}

// maxThreads is how many threads are kept at least. A program may start threads
// for ever.
const maxThreads = 1024

func (p *process) thread(t *ring.Thread) *thread {
	th := p.threads[t.Number]
	if th == nil {
		if len(p.threads) >= p.most {
			maps.DeleteFunc(p.threads, func(_ uint32, t *thread) bool { return len(t.levels)+len(t.known)+len(t.open)+len(t.held) == 0 })
			p.most = max(2*len(p.threads), maxThreads)
		}
		th = &thread{tid: t.TID, number: t.Number, given: t.Lane}
		p.threads[t.Number] = th
	}
	return th
}

// find returns the place of the first level that is not above a depth.
func (t *thread) find(depth int) int {
	n := len(t.levels)
	switch { // mostly it is one of the last
	case n == 0 || t.levels[n-1].depth < depth:
		return n
	case t.levels[n-1].depth == depth || n > 1 && t.levels[n-2].depth < depth:
		return n - 1
	}
	i, _ := slices.BinarySearchFunc(t.levels, depth, func(l level, depth int) int { return l.depth - depth })
	return i
}

// peek returns what is known of a depth, for reading.
func (t *thread) peek(depth int) *level {
	if i := t.find(depth); i < len(t.levels) && t.levels[i].depth == depth {
		return &t.levels[i]
	}
	return &unknown
}

var unknown level

// at returns the level at a depth.
func (t *thread) at(depth int) *level {
	i := t.find(depth)
	if i == len(t.levels) || t.levels[i].depth != depth {
		t.levels = slices.Insert(t.levels, i, level{depth: depth, gaps: t.gaps(i)})
	}
	return &t.levels[i]
}

// gaps counts them among the first levels.
func (t *thread) gaps(i int) int {
	switch {
	case i == 0:
		return 0
	case t.levels[i-1].gap:
		return t.levels[i-1].gaps + 1
	}
	return t.levels[i-1].gaps
}

// above returns the depth of the span around what stands at a depth, 0 for none,
// and the level of what stands there.
func (t *thread) above(depth int) (outer, number int) {
	i := t.find(depth)
	outer = depth - 1
	for k := i - 1; k >= 0 && t.levels[k].gap && t.levels[k].depth == outer; k-- {
		outer--
	}
	return outer, depth - t.gaps(i)
}

// end takes a span that ended at a depth.
func (p *process) end(t *thread, s span, depth int, crossed bool) {
	p.relay.ended(t, &s, depth, crossed)
	outer, _ := t.above(depth)
	l := t.peek(depth)
	for len(t.ends) <= depth {
		t.ends = append(t.ends, 0)
	}
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
	s.aside = !t.given && s.node.numbers[1] == "" && s.start/1000 < t.ends[depth]/1000
	t.ends[depth] = max(t.ends[depth], s.end)
	s.id = t.ended(&s, depth, l.id)
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

// ended returns the id of a span, which its begin has said if that was written. Another
// one may have begun at the same time. One that is called something else by its end is
// known by its depth, and one whose depth was guessed by its name.
func (t *thread) ended(s *span, depth int, id uint64) uint64 {
	if b, ok := t.known[s.start]; ok && (b.node == s.node || b.depth == depth) {
		delete(t.known, s.start)
		return b.id
	}
	return id
}

// leave takes a span off its level. It returns what waited below it for spans that
// have not come.
func (t *thread) leave(depth int, crossed bool) (orphans []span) {
	if crossed {
		l := t.at(depth)
		was := l.gap
		*l = level{depth: depth, gaps: l.gaps, gap: true}
		if !was {
			for i := t.find(depth + 1); i < len(t.levels); i++ {
				t.levels[i].gaps++
			}
		}
		return nil
	}
	if l := t.peek(depth); l != &unknown {
		l.waiting = nil
	}
	orphans = t.clear(depth)
	for n := len(t.levels) - 1; n >= 0 && t.levels[n].gap && t.levels[n].depth == depth-1; n-- {
		t.levels = t.levels[:n]
		depth--
	}
	return orphans
}

// clear empties the levels from a depth on, and returns what waited there.
func (t *thread) clear(depth int) (orphans []span) {
	i := t.find(depth)
	for k := i; k < len(t.levels); k++ {
		orphans = append(orphans, t.levels[k].waiting...)
	}
	clear(t.levels[i:])
	t.levels = t.levels[:i]
	return orphans
}

// hand hands a span to the one around it: to wait for that, or to be written.
func (p *process) hand(t *thread, s *span, outer int) {
	for outer != 0 {
		if s.start >= t.peek(outer).start {
			break
		}
		outer, _ = t.above(outer) // by a time that the program gave
	}
	s.level = 1
	if outer == 0 {
		p.write(s, 0)
		return
	}
	_, number := t.above(outer)
	s.level += number
	l := t.at(outer)
	if l.id == 0 {
		if n := len(p.spans); l.waiting == nil && n > 0 {
			l.waiting, p.spans = p.spans[n-1], p.spans[:n-1]
		}
		l.waiting = append(l.waiting, *s)
		if l.size += s.size; l.size >= maxWaiting {
			p.settle(t, 1, outer)
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

// settle gives the open spans between two depths their ids and writes what waits
// for them. With ids those around one are not dropped without a trace, so that
// what was written keeps its place.
func (p *process) settle(t *thread, from, depth int) uint64 {
	for k := from; k <= depth; k++ {
		l := t.at(k)
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
	return t.at(depth).id
}

// settleAll does so for all that waits on a thread.
func (p *process) settleAll(t *thread) {
	for _, l := range slices.Backward(t.levels) {
		if len(l.waiting) > 0 {
			p.settle(t, 1, l.depth)
			return
		}
	}
}

// begin takes the begin of a span.
func (p *process) begin(t *thread, s span, depth int) {
	p.relay.begun(t, &s, depth)
	outer, _ := t.above(depth)
	orphans := t.clear(depth)
	l := t.at(depth)
	l.start, l.node, l.args = s.start, s.node, s.args
	for i := range orphans {
		p.hand(t, &orphans[i], outer)
	}
}

// both returns the arguments of the begin of a span with those of its end, which
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
	p.relay.dropped(t, &s, depth, crossed)
	outer, _ := t.above(depth)
	l := t.peek(depth)
	waiting := l.waiting
	s.id = t.ended(&s, depth, l.id)
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

// announce writes begin records of open spans: those that a begin slot said,
// and those that the cells of the ring show, all of them from before a time.
func (p *process) announce(t *thread, cells []began, before int64) {
	slices.SortFunc(cells, func(a, b began) int { return int(min(max(a.start-b.start, -1), 1)) })
	var parent uint64
	number, settled, deepest := 0, 0, 0
	if n := len(t.levels); n > 0 {
		deepest = t.levels[n-1].depth
	}
	for depth := 1; depth <= deepest || len(cells) > 0; depth++ {
		l := *t.peek(depth)
		if l.gap {
			continue
		}
		open := began{l.node, l.start, depth, l.id}
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
		open.id = p.settle(t, settled+1, depth)
		settled = depth
		if _, ok := t.known[open.start]; !ok {
			if t.known == nil {
				t.known = make(map[int64]began)
			}
			t.known[open.start] = open
			first := p.args[:0]
			if open.node.group != "" {
				first = append(first, dftracer.Int(argNumber, p.numbers[open.node.group]+1))
			}
			args := both(p.arguments(open.node, open.start, first, nil), l.args)
			p.relay.began(t, open.node, open.start, depth, args)
			p.w.Begin(p.event(&span{node: open.node, id: open.id, start: open.start, end: open.start, thread: t, level: number, args: args}, parent))
		}
		parent = open.id
	}
}
