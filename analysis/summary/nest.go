package summary

// A lane rebuilds which span encloses which on one pid and tid, from spans
// that come in any order: children before parents, as programs write them when
// spans end, or parents before children, as sorted traces have them. It calls
// adjust with what has to be added to the self time of a name.
//
// It remembers a bounded number of spans. When there are more, the insides of
// finished spans are forgotten first; then neighbouring siblings are folded
// into one stretch that knows only how much of it was busy.
type lane struct {
	nodes []node // nodes[0] is the whole time axis
	free  int32  // list of unused nodes, linked by prev
	live  int
	limit int
}

type node struct {
	start, end int64
	busy       int64 // end-start; less for a folded stretch
	name       int32 // noName for a folded stretch
	kids       int32 // the latest child; 0 is none
	prev       int32 // the next earlier sibling; 0 is none
	level      int32 // depth according to the trace; 0 is unknown
}

const noName = -1

func newLane(limit int) *lane {
	return &lane{nodes: make([]node, 1, 16), limit: limit}
}

// add takes a finished span. Of two that cover the same time, the one with the
// lower level is around the other; without levels it is the later one, because
// spans are written when they end.
func (l *lane) add(start, end int64, name, level int32, self []int64) {
	dur := end - start
	self[name] += dur
	parent, before := int32(0), int32(0)
	cur := l.nodes[0].kids
	for cur != 0 {
		n := &l.nodes[cur]
		switch {
		case n.start >= end || n.end > end && n.start > start: // later, or a partial overlap
			before, cur = cur, n.prev
			continue
		case n.start >= start && n.end <= end && !n.around(start, end, level): // inside of the new span
		case n.start <= start && n.end >= end: // around it
			if n.name == noName {
				return // of a time whose spans are forgotten
			}
			parent, before, cur = cur, 0, n.kids
			continue
		}
		break
	}
	adopted := l.place(node{start: start, end: end, busy: dur, name: name, level: level}, parent, before, cur)
	self[name] -= adopted
	if parent != 0 {
		self[l.nodes[parent].name] += adopted - dur
	}
	if l.live > l.limit {
		l.prune()
	}
}

// around reports whether a span over the same time belongs inside of n.
func (n *node) around(start, end int64, level int32) bool {
	return n.start == start && n.end == end && n.level > 0 && level > n.level
}

// place puts a node among the children of parent, between the later sibling
// before and the earlier one cur, and gives it those that are inside of it. It
// returns how much of its time these are busy.
func (l *lane) place(n node, parent, before, cur int32) (adopted int64) {
	first, last := cur, int32(0)
	for cur != 0 && l.nodes[cur].start >= n.start && l.nodes[cur].end <= n.end {
		adopted += l.nodes[cur].busy
		last, cur = cur, l.nodes[cur].prev
	}
	if last != 0 {
		n.kids = first
		l.nodes[last].prev = 0
	}
	if cur != 0 {
		// A folded stretch that begins before the span: what lies inside is
		// taken to be as busy as the rest of it.
		if f := &l.nodes[cur]; f.name == noName && f.end > n.start && f.end <= n.end && f.start < n.start {
			part := int64(float64(f.busy) * float64(f.end-n.start) / float64(f.end-f.start))
			adopted += part
			f.end, f.busy = n.start, f.busy-part
		}
	}
	n.prev = cur
	at := l.alloc(n)
	if before != 0 {
		l.nodes[before].prev = at
	} else {
		l.nodes[parent].kids = at
	}
	return adopted
}

func (l *lane) alloc(n node) int32 {
	l.live++
	if at := l.free; at != 0 {
		l.free = l.nodes[at].prev
		l.nodes[at] = n
		return at
	}
	l.nodes = append(l.nodes, n)
	return int32(len(l.nodes) - 1)
}

func (l *lane) release(at int32) {
	l.nodes[at] = node{prev: l.free}
	l.free = at
	l.live--
}

// releaseKids forgets everything below a node.
func (l *lane) releaseKids(at int32) {
	kid := l.nodes[at].kids
	l.nodes[at].kids = 0
	for kid != 0 {
		next := l.nodes[kid].prev
		l.releaseKids(kid)
		l.release(kid)
		kid = next
	}
}

// prune halves what is remembered. The latest spans of every depth are kept:
// the next ones belong to them.
func (l *lane) prune() {
	for at := l.nodes[0].kids; at != 0; at = l.nodes[at].kids {
		for old := l.nodes[at].prev; old != 0; old = l.nodes[old].prev {
			l.releaseKids(old)
		}
	}
	span := l.extent()
	for most := span/int64(l.limit) + 1; l.live > l.limit/2 && most > 0 && most/4 <= span; most *= 2 {
		for at := int32(0); ; at = l.nodes[at].kids {
			l.fold(l.nodes[at].kids, most)
			if l.nodes[at].kids == 0 {
				break
			}
		}
	}
	if l.live > l.limit/2 {
		l.limit = 2 * l.live // nothing is left but a deep stack
	}
}

// extent is the time between the first and the last span that is remembered.
func (l *lane) extent() int64 {
	at := l.nodes[0].kids
	last := l.nodes[at].end
	for l.nodes[at].prev != 0 {
		at = l.nodes[at].prev
	}
	return max(last-l.nodes[at].start, 1)
}

// keepLatest is how many of the latest siblings are never folded.
const keepLatest = 32

// fold joins neighbouring siblings to stretches no longer than most, so that a
// long span keeps its bounds while the short ones around it lose theirs.
func (l *lane) fold(at int32, most int64) {
	for i := 0; i < keepLatest && at != 0; i++ {
		at = l.nodes[at].prev
	}
	for at != 0 {
		n := &l.nodes[at]
		old := n.prev
		if old == 0 {
			return
		}
		o := &l.nodes[old]
		if start, end := min(n.start, o.start), max(n.end, o.end); end-start <= most {
			l.releaseKids(at)
			l.releaseKids(old)
			n.start, n.end, n.busy, n.name, n.prev = start, end, min(n.busy+o.busy, end-start), noName, o.prev
			l.release(old)
		}
		at = l.nodes[at].prev
	}
}
