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

// Rows gives rows to the finished spans of one thread, or of one stream of a device,
// whose spans mostly nest. Spans of tasks that take turns, or with times that the
// program gave, may overlap others of their thread in part, and go to another row.
// They may come in any order. The zero value is ready for use.
type Rows struct {
	Max int // how many there are at most; 0 is MaxLanes

	rows []row
}

// Place returns the row of a span: near, that of the span around it, if it overlaps no
// other one there in part, or else the lowest such row, or Shared if there is none. No
// row below first is taken.
func (r *Rows) Place(near, first int, start, end int64) int {
	in := interval{start: start, end: end}
	if near > first && near < len(r.rows) && r.rows[near].take(in) {
		return near
	}
	for i := range r.rows {
		if i >= first && r.rows[i].take(in) {
			return i
		}
	}
	if r.Max == 0 {
		r.Max = MaxLanes
	}
	if len(r.rows) >= r.Max {
		return Shared
	}
	r.rows = append(r.rows, row{})
	last := len(r.rows) - 1
	r.rows[last].take(in)
	return last
}

// row is what viewers draw in one line: its spans are inside or behind each other.
//
// The first level holds the outermost spans, each next one those inside of the last
// span of the level before. That is where the next span belongs, whether inner spans
// come before the ones around them, as programs write them, or behind them, as a
// profiler's do. What is inside of other spans is not remembered: nothing more
// goes there.
type row struct {
	levels [][]interval // of each, apart from each other and in order
}

// interval is the time of a span or of several that are remembered as one, in whose
// gaps nothing may be.
type interval struct {
	start, end int64
	several    bool
}

// take puts an interval on the row, unless it overlaps another one in part.
func (l *row) take(in interval) bool {
	if in.end <= in.start {
		return true // without a length it overlaps nothing
	}
	for depth := 0; ; depth++ {
		if depth == len(l.levels) {
			l.deepen()
		}
		list := l.levels[depth]
		from := sort.Search(len(list), func(i int) bool { return list[i].end > in.start })
		to := from + sort.Search(len(list)-from, func(i int) bool { return list[from+i].start >= in.end })
		switch {
		case from == to:
			if from == len(list) {
				l.levels = l.levels[:depth+1]
			}
			l.levels[depth] = slices.Insert(list, from, in)
		case in.start == list[from].start && in.end == list[to-1].end && from+1 == to:
			return true // of the same time
		case in.start <= list[from].start && list[to-1].end <= in.end: // it is around them
			if to == len(list) {
				l.levels = slices.Insert(l.levels, depth+1, slices.Clone(list[from:to]))
			}
			l.levels[depth] = slices.Replace(list, from, to, in)
		case from+1 == to && list[from].start <= in.start && in.end <= list[from].end && to == len(list) && !list[from].several:
			continue // inside of the last
		default:
			return false
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
		l.levels[maxLevels-1] = []interval{{list[0].start, list[len(list)-1].end, true}}
	}
}

// fold makes one of neighbours among the earlier half of a list: of those that are
// short beside how long ago they were. What comes to be around some of the list
// begins about as long ago as it lasts, where one of its length has ended before it.
func fold(list []interval) []interval {
	for share := 1. / 8; len(list) > 3*maxTail/4; share *= 2 {
		end, kept := list[len(list)-1].end, 0
		for _, in := range list[1 : maxTail/2] {
			if last := &list[kept]; float64(in.end-last.start) <= share*float64(end-in.end) {
				*last = interval{last.start, in.end, true}
			} else {
				kept++
				list[kept] = in
			}
		}
		list = slices.Delete(list, kept+1, maxTail/2)
	}
	return list
}
