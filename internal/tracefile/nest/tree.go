package nest

import (
	"cmp"
	"slices"
	"sort"
)

// Tree adds up the own time of the spans of one thread, added in any order:
// children before parents, as programs write them when spans end, or parents
// before children, as in sorted traces.
//
// It remembers a bounded number of spans. Beyond that it first forgets the
// insides of finished spans, then folds neighbouring siblings into one interval
// with only its busy time, and finally merges everything nested deeper than
// maxDepth.
type Tree struct {
	// Deep counts the spans that were nested too deep.
	Deep int64

	nodes []Node  // nodes[0] is the whole time axis
	first int64   // when the first child of nodes[0] began
	deep  bool    // nodes other than the spine may have children
	spine []int32 // the latest child of nodes[0], the latest child of that node, and so on
	free  int32   // unused nodes, linked by prev
	live  int
	limit int
}

// maxDepth is the depth to which spans are distinguished once there are more
// spans than a tree remembers.
const maxDepth = 4096

// Node is what a [Tree] remembers of a span: the time in which the thread
// belonged to it or to spans inside it. Siblings do not overlap.
type Node struct {
	start, end int64
	until      int64 // when the span ended
	busy       int64 // end-start; less for a folded interval
	name       int32 // noName for a folded interval
	kids       int32 // the latest child; 0 if none
	prev       int32 // the previous sibling; 0 if none
	level      int32 // depth according to the trace; 0 if unknown
}

const noName = -1

// NewTree returns a tree that remembers about limit spans. It reuses memory
// from [Tree.Rest], which may be nil.
func NewTree(nodes []Node, limit int) *Tree {
	return &Tree{nodes: append(nodes[:0], Node{}), limit: limit}
}

// Add adds a finished span. Its own time is added to own[name] and subtracted
// from the names that had this time before.
func (t *Tree) Add(start, end int64, name, level int32, own []int64) {
	if last := t.nodes[0].kids; last != 0 && t.nodes[last].end <= start && start < end { // it begins after all others
		at, n := t.alloc()
		n.start, n.end, n.until, n.busy, n.name, n.kids, n.prev, n.level = start, end, end, end-start, name, 0, last, level
		own[name] += end - start
		t.nodes[0].kids, t.spine = at, append(t.spine[:0], at)
		if t.live > t.limit {
			t.prune()
		}
		return
	}
	s := Node{start: start, end: end, until: end, name: name, level: level}
	// The spans of the spine are nested, so those around the new one come first.
	depth := sort.Search(len(t.spine), func(i int) bool { return !t.nodes[t.spine[i]].holds(&s) })
	parent, later, onSpine := int32(0), int32(0), true
	if depth > 0 {
		parent = t.spine[depth-1]
	}
	inside, outside := int64(0), int64(0) // the time of its children, and the time that the parent had
	cur := t.nodes[parent].kids
walk:
	for cur != 0 {
		n := &t.nodes[cur]
		if n.start < s.end {
			switch outlasts := n.start > start && n.until > s.until; { // a span that began inside the new one
			case outlasts && n.name != noName:
				s.end = n.start
			case outlasts:
				part := n.share(s.end - n.start)
				n.start, n.busy = s.end, n.busy-part
				inside, outside = part, part
			case n.holds(&s):
				parent, later, cur = cur, 0, n.kids
				continue
			default:
				break walk
			}
		}
		later, cur, onSpine = cur, n.prev, false
	}
	if parent != 0 && t.nodes[parent].name == noName { // the time of forgotten spans
		own[name] += s.end - start
		return
	}
	s.busy, s.prev = s.end-start, cur
	if cur != 0 && t.nodes[cur].end > start {
		rest, in, gone := t.take(&s, cur, 0, own)
		s.prev, inside, outside = rest, inside+in, outside+gone
	}
	at, n := t.alloc()
	*n = s
	if later != 0 {
		t.nodes[later].prev = at
	} else {
		t.nodes[parent].kids = at
	}
	switch {
	case !onSpine:
	case s.kids == 0:
		t.spine = append(t.spine[:depth], at)
	default: // the rest of the spine, from where it began in the new span, is inside it
		began, _ := slices.BinarySearchFunc(t.spine[depth:], start, func(n int32, start int64) int { return cmp.Compare(t.nodes[n].start, start) })
		t.spine = slices.Replace(t.spine, depth, depth+began, at)
	}
	own[name] += s.busy - inside
	if parent != 0 {
		own[t.nodes[parent].name] += outside - s.busy
	} else if s.prev == 0 {
		t.first = start
	}
	t.deep = t.deep || parent != 0 || s.kids != 0
	if t.live > t.limit {
		t.prune()
	}
}

// take gives a new span its part of existing spans. Siblings from list on that
// began in the new span become its children, after its last child so far. A
// sibling that began earlier and ends in the new span loses the time from there
// on, with the spans that began in it. take returns the remaining siblings, how
// much of the new span's time its children have, and how much time the siblings
// lost.
func (t *Tree) take(s *Node, list, last int32, own []int64) (rest int32, inside, gone int64) {
	first, tail := list, last
	for list != 0 && t.nodes[list].start >= s.start {
		inside += t.nodes[list].busy
		tail, list = list, t.nodes[list].prev
	}
	if tail != last {
		t.nodes[tail].prev = 0
		if last == 0 {
			s.kids = first
		} else {
			t.nodes[last].prev = first
		}
	}
	gone = inside
	if n := &t.nodes[list]; list != 0 && n.end > s.start {
		lost := n.share(n.end - s.start)
		n.end, n.busy, gone = s.start, n.busy-lost, gone+lost
		if n.name == noName {
			return list, inside + lost, gone
		}
		kids, in, freed := t.take(s, n.kids, tail, own)
		n.kids, inside = kids, inside+in
		own[n.name] += freed - lost
	}
	return list, inside, gone
}

