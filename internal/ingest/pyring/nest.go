package pyring

import (
	"maps"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

const (
	// maxWaiting is how many finished spans wait for the span around them. Above it
	// that span gets its id early.
	maxWaiting = 64
)

// emptyProcess returns a process before reading.
func emptyProcess(src *source) *process {
	return &process{
		source: src, threads: make(map[uint32]*thread), most: maxThreads,
		unfinished: node{key: dftracer.NewKey(dftracer.CatDFTracer, "unfinished"), epoch: -1, step: -1},
	}
}

// maxThreads is how many threads are kept at least. A program may start threads
// without end.
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

// end handles a span that ended at a depth.
func (p *process) end(t *thread, s span, depth int, crossed bool) {
	p.relay.ended(t, &s, depth, crossed)
	outer, _ := t.outerSpan(depth)
	l := t.peek(depth)
	for len(t.ends) <= depth {
		t.ends = append(t.ends, 0)
	}
	switch {
	case l.start != 0 && (l.start != s.start || l.node != s.node), l.start == 0 && l.first != 0 && l.first < s.start:
		l.id = 0 // of a span whose slot was lost
	default:
		if l.first != 0 { // spans written below it are inside it
			s.start, s.end = min(s.start, l.first), max(s.end, l.last)
		}
		if len(l.args) > 0 {
			s.args = mergeArgs(l.args, s.args)
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
		if w.start < s.start || w.end > s.end { // if the program set the times
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

// hand passes a span to the one around it: to wait for that, or to be written.
func (p *process) hand(t *thread, s *span, outer int) {
	for outer != 0 {
		if s.start >= t.peek(outer).start {
			break
		}
		outer, _ = t.outerSpan(outer) // if the program set the time
	}
	s.level = 1
	if outer == 0 {
		p.write(s, 0)
		return
	}
	_, number := t.outerSpan(outer)
	s.level += number
	l := t.levelAt(outer)
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

// settle assigns ids to the open spans between two depths and writes the spans
// that wait for them. Spans with an id are written as unfinished if they are
// dropped, so that their children keep their parents.
func (p *process) settle(t *thread, from, depth int) uint64 {
	for k := from; k <= depth; k++ {
		l := t.levelAt(k)
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
	return t.levelAt(depth).id
}

// settleAll writes everything that waits on a thread.
func (p *process) settleAll(t *thread) {
	for _, l := range slices.Backward(t.levels) {
		if len(l.waiting) > 0 {
			p.settle(t, 1, l.depth)
			return
		}
	}
}

// begin handles the begin of a span.
func (p *process) begin(t *thread, s span, depth int) {
	p.relay.begun(t, &s, depth)
	outer, _ := t.outerSpan(depth)
	orphans := t.clear(depth)
	l := t.levelAt(depth)
	l.start, l.node, l.args = s.start, s.node, s.args
	for i := range orphans {
		p.hand(t, &orphans[i], outer)
	}
}

// mergeArgs returns the arguments of a span's begin with those of its end,
// which win.
func mergeArgs(begin, end []dftracer.Arg) []dftracer.Arg {
	for _, a := range end {
		begin = upsert(begin, a)
	}
	return begin
}

// drop forgets an open span: its children belong to the span around it. A span
// with written children becomes an unfinished span without a category.
func (p *process) drop(t *thread, s span, depth int, crossed bool) {
	p.relay.dropped(t, &s, depth, crossed)
	outer, _ := t.outerSpan(depth)
	l := t.peek(depth)
	waiting := l.waiting
	s.id = t.ended(&s, depth, l.id)
	waiting = append(waiting, t.leave(depth, crossed)...)
	if s.id != 0 {
		s.below = waiting
		s.node, s.args = &p.unfinished, []dftracer.Arg{dftracer.Int(place.ArgTruncated, 1)}
		p.hand(t, &s, outer)
		return
	}
	for i := range waiting {
		p.hand(t, &waiting[i], outer)
	}
	p.spareSpans(waiting)
}

// announce writes begin records of spans that are open since before a time:
// those with a begin slot, and those in the cells of the ring buffer.
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
				continue // nothing is known about it
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
			args := mergeArgs(p.arguments(open.node, open.start, first, nil), l.args)
			p.relay.began(t, open.node, open.start, depth, args)
			tracefile.WriteBegin(p.w, p.event(&span{node: open.node, id: open.id, start: open.start, end: open.start, thread: t, level: number, args: args}, parent))
		}
		parent = open.id
	}
}
