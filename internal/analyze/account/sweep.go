package account

// sweep divides the time of one process among the open spans. Spans are opened and
// closed in time order; advance moves the time forward.
//
// The open spans form trees. Only leaves count: the own time of a span is the time
// that no child covers. Among several leaves the one with the lowest kind wins, and
// among leaves of the same kind the one that started last. The others overlap.
type sweep struct {
	now    int64
	nodes  []node  // by slot
	free   []int32 // slots to reuse
	leaves queue   // leaves that may win, the best first; some entries are stale
	opened uint64  // spans opened so far
	count  int     // spans open now
	top    int32   // the winner, or none

	// emit is called with the intervals in order. overlap is called with each
	// interval in which a leaf did not win, when it ends.
	emit    func(from, to int64, w what, p part)
	overlap func(from, to int64, w what)
}

const none int32 = -1

// what identifies the owner of an interval: an index in the category table of the
// attempt, or from firstIteration on an iteration.
type what int32

// part is what an iteration does in an interval.
type part uint8

const (
	partOther      part = iota // not covered by a span inside of the iteration
	partCompute                // forward, backward, optimizer or other compute spans
	partCollective             // collectives
)

// gap is the owner of time without open spans.
const gap what = -1

// firstIteration is the value of the first iteration.
const firstIteration what = 1 << 16

func (w what) iteration() (int, bool) { return int(w - firstIteration), w >= firstIteration }

type node struct {
	seq    uint64 // order of opening, from 1
	what   what
	rank   kind // its priority among leaves
	part   part
	aside  bool // runs beside the training: it never wins
	open   bool
	queued bool  // in the heap
	kids   int32 // open children that count for this node
	up     int32 // slot of the parent, or none
	upSeq  uint64
	loses  int64 // the time since which it is a leaf that does not win
}

// notLosing is the value of node.loses for a node that wins or is not a leaf.
const notLosing = int64(-1) << 63

// advance moves the time to t and assigns the time in between to the winner.
func (s *sweep) advance(t int64) {
	if t <= s.now {
		return
	}
	w, p := gap, partOther
	if s.top != none {
		w, p = s.nodes[s.top].what, s.nodes[s.top].part
	}
	s.emit(s.now, t, w, p)
	s.now = t
}

// start opens a span at the current time and returns its slot. The caller sets its
// parent with setParent, and calls settle once all spans of this time are open.
func (s *sweep) start(w what, rank kind, aside bool) int32 {
	var slot int32
	if n := len(s.free); n > 0 {
		slot, s.free = s.free[n-1], s.free[:n-1]
	} else {
		slot = int32(len(s.nodes))
		s.nodes = append(s.nodes, node{})
	}
	s.opened++
	s.count++
	queued := s.nodes[slot].queued
	s.nodes[slot] = node{seq: s.opened, what: w, rank: rank, aside: aside, open: true, queued: queued, up: none, loses: notLosing}
	s.leaf(slot)
	return slot
}

// setParent makes parent the parent of child.
func (s *sweep) setParent(child, parent int32) {
	c, p := &s.nodes[child], &s.nodes[parent]
	c.up, c.upSeq = parent, p.seq
	if c.aside && !p.aside {
		return // it does not take time from the parent
	}
	s.cover(parent)
}

// cover records that an open span loses its time to one more child, or to a span
// that outlasts it.
func (s *sweep) cover(slot int32) {
	n := &s.nodes[slot]
	if n.kids++; n.kids == 1 {
		s.noLeaf(slot)
	}
}

// end closes a span at the current time.
func (s *sweep) end(slot int32) {
	n := &s.nodes[slot]
	if n.kids == 0 {
		s.noLeaf(slot)
	}
	n.open = false
	s.count--
	up, upSeq := n.up, n.upSeq
	if up != none && s.nodes[up].open && s.nodes[up].seq == upSeq && !(n.aside && !s.nodes[up].aside) {
		p := &s.nodes[up]
		p.kids--
		if p.kids == 0 {
			s.leaf(up)
		}
	}
	if !n.queued {
		s.free = append(s.free, slot)
	}
}

// leaf makes an open span without open children a leaf.
func (s *sweep) leaf(slot int32) {
	n := &s.nodes[slot]
	n.loses = s.now
	if n.aside || n.queued {
		return
	}
	n.queued = true
	s.leaves.push(queueEntry{int64(n.rank)<<56 - int64(n.seq), slot, n.seq})
}

// noLeaf records that a span is no longer a leaf.
func (s *sweep) noLeaf(slot int32) {
	n := &s.nodes[slot]
	if n.loses != notLosing && n.loses < s.now {
		s.overlap(n.loses, s.now, n.what)
	}
	n.loses = notLosing
}

// best returns the slot of the leaf that wins from now on, or none.
func (s *sweep) best() int32 {
	for len(s.leaves) > 0 {
		slot := s.leaves[0].slot
		n := &s.nodes[slot]
		if n.open && n.kids == 0 {
			return slot
		}
		s.leaves.pop()
		n.queued = false
		if !n.open {
			s.free = append(s.free, slot)
		}
	}
	return none
}

// settle determines the winner once all spans of the current time are opened and
// closed.
func (s *sweep) settle() {
	top := s.best()
	if len(s.leaves) > 2*s.count+64 {
		s.compact()
	}
	if s.top != none && s.top != top {
		if n := &s.nodes[s.top]; n.open && n.kids == 0 {
			n.loses = s.now // it lost to another
		}
	}
	s.top = top
	if top != none {
		if n := &s.nodes[top]; n.loses != notLosing {
			if n.loses < s.now {
				s.overlap(n.loses, s.now, n.what)
			}
			n.loses = notLosing
		}
	}
}

// compact removes stale entries from the heap.
func (s *sweep) compact() {
	keep := s.leaves[:0]
	for _, e := range s.leaves {
		n := &s.nodes[e.slot]
		if n.open && n.kids == 0 {
			keep = append(keep, e)
			continue
		}
		n.queued = false
		if !n.open {
			s.free = append(s.free, e.slot)
		}
	}
	s.leaves = keep
	for i := len(keep)/2 - 1; i >= 0; i-- {
		keep.siftDown(i)
	}
}

// queue is a heap of open spans with the smallest key first.
type queue []queueEntry

// queueEntry is a span in a queue. The key of a leaf orders by kind, then the span that started
// last first. The key of an end is its time.
type queueEntry struct {
	key  int64
	slot int32
	seq  uint64
}

func (q *queue) push(e queueEntry) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].key <= e.key {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = e
	*q = h
}

func (q *queue) pop() queueEntry {
	h := *q
	first, n := h[0], len(h)-1
	h[0] = h[n]
	*q = h[:n]
	q.siftDown(0)
	return first
}

func (q queue) siftDown(i int) {
	if i >= len(q) {
		return
	}
	e := q[i]
	for {
		c := 2*i + 1
		if c >= len(q) {
			break
		}
		if c+1 < len(q) && q[c+1].key < q[c].key {
			c++
		}
		if e.key <= q[c].key {
			break
		}
		q[i], i = q[c], c
	}
	q[i] = e
}
