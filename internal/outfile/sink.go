package outfile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Defaults of [Options].
const (
	DefaultHold = 64 << 20
	DefaultWait = 100 * time.Millisecond
)

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

// SyncPolicy says when a Sink forces the file to the disk.
type SyncPolicy uint8

// The policies.
const (
	SyncNever   SyncPolicy = iota
	SyncOnClose            // at the end of each part
	SyncAlways             // after every block
)

// Options configures a Sink.
type Options struct {
	Format Format
	// Hold is how many bytes wait in memory while the file takes nothing; 0
	// means DefaultHold.
	Hold int
	// Wait bounds for how long all calls of Admit together wait once that
	// memory is full, per outage: 0 means DefaultWait, below 0 is for ever.
	Wait time.Duration
	Sync SyncPolicy
	// Rotate, when above 0, starts the next part once a file has so many bytes.
	Rotate int64
	// Pause, when not nil, is what a file needs when Suspend closes it without
	// its end.
	Pause func() Block
	// Unwanted, when not nil, says at the end whether to delete the file.
	Unwanted func(Part) bool
	// OnError is called when an outage begins and when it is over, as *Outage,
	// and of other errors. It may be called by any goroutine that uses the Sink
	// and by its own, without a lock of the Sink.
	OnError func(error)
	// OnPath gets a report of every further file that the Sink goes on in.
	OnPath func(path string)
	// Now tells the time that gaps are counted from, once, in New; nil is
	// time.Now. It is the program's, and not called under a lock of the Sink.
	Now func() time.Time
}

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

// block is a queued [Block].
type block struct {
	data            []byte
	lines, metadata int
}

// Sink writes blocks to an Output in the order in which they come, on a
// goroutine of its own. A file that is slow holds up those who write; one that
// has stopped, or fails, does not: the blocks wait in memory, up to a bound,
// and beyond it lines are lost and counted. All methods are safe for
// concurrent use.
type Sink struct {
	o     Options
	out   Output
	work  chan struct{} // wakes the goroutine
	alarm *time.Timer   // wakes those who wait

	mu       sync.Mutex
	changed  sync.Cond // of anything that somebody waits for
	alarmAt  time.Time // when the alarm goes off; zero is never
	ended    bool      // the goroutine is done
	queue    []block
	store    []block // the memory of the queue
	free     [][]byte
	held     int // bytes in queue
	reserved int // lines of Reserved
	limit    int // of held, at this moment
	busy     time.Time
	late     time.Time // of busy, when somebody found that it took too long
	lateAt   time.Time // when that was
	asked    uint64    // Check and Flush, numbered
	answered uint64
	look     bool // whether the file is still there
	sync     bool // one that asks wants it on the disk
	closing  bool
	closed   time.Time
	given    bool  // up: a deadline has passed
	leave    bool  // the file without its end
	err      error // of the current failure; nil while writes succeed
	outage   *outage
	part     Part
	reports  []error // for OnError
	first    error   // that lost lines
	other    error   // the first that lost none
	stats    Stats
	path     string
	result   error
	made     time.Time     // by the system's clock
	ahead    time.Duration // of Now before that

	telling sync.Mutex // OnError is being called

	// Of the goroutine only.
	current  current // the block that is being written
	writing  bool    // there is one
	begun    bool    // the current file has its start
	finished bool    // the current file has its end, another one follows
	framing  int     // lines of the start of the file
}

// outage is what is known of the current outage.
type outage struct {
	Outage
	since, from, to time.Time
	lost            int // lines that no record reports yet
	waited          time.Duration
}

// New makes a Sink and writes the start of the file. An error means that this
// failed; out is closed then.
func New(out Output, o Options) (*Sink, error) {
	s := newSink(out, o)
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go s.run()
	return s, nil
}

