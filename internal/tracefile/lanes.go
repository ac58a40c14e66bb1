package tracefile

import (
	"math/bits"
	"sync"
)

// LaneDistance is what a writer adds to the id of a thread for each further lane
// that its overlapping spans need: thread ids of Linux end there. The writer of
// Python's rings does.
const LaneDistance = 1 << 22

// Lanes assigns every open span a lane, the tid of its record, such that spans
// on one lane nest: a span goes to its parent's lane when the parent is the
// innermost open span there, otherwise to the lowest lane on which nothing is
// open. Few lanes are made and they are reused. Viewers and call trees that
// nest spans by containment then show the real nesting for any number of goroutines.
//
// Begin and End may be called concurrently. A nil Lanes returns lane 0 for all.
type Lanes struct {
	first int64

	mu    sync.Mutex // taken before any row's lock
	rows  []*row
	free  []uint64      // bit i: nothing is open on row i
	taken int           // how many of the first of these have no bit
	moved map[Lane]*row // spans that are no longer on the row of their handle
}

// Lane is the handle of an open span. The zero Lane is no span: a root's parent.
// A handle may be used after End, and then changes nothing.
type Lane struct {
	row *row
	seq uint64
}

// row is one lane: a stack of open spans.
type row struct {
	mu    sync.Mutex
	tid   int64
	index int
	seq   uint64
	end   int64 // of the last span that ended here
	open  []openSpan
	_     [40]byte
}

type openSpan struct {
	lane  Lane // its handle; lane.row is another row when the span was moved
	start int64
}

// NewLanes returns lanes numbered from first. The process id is a good first:
// it is the id of the main thread.
func NewLanes(first int64) *Lanes { return &Lanes{first: max(first, 0)} }

// Begin opens a span at start (microseconds, or any unit used throughout) and
// returns its handle and lane. The lane is final only when End returns it:
// a span that outlives its parent is moved away.
func (l *Lanes) Begin(parent Lane, start int64) (Lane, int64) {
	if l == nil {
		return Lane{}, 0
	}
	if r := parent.row; r != nil {
		r.mu.Lock()
		if n := len(r.open); n > 0 && r.open[n-1].lane == parent && r.open[n-1].start <= start && r.end <= start {
			lane := r.push(start)
			r.mu.Unlock()
			return lane, r.tid
		}
		r.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.moved[parent]; r != nil {
		r.mu.Lock()
		if n := len(r.open); n > 0 && r.open[n-1].lane == parent && r.open[n-1].start <= start && r.end <= start {
			lane := r.push(start)
			r.mu.Unlock()
			return lane, r.tid
		}
		r.mu.Unlock()
	}
	r := l.takeFree(start)
	r.mu.Lock()
	lane := r.push(start)
	r.mu.Unlock()
	return lane, r.tid
}

// End closes a span at end and returns the lane to write it with. Spans may
// end in any order. Ending a span twice, or the zero Lane, returns the lane of
// the handle and changes nothing.
func (l *Lanes) End(lane Lane, end int64) int64 {
	r := lane.row
	if l == nil || r == nil {
		return 0
	}
	r.mu.Lock()
	if n := len(r.open); n > 1 && r.open[n-1].lane == lane && r.end <= end {
		r.open = r.open[:n-1]
		r.end = end
		r.mu.Unlock()
		return r.tid
	}
	r.mu.Unlock()
	return l.endSlow(lane, end)
}

// LaneOf returns the lane that an open span is on at the moment, and the lane
// it began on once it has ended.
func LaneOf(l *Lanes, lane Lane) int64 {
	if l == nil || lane.row == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.moved[lane]; r != nil {
		return r.tid
	}
	return lane.row.tid
}

// Count returns how many lanes there are.
func (l *Lanes) Count() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows)
}

// endSlow ends the last span of a row, one with open spans above it, one
// that was moved or one whose end lies before that of a span inside it.
func (l *Lanes) endSlow(lane Lane, end int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := lane.row
	if m := l.moved[lane]; m != nil {
		r = m
		delete(l.moved, lane)
	}
	r.mu.Lock()
	at := r.find(lane)
	if at < 0 {
		r.mu.Unlock()
		return r.tid
	}
	start := r.open[at].start
	end = max(end, start)
	above := append([]openSpan(nil), r.open[at+1:]...)
	r.open = r.open[:at]
	overlapped := r.end > end
	if !overlapped {
		r.end = end
	}
	empty := at == 0
	r.mu.Unlock()

	if len(above) > 0 {
		l.move(above)
	}
	if empty {
		l.release(r)
	}
	if !overlapped {
		return r.tid
	}
	// Something that ended here earlier reaches beyond this span.
	other := l.takeFree(start)
	other.mu.Lock()
	other.end = end
	other.mu.Unlock()
	l.release(other)
	return other.tid
}

// move puts spans that outlived the one below them on a lane of their own.
func (l *Lanes) move(spans []openSpan) {
	r := l.takeFree(spans[0].start)
	r.mu.Lock()
	r.open = append(r.open, spans...)
	r.mu.Unlock()
	if l.moved == nil {
		l.moved = make(map[Lane]*row)
	}
	for _, s := range spans {
		if s.lane.row == r {
			delete(l.moved, s.lane)
		} else {
			l.moved[s.lane] = r
		}
	}
}

// takeFree returns the lowest row on which nothing is open and everything
// ended by start, or a new one. It is no longer free.
func (l *Lanes) takeFree(start int64) *row {
	for w := l.taken; w < len(l.free); w++ {
		set := l.free[w]
		if set == 0 && w == l.taken {
			l.taken++
		}
		for set != 0 {
			b := bits.TrailingZeros64(set)
			set &^= 1 << b
			// Nobody else touches a free row: to open a span on it takes l.mu.
			if r := l.rows[w*64+b]; r.end <= start {
				l.free[w] &^= 1 << b
				return r
			}
		}
	}
	r := &row{index: len(l.rows), tid: l.first + int64(len(l.rows))}
	l.rows = append(l.rows, r)
	if r.index/64 == len(l.free) {
		l.free = append(l.free, 0)
	}
	return r
}

func (l *Lanes) release(r *row) {
	l.free[r.index/64] |= 1 << (r.index % 64)
	l.taken = min(l.taken, r.index/64)
}

func (r *row) push(start int64) Lane {
	r.seq++
	lane := Lane{row: r, seq: r.seq}
	r.open = append(r.open, openSpan{lane: lane, start: start})
	return lane
}

func (r *row) find(lane Lane) int {
	for i := len(r.open) - 1; i >= 0; i-- {
		if r.open[i].lane == lane {
			return i
		}
	}
	return -1
}
