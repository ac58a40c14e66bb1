package python

import "slices"

const (
	// beside is the distance between the lanes of a thread: thread ids of Linux
	// end at 2^22.
	beside = 1 << 22
	// maxTail is how many finished spans a lane remembers.
	maxTail = 64
)

// lane is what viewers draw in one row: its spans lie inside or behind each
// other. Spans of tasks that take turns, or with times that the program gave, may
// overlap others of their thread, and go to another lane.
type lane struct {
	tail []interval // the last ones that nothing is around yet
}

type interval struct{ start, end int64 } // microseconds

// place gives the lane for a span, not the first one for a span aside.
func (t *thread) place(start, end int64, aside bool) int64 {
	in := interval{start, end}
	for i := range t.lanes {
		if (i > 0 || !aside) && t.lanes[i].take(in) {
			return t.tid + int64(i)*beside
		}
	}
	t.lanes = append(t.lanes, lane{tail: []interval{in}})
	return t.tid + int64(len(t.lanes)-1)*beside
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
	return true
}
