package pyring

import (
	"slices"
	"sort"
)

const (
	// maxTail is how many spans beside each other a lane remembers at each level.
	maxTail = 64
	// maxLevels is how deep it remembers what lies inside of what.
	maxLevels = 64
	// maxLanes is how many lanes a thread has; further spans that overlap share the
	// last one.
	maxLanes = 256
)

// lane is what viewers draw in one row: its spans lie inside or behind each
// other. Spans of tasks that take turns, or with times that the program gave, may
// overlap others of their thread, and go to another lane.
//
// The first level holds the outermost spans, each next one those inside of the last
// span of the level before. That is where the next span belongs, whether inner spans
// come before the ones around them, as programs write them, or behind them, as a
// profiler's do. What lies inside of other spans is not remembered: nothing more
// goes there.
type lane struct {
	levels [][]interval // of each, apart from each other and in order
}

// interval is the time of a span, in microseconds, or of several that are remembered
// as one, in whose gaps nothing may lie.
type interval struct {
	start, end int64
	several    bool
}

// take puts an interval on the lane, unless it overlaps another one in part.
func (l *lane) take(in interval) bool {
	if in.end <= in.start {
		return true // without a length it overlaps nothing
	}
	for depth := 0; ; depth++ {
		if depth == len(l.levels) {
			l.levels = append(l.levels, nil)
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

// forget keeps what is remembered within its bounds, after a change at a depth.
func (l *lane) forget(depth int) {
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
// short beside how long ago they were. What comes to lie around some of the list
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

// maxPlaces bounds how many changes of the position are remembered.
const maxPlaces = 4096

// places is where the training stood at what time.
type places []standing

type standing struct{ since, epoch, step int64 }

func (p *places) set(at, epoch, step int64) {
	last := standing{epoch: -1, step: -1}
	if n := len(*p); n > 0 {
		last = (*p)[n-1]
		at = max(at, last.since)
	}
	if len(*p) >= 2*maxPlaces {
		*p = append((*p)[:0], (*p)[len(*p)-maxPlaces:]...)
	}
	*p = append(*p, standing{at, changed(last.epoch, epoch), changed(last.step, step)})
}

// position is where the training stood at a time; -1 is unknown.
func (p places) position(t int64) (epoch, step int64) {
	n := len(p)
	if n == 0 {
		return -1, -1
	}
	if p[n-1].since <= t {
		return p[n-1].epoch, p[n-1].step
	}
	i := sort.Search(n, func(i int) bool { return p[i].since > t }) - 1
	if i < 0 {
		return -1, -1
	}
	return p[i].epoch, p[i].step
}