func newSink(out Output, o Options) *Sink {
	if o.Hold <= 0 {
		o.Hold = DefaultHold
	}
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Sink{o: o, out: out, work: make(chan struct{}, 1), limit: min(shallow, o.Hold), path: out.Path()}
	s.changed.L = &s.mu
	s.made = time.Now()
	s.ahead = o.Now().Sub(s.made)
	s.alarm = time.AfterFunc(time.Hour, s.ring)
	s.alarm.Stop()
	return s
}

// Path is the current file.
func (s *Sink) Path() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.path
}

// Stats returns the counts.
func (s *Sink) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Held = s.held
	return st
}

// Err is why the file does not work at present, nil while it does.
func (s *Sink) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble(time.Now())
}

// trouble is the error of the current failure or stall.
func (s *Sink) trouble(now time.Time) error {
	if s.err != nil {
		return s.err
	}
	if s.stalled(now) {
		return ErrStalled
	}
	return nil
}

// stalled reports whether the present operation takes too long. On a busy machine
// the goroutine that writes may be as late as whoever looks, so it is looked at
// again a moment later.
func (s *Sink) stalled(now time.Time) bool {
	if s.busy.IsZero() || now.Sub(s.busy) < StallAfter {
		return false
	}
	if !s.late.Equal(s.busy) {
		s.late, s.lateAt = s.busy, now
	}
	return now.Sub(s.lateAt) >= lateAgain
}

// Put appends a block of whole lines, which it copies. It never waits: ask
// Admit before making one.
func (s *Sink) Put(data []byte, lines, metadata int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given || s.closing {
		s.lose(lines)
		return
	}
	s.held += len(data)
	s.stats.Lines += uint64(lines)
	defer s.wake()
	if n := len(s.queue) - 1; n > 0 && len(s.queue[n].data)+len(data) <= chunk { // the first is being written
		b := &s.queue[n]
		b.data, b.lines, b.metadata = append(b.data, data...), b.lines+lines, b.metadata+metadata
		return
	}
	var buf []byte
	if n := len(s.free); n > 0 {
		buf, s.free = s.free[n-1], s.free[:n-1]
	}
	if len(s.queue) == 0 {
		s.queue = s.store[:0]
	}
	s.queue = append(s.queue, block{append(buf[:0], data...), lines, metadata})
	if len(s.queue) == 1 {
		s.store = s.queue
	}
}

// Admit waits until there is room for more. It reports false, and counts the
// lines as lost, if the file has stopped and the memory for that is full.
func (s *Sink) Admit(lines int) bool {
	if s.Ready() {
		return true
	}
	s.mu.Lock()
	ok := s.admit(lines)
	s.mu.Unlock()
	s.tell()
	return ok
}

// Ready reports whether Admit would let more in at once.
func (s *Sink) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held >= s.limit || s.closing || s.given {
		return false
	}
	s.reserved = 0
	return true
}

// Reserved reports whether one more line may be put that says what is missing,
// and takes its place: some are reserved for the time in which Admit lets no more
// in. They are counted, because what is in memory then may be over the limit by
// more than they are long.
func (s *Sink) Reserved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved == reserve || s.closing || s.given {
		return false
	}
	s.reserved++
	return true
}

func (s *Sink) admit(lines int) bool {
	for {
		if s.given {
			s.lose(lines)
			return false
		}
		if s.held < s.limit || s.closing {
			return true
		}
		now := time.Now()
		bad := s.trouble(now)
		if bad == nil {
			s.pause(s.untilStall(now))
			continue
		}
		s.fail(bad, now)
		if s.limit = s.o.Hold; s.held < s.limit {
			return true
		}
		wait := s.o.Wait - s.outage.waited
		if s.o.Wait < 0 {
			wait = time.Hour
		} else if wait <= 0 {
			s.lose(lines)
			return false
		}
		s.pause(wait)
		if s.outage != nil {
			s.outage.waited += time.Since(now)
		}
	}
}

