package dataset

import (
	"slices"

	"github.com/trainspan/trainspan/internal/nest"
)

// lanes has the open spans of one process, lane by lane.
type lanes struct {
	open  map[int64]*nest.Stack[uint64]
	last  *nest.Stack[uint64]
	tid   int64
	taken []taken
}

// taken is how much of the time of a span belongs to another one.
type taken struct {
	name uint64
	us   int64
}

// begin opens the span of a row, in the order of its lane. It returns the name of
// the innermost open span that holds the whole row, 0 without one, and those that
// the row outlasts, which is valid until the next call.
func (l *lanes) begin(r *row) (outer uint64, outlasted []taken) {
	if l.last == nil || l.tid != r.tid {
		if l.open == nil {
			l.open = make(map[int64]*nest.Stack[uint64])
		}
		if l.last, l.tid = l.open[r.tid], r.tid; l.last == nil {
			l.last = new(nest.Stack[uint64])
			l.open[r.tid] = l.last
		}
	}
	at, end := r.ts, r.ts+max(r.dur, 0)
	l.taken = l.taken[:0]
	for _, o := range slices.Backward(l.last.Leave(at, end)) {
		if o.End > at {
			l.taken = append(l.taken, taken{o.Of, o.End - at})
			at = o.End
		}
	}
	if top := l.last.Top(); top != nil {
		if outer = top.Of; top.End == end { // it holds nothing more that the row does not hold
			l.last.Pop()
		}
	}
	l.last.Push(end, r.name)
	return outer, l.taken
}
