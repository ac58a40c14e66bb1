package pyring

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// maxDepth is how deep spans nest; what is deeper lies side by side there.
const maxDepth = 1024

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
	rows   place.Rows
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

// levelAt returns the level at a depth.
func (t *thread) levelAt(depth int) *level {
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

// outerSpan returns the depth of the span around what stands at a depth, 0 for none,
// and the level of what stands there.
func (t *thread) outerSpan(depth int) (outer, number int) {
	i := t.find(depth)
	outer = depth - 1
	for k := i - 1; k >= 0 && t.levels[k].gap && t.levels[k].depth == outer; k-- {
		outer--
	}
	return outer, depth - t.gaps(i)
}

// ended returns the id of a span, which its begin has said if that was written. Another
// one may have begun at the same time. One that is called something else by its end is
// known by its depth, and one whose depth was guessed by its name.
func (t *thread) ended(s *span, depth int, id uint64) uint64 {
	if b, ok := t.known[s.start]; ok && (b.node == s.node || b.depth == depth) {
		delete(t.known, s.start)
		if l := t.peek(b.depth); b.depth != depth && l.id == b.id && l != &unknown {
			l.id = 0 // it was not that one, as where a function calls itself
		}
		return b.id
	}
	return id
}

// leave takes a span off its level. It returns what waited below it for spans that
// have not come.
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
