package tracefile

import (
	"math/bits"
	"sync"
)

// LaneDistance is what a writer adds to a thread's id for each further lane
// that its overlapping spans need. It is the limit of thread ids on Linux. The
// writers of Python's ring buffers and of the spans of receivers use it.
const LaneDistance = 1 << 22

// Lanes assigns every open span a lane, the tid of its record, such that spans
// on one lane nest: a span goes to its parent's lane when the parent is the
// innermost open span there, otherwise to the lowest lane on which nothing is
// open. Lanes are reused. Viewers and call trees that nest spans by containment
// then show the real nesting for any number of goroutines.
//
// Begin and End may be called concurrently. A nil Lanes returns lane 0 for
// every span.
type Lanes struct {
	first int64

	mu    sync.Mutex // locked before any row's lock
	rows  []*row
	free  []uint64      // bit i: row i has no open span
	taken int           // the first words of free without a bit
	moved map[Lane]*row // spans that were moved from the row of their handle
}

// Lane is the handle of an open span. The zero Lane is no span and serves as
// the parent of a root. After End a handle may still be used and has no effect.
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
	end   int64 // of the last ended span on the row
	open  []openSpan
	_     [40]byte
}

type openSpan struct {
	lane  Lane // its handle; lane.row differs if the span was moved
	start int64
}

// NewLanes returns lanes numbered from first. The process id, which is the id
// of the main thread, is a good first number.
func NewLanes(first int64) *Lanes { return &Lanes{first: max(first, 0)} }

// Begin opens a span at start (microseconds, or any unit used throughout) and
// returns its handle and lane. End returns the final lane, because a span that
// outlives its parent is moved.
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

// End closes a span and returns the lane to write it with. Spans may end in any
// order. Ending a span twice, or the zero Lane, has no effect and returns the
// lane of the handle.
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

// LaneOf returns the current lane of an open span, or the lane on which an
// ended span began.
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

// Count returns the number of lanes.
func (l *Lanes) Count() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows)
}

// endSlow ends the last span of a row, a span below other open spans, a moved
// span, or a span with an end before that of a span inside it.
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
	// A span that ended here earlier reaches beyond this one.
	other := l.takeFree(start)
	other.mu.Lock()
	other.end = end
	other.mu.Unlock()
	l.release(other)
	return other.tid
}

// move puts spans that outlived the span below them on a new lane.
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

// takeFree returns the lowest row without open spans whose spans all ended by
// start, or a new row. The row is then in use.
func (l *Lanes) takeFree(start int64) *row {
	for w := l.taken; w < len(l.free); w++ {
		set := l.free[w]
		if set == 0 && w == l.taken {
			l.taken++
		}
		for set != 0 {
			b := bits.TrailingZeros64(set)
			set &^= 1 << b
			// A free row is safe to read: opening a span on it requires l.mu.
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
