package fswrite

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// ErrStalled is the cause of an outage in which writes to the file do not return.
var ErrStalled = stalledError{}

type stalledError struct{}

func (stalledError) Error() string { return "writes to the file do not return" }

// Outage is an error about a time in which a file could not be written. It is
// reported when that time begins and when it ends.
type Outage struct {
	Path  string
	Cause error
	Over  bool
	For   time.Duration // how long it lasted, once it has ended
	Lost  int           // lines missing because of it, once it has ended
}

// Error describes what happened, and what to expect.
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

// MayPass reports whether the cause of an error may pass without a change of the
// program: a full disk, a lack of file descriptors, or a file server that fails.
func MayPass(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR, syscall.EIO, syscall.ESTALE,
		syscall.ENOTCONN, syscall.ESHUTDOWN, syscall.ETIMEDOUT, syscall.EHOSTDOWN,
	}, func(cause error) bool { return errors.Is(err, cause) })
}

// Stats counts what a Sink did.
type Stats struct {
	Lines   uint64 // in the file or waiting, including those of the Format
	Bytes   uint64 // in the file
	Parts   uint64 // further files by rotation
	Lost    uint64 // lines
	Outages uint64
	Errors  uint64 // failed operations
	Held    int    // bytes that wait
}

// outage is the state of the current outage.
type outage struct {
	Outage
	since, from, to time.Time
	lost            int // lines that no record reports yet
	waited          time.Duration
}

// clock gives the time of gaps by the program's clock, which is read once.
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

// fail begins an outage, unless one is going on.
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

// countRetry counts and reports an error that has lost nothing yet.
func (s *Sink) countRetry(err error) {
	s.stats.Errors++
	if s.other == nil {
		s.other = err
	}
	s.reports = append(s.reports, err)
}

const (
	// StallAfter is how long a file must take nothing to count as stalled.
	StallAfter = time.Second
	// shallow is how many bytes may wait while the file works. They are lost if the
	// process dies.
	shallow = 256 << 10
	// chunk is how much is written at a time, so that progress can be observed.
	chunk = 64 << 10
	// lateAgain is the time between two checks of an operation that takes too long.
	lateAgain = 20 * time.Millisecond
	// retryEvery is the pause between two attempts after an error.
	retryEvery = 250 * time.Millisecond
	// patience is how long a Close without a deadline waits for a file that takes
	// nothing.
	patience = 30 * time.Second
	// reserve is how many lines that report losses may wait beyond the limit.
	reserve = 64
	// spares is how many written buffers are kept for reuse.
	spares = 4
)

// block is a queued [Block].
type block struct {
	data            []byte
	lines, metadata int
}

// queue holds the blocks that wait; the first one is being written. The Sink's
// lock guards it.
type queue struct {
	blocks   []block
	store    []block // the memory of blocks
	free     [][]byte
	held     int // bytes
	reserved int // reserved lines in use
	least    int // the minimum of limit
	limit    int // the current maximum of held
}

func newQueue(hold int) queue {
	least := min(shallow, hold)
	return queue{least: least, limit: least}
}

func (q *queue) full() bool { return q.held >= q.limit }

// reserve takes one of the lines that may wait beyond the limit.
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
	if n := len(q.blocks) - 1; n > 0 && len(q.blocks[n].data)+len(data) <= chunk { // the first block is being written
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

// pop removes the first block. Of memory that filled up in an outage and is now
// released, half may be used again at once: the end of an outage then blocks no
// caller, and yet the queue becomes shallow again.
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

// drop empties the queue and returns how many lines it had.
func (q *queue) drop() (lines int) {
	for _, b := range q.blocks {
		lines += b.lines
	}
	q.blocks, q.held = nil, 0
	return lines
}

// stall detects an operation that takes too long. The Sink's lock guards it.
type stall struct {
	busy   time.Time // when the current write began; zero if there is none
	late   time.Time // the value of busy when a check first found the write late
	lateAt time.Time // the time of that check
}

// hasStalled reports whether the write takes too long. On a busy machine the
// writing goroutine may be as late as the checking one, so the check is
// repeated a moment later.
func (s *stall) hasStalled(now time.Time) bool {
	if s.busy.IsZero() || now.Sub(s.busy) < StallAfter {
		return false
	}
	if !s.late.Equal(s.busy) {
		s.late, s.lateAt = s.busy, now
	}
	return now.Sub(s.lateAt) >= lateAgain
}

// untilStall returns the time until the write counts as stalled.
func (s *stall) untilStall(now time.Time) time.Duration {
	switch {
	case s.busy.IsZero():
		return StallAfter
	case s.late.Equal(s.busy):
		return lateAgain - now.Sub(s.lateAt)
	}
	return StallAfter - now.Sub(s.busy)
}
