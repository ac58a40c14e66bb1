package pyring

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// maxDepth is how deep spans nest; deeper ones are siblings there.
const maxDepth = 1024

// thread nests the spans of a thread. A slot has the depth of its span on the
// stack of open spans; spans inside it came earlier, and spans around it come
// later.
type thread struct {
	tid    int64
	number uint32
	levels []level         // by depth, only those with something known
	known  map[int64]began // spans with a begin record, by their start
	ends   []int64         // of the last spans, by depth
	given  bool            // the program numbers it: spans come in any order
	rows   place.Rows
	open   []known   // by depth, for the relay
	held   []waiting // by depth
}

// level is what is known about the open span at a depth.
type level struct {
	depth   int  // from 1
	gaps    int  // levels below it that are gaps
	gap     bool // it has ended, but a span inside it has not
	id      uint64
	start   int64 // from its begin slot, or 0
	node    *node
	args    []dftracer.Arg // from its begin slot
	first   int64          // the earliest start of a written child, and the
	last    int64          // latest end
	waiting []span         // with those below them
	size    int            // their total number
}

// span is an ended or open span to be written.
type span struct {
	node       *node
	id         uint64
	start, end int64 // nanoseconds
	thread     *thread
	aside      bool // it began before the previous span ended
	level      int
	args       []dftracer.Arg
	below      []span // spans that wait with it
	size       int    // the number of those, plus one
}

// began is a span with a begin record.
type began struct {
	node  *node
	start int64
	depth int
	id    uint64
}

// find returns the index of the first level at or below a depth.
func (t *thread) find(depth int) int {
	n := len(t.levels)
	switch { // it is mostly one of the last
	case n == 0 || t.levels[n-1].depth < depth:
		return n
	case t.levels[n-1].depth == depth || n > 1 && t.levels[n-2].depth < depth:
		return n - 1
	}
	i, _ := slices.BinarySearchFunc(t.levels, depth, func(l level, depth int) int { return l.depth - depth })
	return i
}

// peek returns the level at a depth for reading, or nil.
func (t *thread) peek(depth int) *level {
	if i := t.find(depth); i < len(t.levels) && t.levels[i].depth == depth {
		return &t.levels[i]
	}
	return &unknown
}

var unknown level

// levelAt returns the level at a depth.
func (t *thread) levelAt(depth int) *level {
	i := t.find(depth)
	if i == len(t.levels) || t.levels[i].depth != depth {
		t.levels = slices.Insert(t.levels, i, level{depth: depth, gaps: t.gaps(i)})
	}
	return &t.levels[i]
}

// gaps counts the gaps among the first i levels.
func (t *thread) gaps(i int) int {
	switch {
	case i == 0:
		return 0
	case t.levels[i-1].gap:
		return t.levels[i-1].gaps + 1
	}
	return t.levels[i-1].gaps
}

// outerSpan returns the depth of the span around a depth, 0 for none, and the
// level number of that depth.
func (t *thread) outerSpan(depth int) (outer, number int) {
	i := t.find(depth)
	outer = depth - 1
	for k := i - 1; k >= 0 && t.levels[k].gap && t.levels[k].depth == outer; k-- {
		outer--
	}
	return outer, depth - t.gaps(i)
}

// ended returns the id of a span, from its begin record if there is one.
// Another span may have begun at the same time. A span with another name at its
// end is identified by its depth, and one with a guessed depth by its name.
func (t *thread) ended(s *span, depth int, id uint64) uint64 {
	if b, ok := t.known[s.start]; ok && (b.node == s.node || b.depth == depth) {
		delete(t.known, s.start)
		if l := t.peek(b.depth); b.depth != depth && l.id == b.id && l != &unknown {
			l.id = 0 // another span, for example of a recursive function
		}
		return b.id
	}
	return id
}

// leave removes a span from its level. It returns what waited below it for
// spans that have not come.
func (t *thread) leave(depth int, crossed bool) (orphans []span) {
	if crossed {
		l := t.levelAt(depth)
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

// cover notes a written child.
func (l *level) cover(s *span) {
	l.first, l.last = earlier(l.first, s.start), max(l.last, s.end)
}

func earlier(a, b int64) int64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}
