package outfile

import "time"

const (
	// StallAfter is how long a file takes nothing before it counts as stalled.
	StallAfter = time.Second
	// shallow is how many bytes may wait while the file works: what waits there
	// is not safe from the death of the process.
	shallow = 256 << 10
	// chunk is how much is written at a time, so that progress shows.
	chunk = 64 << 10
	// lateAgain is the time between the two looks at an operation that takes too long.
	lateAgain = 20 * time.Millisecond
	// retryEvery is the pause between two attempts to go on after an error.
	retryEvery = 250 * time.Millisecond
	// patience is how long a Close without a deadline waits for a file that
	// takes nothing.
	patience = 30 * time.Second
	// reserve is how many lines may wait beyond the limit of what says what is missing.
	reserve = 64
	// spares is how many written buffers are kept for use again.
	spares = 4
)

// block is a queued [Block].
type block struct {
	data            []byte
	lines, metadata int
}

// queue is the blocks that wait, of which the first is being written. The lock of
// the Sink guards it.
type queue struct {
	blocks   []block
	store    []block // the memory of blocks
	free     [][]byte
	held     int // bytes
	reserved int // lines of reserve
	least    int // of limit
	limit    int // of held, at this moment
}

func newQueue(hold int) queue {
	least := min(shallow, hold)
	return queue{least: least, limit: least}
}

func (q *queue) full() bool { return q.held >= q.limit }

// reserve takes the place of one line of those that may wait beyond the limit.
func (q *queue) reserve() bool {
	if q.reserved == reserve {
		return false
	}
	q.reserved++
	return true
}

// push copies data to the end.
func (q *queue) push(data []byte, lines, metadata int) {
	q.held += len(data)
	if n := len(q.blocks) - 1; n > 0 && len(q.blocks[n].data)+len(data) <= chunk { // the first is being written
		b := &q.blocks[n]
		b.data, b.lines, b.metadata = append(b.data, data...), b.lines+lines, b.metadata+metadata
		return
	}
	var buf []byte
	if n := len(q.free); n > 0 {
		buf, q.free = q.free[n-1], q.free[:n-1]
	}
	if len(q.blocks) == 0 {
		q.blocks = q.store[:0]
	}
	q.blocks = append(q.blocks, block{append(buf[:0], data...), lines, metadata})
	if len(q.blocks) == 1 {
		q.store = q.blocks
	}
}

// pop takes the first block off. Of memory that filled up in an outage and is
// given back now, half may be used again at once: so the end of an outage holds
// nobody up, and yet the queue becomes shallow again.
func (q *queue) pop() {
	b := q.blocks[0]
	q.blocks[0] = block{}
	q.blocks = q.blocks[1:]
	q.held -= len(b.data)
	q.limit = max(q.least, q.limit-len(b.data)/2)
	if len(q.blocks) == 0 {
		q.limit = q.least
	}
	if len(q.free) < spares && cap(b.data) <= 4*shallow {
		q.free = append(q.free, b.data[:0])
	}
}

// drop empties the queue and returns how many lines were in it.
func (q *queue) drop() (lines int) {
	for _, b := range q.blocks {
		lines += b.lines
	}
	q.blocks, q.held = nil, 0
	return lines
}

// stall tells whether the present operation takes too long. The lock of the Sink
// guards it.
type stall struct {
	busy   time.Time // since when something is written; zero is nothing
	late   time.Time // of busy, when somebody found that it took too long
	lateAt time.Time // when that was
}

// over reports whether it takes too long. On a busy machine the goroutine that
// writes may be as late as whoever looks, so it is looked at again a moment later.
func (s *stall) over(now time.Time) bool {
	if s.busy.IsZero() || now.Sub(s.busy) < StallAfter {
		return false
	}
	if !s.late.Equal(s.busy) {
		s.late, s.lateAt = s.busy, now
	}
	return now.Sub(s.lateAt) >= lateAgain
}

// until returns in which time it will count as a stall.
func (s *stall) until(now time.Time) time.Duration {
	switch {
	case s.busy.IsZero():
		return StallAfter
	case s.late.Equal(s.busy):
		return lateAgain - now.Sub(s.lateAt)
	}
	return StallAfter - now.Sub(s.busy)
}
