package dataset

// lanes finds the span around each span of one process, which come by start,
// the outer one first. Like the summary, it goes by time on one lane.
type lanes struct {
	open map[int64]*[]openSpan
	last *[]openSpan
	tid  int64
}

type openSpan struct {
	end  int64
	name uint64
}

// around returns the name of the innermost open span of the lane that holds the
// whole row, 0 without one, and opens the row's.
func (l *lanes) around(r *row) (name uint64) {
	if l.last == nil || l.tid != r.tid {
		if l.open == nil {
			l.open = make(map[int64]*[]openSpan)
		}
		if l.last, l.tid = l.open[r.tid], r.tid; l.last == nil {
			l.last = new([]openSpan)
			l.open[r.tid] = l.last
		}
	}
	stack := *l.last
	for len(stack) > 0 && stack[len(stack)-1].end <= r.ts {
		stack = stack[:len(stack)-1]
	}
	end := r.ts + max(r.dur, 0)
	// One that ends in the middle of the row is beside it.
	for i := len(stack) - 1; i >= 0 && name == 0; i-- {
		if stack[i].end >= end {
			name = stack[i].name
		}
	}
	*l.last = append(stack, openSpan{end, r.name})
	return name
}
