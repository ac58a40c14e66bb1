package python

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
)

const (
	// maxTail is how many finished spans a lane remembers.
	maxTail = 64
	// maxLanes is how many lanes a thread has; further spans that overlap share the
	// last one.
	maxLanes = 256
)

// lane is what viewers draw in one row: its spans lie inside or behind each
// other. Spans of tasks that take turns, or with times that the program gave, may
// overlap others of their thread, and go to another lane.
type lane struct {
	tail []interval // the last ones that nothing is around yet
}

type interval struct{ start, end int64 } // microseconds

// place gives the lane for a span, not the first one for a span aside. It reports
// false where there is no lane any more without a span that it overlaps.
func (t *thread) place(start, end int64, aside bool) (tid int64, alone bool) {
	in := interval{start, end}
	for i := range t.lanes {
		if (i > 0 || !aside) && t.lanes[i].take(in) {
			return t.tid + int64(i)*dftracer.LaneDistance, true
		}
	}
	if len(t.lanes) >= maxLanes {
		return t.tid + (maxLanes-1)*dftracer.LaneDistance, false
	}
	t.lanes = append(t.lanes, lane{tail: []interval{in}})
	return t.tid + int64(len(t.lanes)-1)*dftracer.LaneDistance, true
}

// take puts an interval on the lane, unless it overlaps another one.
func (l *lane) take(in interval) bool {
	n := len(l.tail)
	if n == 0 || l.tail[n-1].end <= in.start {
		if n >= maxTail {
			l.tail = append(l.tail[:0], l.tail[n/2:]...)
		}
		l.tail = append(l.tail, in)
		return true
	}
	for _, o := range l.tail {
		if o.start < in.start && in.start < o.end && o.end < in.end || in.start < o.start && o.start < in.end && in.end < o.end {
			return false
		}
	}
	l.tail = slices.DeleteFunc(l.tail, func(o interval) bool { return in.start <= o.start && o.end <= in.end })
	at, _ := slices.BinarySearchFunc(l.tail, in, func(a, b interval) int { return int(min(max(a.start-b.start, -1), 1)) })
	l.tail = slices.Insert(l.tail, at, in)
	if n := len(l.tail); n > maxTail {
		l.tail = append(l.tail[:0], l.tail[n/2:]...)
	}
	return true
}
