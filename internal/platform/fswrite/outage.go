package fswrite

import (
	"errors"
	"fmt"
	"time"
)

// ErrStalled is the cause of an outage in which writes to the file do not return.
var ErrStalled = stalledError{}

type stalledError struct{}

func (stalledError) Error() string { return "writes to the file do not return" }

// Outage is an error for a time in which a file could not be
// written. It is reported when that time begins and when it is over.
type Outage struct {
	Path  string
	Cause error
	Over  bool
	For   time.Duration // how long it lasted, once it is over
	Lost  int           // lines that are missing because of it, once it is over
}

// Error says what happened, and what to expect.
func (o *Outage) Error() string {
	name := o.Path
	if name == "" {
		name = "the output"
	}
	if !o.Over {
		return fmt.Sprintf("write %s: %v; lines are kept in memory until writing works again", name, o.Cause)
	}
	what := "nothing is missing"
	if o.Lost > 0 {
		what = fmt.Sprintf("%d lines are missing", o.Lost)
	}
	return fmt.Sprintf("write %s: works again after %v (%v); %s", name, o.For.Round(time.Millisecond), o.Cause, what)
}

// Unwrap returns the cause.
func (o *Outage) Unwrap() error { return o.Cause }

// Stats counts what a Sink did.
type Stats struct {
	Lines   uint64 // in the file or waiting, those of the Format included
	Bytes   uint64 // in the file
	Parts   uint64 // further files, by rotation
	Lost    uint64 // lines
	Outages uint64
	Errors  uint64 // failed operations
	Held    int    // bytes that wait
}

// outage is what is known of the current outage.
type outage struct {
	Outage
	since, from, to time.Time
	lost            int // lines that no record reports yet
	waited          time.Duration
}

// clock tells the time of gaps, which is the program's: its clock is asked once.
type clock struct{ ahead time.Duration }

func newClock(now func() time.Time) clock { return clock{time.Until(now())} }

func (c clock) now() time.Time { return time.Now().Add(c.ahead) }

// lose counts lines that will not be in the file.
func (s *Sink) lose(lines int) {
	if lines <= 0 {
		return
	}
	s.stats.Lost += uint64(lines)
	s.part.Lost = s.stats.Lost
	var cause error
	if o := s.outage; o != nil {
		o.Lost += lines
		o.lost += lines
		o.to = s.now()
		cause = o.Cause
	}
	if s.first == nil {
		if cause == nil {
			cause = errClosedSink
		}
		s.first = fmt.Errorf("lines were lost: %w", cause)
	}
}

var errClosedSink = errors.New("the file was closed before they were written")

// fail begins an outage, unless there is one.
func (s *Sink) fail(cause error, now time.Time) {
	if s.outage != nil {
		return
	}
	at := s.now()
	s.outage = &outage{Outage: Outage{Path: s.path, Cause: cause}, since: now, from: at, to: at}
	s.stats.Outages++
	begun := s.outage.Outage
	s.reports = append(s.reports, &begun)
}

// countRetry counts an error that loses nothing yet, and reports it.
func (s *Sink) countRetry(err error) {
	s.stats.Errors++
	if s.other == nil {
		s.other = err
	}
	s.reports = append(s.reports, err)
}

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

// hasStalled reports whether it takes too long. On a busy machine the goroutine that
// writes may be as late as whoever looks, so it is looked at again a moment later.
func (s *stall) hasStalled(now time.Time) bool {
	if s.busy.IsZero() || now.Sub(s.busy) < StallAfter {
		return false
	}
	if !s.late.Equal(s.busy) {
		s.late, s.lateAt = s.busy, now
	}
	return now.Sub(s.lateAt) >= lateAgain
}

// untilStall returns in which time it will count as a stall.
func (s *stall) untilStall(now time.Time) time.Duration {
	switch {
	case s.busy.IsZero():
		return StallAfter
	case s.late.Equal(s.busy):
		return lateAgain - now.Sub(s.lateAt)
	}
	return StallAfter - now.Sub(s.busy)
}
