package place

import (
	"slices"
	"sort"
)

const (
	// maxTail bounds the spans that a row remembers at each level.
	maxTail = 64
	// maxLevels bounds the nesting depth that a row remembers.
	maxLevels = 64
)

// Rows assigns rows to the finished spans of one thread, one device stream, or one
// process, whose spans mostly nest. Spans of tasks that take turns, and spans with
// explicit times, may partially overlap other spans of their thread; they go to another
// row. Spans may arrive in any order. The zero value is ready for use.
type Rows struct {
	Max int // maximum number of rows; 0 means MaxLanes

	rows []row
}

// Place returns the row for a span with known times but unknown id and parent. That is
// near, the row of the enclosing span, if the span partially overlaps no other span
// there, or else the lowest such row from first on. It returns Shared if no row fits.
func (r *Rows) Place(near, first int, start, end int64) int {
	return r.place(near, first, interval{start: start, end: end})
}

// place is Place for a span whose id and parent may be known. It uses a reserved row
// only if that row is near.
func (r *Rows) place(near, first int, in interval) int {
	if near >= first && near < len(r.rows) && r.rows[near].take(in) {
		return near
	}
	for i := range r.rows {
		if i >= first && r.rows[i].home == 0 && r.rows[i].take(in) {
			return i
		}
	}
	last := r.add()
	if last != Shared {
		r.rows[last].take(in)
	}
	return last
}

// add adds a row and returns its index. It returns Shared if there are Max rows already.
func (r *Rows) add() int {
	if r.Max == 0 {
		r.Max = MaxLanes
	}
	if len(r.rows) >= r.Max {
		return Shared
	}
	r.rows = append(r.rows, row{})
	return len(r.rows) - 1
}

// row is one line of a viewer: its spans nest or follow each other.
//
// The first level holds the outermost spans. Each further level holds the spans inside
// the last span of the level above, because that is where the next span belongs. This
// holds if inner spans arrive before their parents, as programs write them, and if they
// arrive after them, as profilers write them. The contents of other spans are not
// remembered: no further span is placed there.
type row struct {
	levels  [][]interval // the spans of each level, disjoint and in order
	covered []interval   // the spans that the last placed span covers
	home    uint64       // id of the open span that the row is reserved for
}

// interval is the time of a span, or of several spans that are remembered as one. No
// other span may be placed in the gaps of the latter.
//
// An interval with an id is only inside its parent and only around its children. Without
// an id only the times decide.
type interval struct {
	start, end int64
	id, parent uint64
	several    bool // several spans, or one span whose inner spans are not remembered
}

// free reports whether all spans on the row end at or before start.
func (l *row) free(start int64) bool {
	return len(l.levels) == 0 || len(l.levels[0]) == 0 || l.levels[0][len(l.levels[0])-1].end <= start
}

// around reports whether in may cover the intervals of list.
func (in *interval) around(list []interval) bool {
	if in.start > list[0].start || list[len(list)-1].end > in.end {
		return false
	}
	return in.id == 0 || !slices.ContainsFunc(list, func(c interval) bool { return c.parent != in.id })
}

// take puts an interval on the row and returns true. It returns false if the interval
// partially overlaps another.
func (l *row) take(in interval) bool {
	l.covered = l.covered[:0]
	empty := in.end <= in.start
	if empty && in.id == 0 {
		return true // a zero-length interval overlaps nothing
	}
	for depth := 0; ; depth++ {
		if depth == len(l.levels) {
			l.deepen()
		}
		list := l.levels[depth]
		from := sort.Search(len(list), func(i int) bool { return list[i].end > in.start })
		to := from + sort.Search(len(list)-from, func(i int) bool { return list[from+i].start >= in.end })
		around := from < to && in.around(list[from:to])
		switch {
		case from+1 == to && in.id == 0 && in.start == list[from].start && in.end == list[from].end:
			return true // a span with the same times is on the row
		case from+1 == to && !around && list[from].start <= in.start && in.end <= list[from].end && to == len(list) && !list[from].several:
			continue // inside the last interval
		case from < to && !around:
			return false
		case in.id != 0 && depth > 0 && l.levels[depth-1][len(l.levels[depth-1])-1].id != in.parent:
			return false // inside a span that is not its parent
		case empty:
			return true
		case from == to:
			if from == len(list) {
				l.levels = l.levels[:depth+1]
			}
			l.levels[depth] = slices.Insert(list, from, in)
		default:
			l.covered = append(l.covered, list[from:to]...)
			if to == len(list) {
				l.levels = slices.Insert(l.levels, depth+1, slices.Clone(list[from:to]))
			}
			l.levels[depth] = slices.Replace(list, from, to, in)
		}
		l.forget(depth)
		return true
	}
}

// deepen adds an empty level. It reuses the memory of a dropped level.
func (l *row) deepen() {
	depth := len(l.levels)
	if depth == cap(l.levels) {
		l.levels = append(l.levels, nil)
		return
	}
	l.levels = l.levels[:depth+1]
	l.levels[depth] = l.levels[depth][:0]
}

// forget enforces maxTail and maxLevels after a change at a depth.
func (l *row) forget(depth int) {
	if list := l.levels[depth]; len(list) > maxTail {
		l.levels[depth] = fold(list)
	}
	if len(l.levels) > maxLevels {
		l.levels = l.levels[:maxLevels]
		list := l.levels[maxLevels-1]
		l.levels[maxLevels-1] = []interval{list[0].with(list[len(list)-1])}
	}
}

// with returns one interval for two neighbours and everything between them.
func (in *interval) with(next interval) interval {
	both := interval{start: in.start, end: next.end, several: true}
	if in.parent == next.parent {
		both.parent = in.parent
	}
	return both
}

// fold merges neighbours in the earlier half of a list. It merges intervals that are
// short relative to their age. A later span that covers part of the list starts about as
// long ago as it lasts, if a span of similar length ended before it.
func fold(list []interval) []interval {
	for share := 1. / 8; len(list) > 3*maxTail/4; share *= 2 {
		end, kept := list[len(list)-1].end, 0
		for _, in := range list[1 : maxTail/2] {
			if last := &list[kept]; float64(in.end-last.start) <= share*float64(end-in.end) {
				*last = last.with(in)
			} else {
				kept++
				list[kept] = in
			}
		}
		list = slices.Delete(list, kept+1, maxTail/2)
	}
	return list
}
