package place

import (
	"slices"
	"sort"
)

const (
	// maxTail is how many spans beside each other a row remembers at each level.
	maxTail = 64
	// maxLevels is how deep it remembers what is inside of what.
	maxLevels = 64
)

// Rows gives rows to the finished spans of one thread, of one stream of a device, or of
// one process, whose spans mostly nest. Spans of tasks that take turns, or with times that
// the program gave, may overlap others of their thread in part, and go to another row.
// They may come in any order. The zero value is ready for use.
type Rows struct {
	Max int // how many there are at most; 0 is MaxLanes

	rows []row
}

// Place returns the row of a span that is known by its time alone: near, that of the span
// around it, if it overlaps no other one there in part, or else the lowest such row, or
// Shared if there is none. No row below first is taken.
func (r *Rows) Place(near, first int, start, end int64) int {
	return r.place(near, first, interval{start: start, end: end})
}

// place is Place for a span of which more may be known. A row that is kept for somebody
// is only taken if it is near.
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

// add adds a row, and returns Shared if there are too many.
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

// row is what viewers draw in one line: its spans are inside or behind each other.
//
// The first level holds the outermost spans, each next one those inside of the last
// span of the level before. That is where the next span belongs, whether inner spans
// come before the ones around them, as programs write them, or behind them, as a
// profiler's do. What is inside of other spans is not remembered: nothing more
// goes there.
type row struct {
	levels  [][]interval // of each, apart from each other and in order
	covered []interval   // those that the last one is around
	home    uint64       // the open span that the row is kept for
}

// interval is the time of a span or of several that are remembered as one, in whose
// gaps nothing may be.
//
// One with an id is only inside of its parent and only around its children. Without an id
// times alone decide.
type interval struct {
	start, end int64
	id, parent uint64
	several    bool // or one with spans inside of it that are not remembered
}

// free reports whether nothing on the row ends after a time.
func (l *row) free(start int64) bool {
	return len(l.levels) == 0 || len(l.levels[0]) == 0 || l.levels[0][len(l.levels[0])-1].end <= start
}

// around reports whether a span may be around others.
func (in *interval) around(list []interval) bool {
	if in.start > list[0].start || list[len(list)-1].end > in.end {
		return false
	}
	return in.id == 0 || !slices.ContainsFunc(list, func(c interval) bool { return c.parent != in.id })
}

// take puts an interval on the row, unless it overlaps another one in part.
func (l *row) take(in interval) bool {
	l.covered = l.covered[:0]
	empty := in.end <= in.start
	if empty && in.id == 0 {
		return true // without a length it overlaps nothing
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
			return true // of the same time
		case from+1 == to && !around && list[from].start <= in.start && in.end <= list[from].end && to == len(list) && !list[from].several:
			continue // inside of the last
		case from < to && !around:
			return false
		case in.id != 0 && depth > 0 && l.levels[depth-1][len(l.levels[depth-1])-1].id != in.parent:
			return false // inside of a span that is not its parent
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

// deepen adds an empty level, in the memory of one that was left.
func (l *row) deepen() {
	depth := len(l.levels)
	if depth == cap(l.levels) {
		l.levels = append(l.levels, nil)
		return
	}
	l.levels = l.levels[:depth+1]
	l.levels[depth] = l.levels[depth][:0]
}

// forget keeps what is remembered within its bounds, after a change at a depth.
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

// with returns two neighbours as one, and all between them.
func (in *interval) with(next interval) interval {
	both := interval{start: in.start, end: next.end, several: true}
	if in.parent == next.parent {
		both.parent = in.parent
	}
	return both
}

// fold makes one of neighbours among the earlier half of a list: of those that are
// short beside how long ago they were. What comes to be around some of the list
// begins about as long ago as it lasts, where one of its length has ended before it.
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