// untilStall is when the present operation will count as a stall.
func (s *Sink) untilStall(now time.Time) time.Duration {
	switch {
	case s.busy.IsZero():
		return StallAfter
	case s.late.Equal(s.busy):
		return lateAgain - now.Sub(s.lateAt)
	}
	return StallAfter - now.Sub(s.busy)
}

// pause waits for a change, or for so long; the lock is held before and after.
func (s *Sink) pause(d time.Duration) {
	at := time.Now().Add(max(d, time.Millisecond))
	if s.alarmAt.IsZero() || at.Before(s.alarmAt) {
		s.alarmAt = at
		s.alarm.Reset(time.Until(at))
	}
	s.changed.Wait()
}

// ring ends the pause of all who wait.
func (s *Sink) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarmAt = time.Time{}
	s.changed.Broadcast()
}

func (s *Sink) wake() {
	select {
	case s.work <- struct{}{}:
	default:
	}
}

// Check makes the goroutine look whether the file is still there, and notices
// a stall. It does not wait.
func (s *Sink) Check() {
	s.mu.Lock()
	s.asked++
	s.look = true
	_ = s.notice() // it is on record
	s.wake()
	s.mu.Unlock()
	s.tell()
}

// notice begins an outage if there is trouble, and returns the trouble.
func (s *Sink) notice() error {
	now := time.Now()
	bad := s.trouble(now)
	if bad != nil {
		s.fail(bad, now)
	}
	return bad
}

// Flush waits until what was put before is in the file, and with sync on the
// disk. While the file fails or has stopped it returns why, and ends with the
// context at the latest.
func (s *Sink) Flush(ctx context.Context, sync bool) error { return s.flush(ctx, true, sync) }

// Drain is Flush that does not look whether the file is still there.
func (s *Sink) Drain(ctx context.Context) error { return s.flush(ctx, false, false) }

func (s *Sink) flush(ctx context.Context, look, sync bool) error {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, s.ring)()
	}
	defer s.tell()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	ticket := s.asked
	s.look, s.sync = s.look || look, s.sync || sync
	s.wake()
	for !s.given && !s.ended && s.answered < ticket {
		now := time.Now()
		if s.stalled(now) {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		s.pause(s.untilStall(now))
	}
	if s.given || s.ended {
		return s.result
	}
	return s.notice()
}

// Close writes what waits and the end of the file, and closes it. It ends with
// the context: what is not in the file then is lost, and counted. Without a
// deadline it gives up when the file takes nothing for half a minute. It
// returns the first error that lost lines or left the file incomplete; every
// further call returns the same.
func (s *Sink) Close(ctx context.Context) error {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, s.ring)()
	}
	defer s.tell()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.closing, s.closed = true, time.Now()
	}
	s.wake()
	_, bounded := ctx.Deadline()
	for !s.given && !s.ended {
		_ = s.notice() // it is on record
		if now := time.Now(); !bounded && s.stalled(now) && min(now.Sub(s.busy), now.Sub(s.closed)) >= patience {
			s.abandon(ErrStalled)
			break
		}
		if err := ctx.Err(); err != nil {
			s.abandon(err)
			break
		}
		s.pause(StallAfter)
	}
	return s.result
}

// Abandon gives up at once: what waits is lost, nobody waits any longer, and
// Close returns. The reason becomes the error of Close.
func (s *Sink) Abandon(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.abandon(reason)
	}
}

func (s *Sink) abandon(reason error) {
	if s.given {
		return
	}
	s.given = true
	s.loseQueue()
	if bad := s.trouble(time.Now()); bad != nil && !errors.Is(reason, bad) {
		reason = fmt.Errorf("%w (%w)", reason, bad)
	}
	s.result = fmt.Errorf("the file is not complete: %w; %d lines are missing", reason, s.stats.Lost)
	s.changed.Broadcast()
	s.out.Interrupt()
	s.wake()
}

func (s *Sink) loseQueue() {
	n := 0
	for _, b := range s.queue {
		n += b.lines
	}
	s.lose(n)
	s.queue, s.held = nil, 0
}