// share returns how much of a part of its time a node is busy.
func (n *Node) share(part int64) int64 {
	if n.busy == n.end-n.start {
		return part
	}
	return int64(float64(n.busy) * float64(part) / float64(n.end-n.start))
}

// holds reports whether a new span belongs inside n. If both cover the same
// time, it does if its level is higher; otherwise it is the outer one, because it
// was written later.
func (n *Node) holds(s *Node) bool {
	return n.start < s.end && n.start <= s.start && n.end >= s.end && n.until >= s.until && (n.start < s.start || n.until > s.until || n.level < s.level)
}

// alloc returns an unused node, which the caller fills.
func (t *Tree) alloc() (int32, *Node) {
	t.live++
	at := t.free
	if at == 0 {
		t.nodes = append(t.nodes, Node{})
		at = int32(len(t.nodes) - 1)
		return at, &t.nodes[at]
	}
	n := &t.nodes[at]
	t.free = n.prev
	return at, n
}

func (t *Tree) release(at int32) {
	t.nodes[at].prev = t.free
	t.free = at
	t.live--
}

// releaseKids releases all nodes below a node.
func (t *Tree) releaseKids(at int32) {
	kid := t.nodes[at].kids
	t.nodes[at].kids = 0
	for kid != 0 {
		next := t.nodes[kid].prev
		t.releaseKids(kid)
		t.release(kid)
		kid = next
	}
}

// prune halves the number of nodes. It keeps the latest spans of every depth,
// because the next spans belong to them.
func (t *Tree) prune() {
	t.shrink(t.limit, keepLatest)
	if t.live > t.limit/2 {
		t.cut() // only a deep stack is left
		t.limit = max(t.limit, 2*t.live)
	}
	t.respine()
}

// shrink folds siblings, except some of the latest, until half of the limit is
// free.
func (t *Tree) shrink(limit, keep int) {
	for at := t.nodes[0].kids; t.deep && at != 0; at = t.nodes[at].kids {
		for old := t.nodes[at].prev; old != 0; old = t.nodes[old].prev {
			t.releaseKids(old)
		}
	}
	last := t.nodes[0].kids
	t.deep = t.nodes[last].kids != 0
	span := max(t.nodes[last].end-t.first, 1) // the time between the first and the last remembered span
	for most := span/int64(limit) + 1; t.live > limit/2 && most > 0 && most/4 <= span; most *= 2 {
		for at := int32(0); ; at = t.nodes[at].kids {
			t.fold(t.nodes[at].kids, most, keep)
			if t.nodes[at].kids == 0 {
				break
			}
		}
	}
}

// cut merges all nodes deeper than maxDepth into one interval.
func (t *Tree) cut() {
	at := int32(0)
	for range maxDepth {
		if at = t.nodes[at].kids; at == 0 {
			return
		}
	}
	before := t.live
	for n := &t.nodes[at]; n.prev != 0; {
		old := n.prev
		t.releaseKids(old)
		n.start, n.busy = t.nodes[old].start, n.busy+t.nodes[old].busy
		n.prev = t.nodes[old].prev
		t.release(old)
	}
	t.releaseKids(at)
	n := &t.nodes[at]
	n.until, n.name = n.end, noName
	t.Deep += int64(before - t.live)
}

// respine rebuilds the list of the latest spans of all depths.
func (t *Tree) respine() {
	t.spine = t.spine[:0]
	for at := t.nodes[0].kids; at != 0; at = t.nodes[at].kids {
		t.spine = append(t.spine, at)
	}
}

// Rest reduces a tree to what it needs if the next spans come from another file
// of the same thread: little more than the open spans. It returns the released
// memory.
func (t *Tree) Rest() (used []Node) {
	if t.live > restSpans {
		t.shrink(restSpans, 2)
	}
	packed := &Tree{nodes: make([]Node, 1, t.live+1), first: t.first, deep: t.deep, limit: t.limit, Deep: t.Deep}
	t.copyKids(packed, 0, 0)
	packed.respine()
	used, *t = t.nodes, *packed
	return used
}

// restSpans is how many spans a tree keeps of a finished file.
const restSpans = 16

// copyKids copies the nodes below a node.
func (t *Tree) copyKids(to *Tree, from, into int32) {
	last := int32(0)
	for kid := t.nodes[from].kids; kid != 0; kid = t.nodes[kid].prev {
		n := t.nodes[kid]
		n.kids, n.prev = 0, 0
		at, node := to.alloc()
		*node = n
		if last == 0 {
			to.nodes[into].kids = at
		} else {
			to.nodes[last].prev = at
		}
		last = at
		t.copyKids(to, kid, at)
	}
}

// keepLatest is how many of the latest siblings are not folded while the file
// is read.
const keepLatest = 32

// fold joins neighbouring siblings into intervals of at most most, so that long
// spans keep their bounds while short ones lose theirs. The siblings that it
// joins have no children any more.
func (t *Tree) fold(at int32, most int64, keep int) {
	for i := 0; i < keep && at != 0; i++ {
		at = t.nodes[at].prev
	}
	for at != 0 {
		n := &t.nodes[at]
		old := n.prev
		if old == 0 {
			return
		}
		o := &t.nodes[old]
		if n.end-o.start <= most {
			n.start, n.until, n.busy, n.name, n.prev = o.start, n.end, n.busy+o.busy, noName, o.prev
			t.release(old)
		}
		at = t.nodes[at].prev
	}
}
