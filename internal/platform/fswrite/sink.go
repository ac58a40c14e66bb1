package fswrite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// FlushInterval is the longest time that a record waits in the memory of the
// process before it is written: what a killed process loses. All outputs keep
// it unless their options set another value, and docs/explain/reliability.md
// promises it.
const FlushInterval = 500 * time.Millisecond

// Defaults of [Options].
const (
	DefaultHold = 64 << 20
	DefaultWait = 100 * time.Millisecond
)

// SyncPolicy chooses when a Sink syncs the file to the disk.
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
	// Hold is how many bytes wait in memory while the file takes nothing; 0 means
	// DefaultHold.
	Hold int
	// Wait bounds how long all calls of Admit together wait once that memory is
	// full, per outage: 0 means DefaultWait; a negative value means no bound.
	Wait time.Duration
	Sync SyncPolicy
	// Rotate, if positive, starts the next part once a file has this many bytes.
	Rotate int64
	// Pause, if not nil, returns what a file needs when Suspend closes it without
	// its end.
	Pause func() Block
	// Unwanted, if not nil, decides at the end whether to delete the file.
	Unwanted func(Part) bool
	// OnError is called when an outage begins and when it ends, with an *Outage,
	// and for other errors. Any goroutine that uses the Sink may call it, and the
	// Sink's own, without a lock of the Sink.
	OnError func(error)
	// OnPath is called with every further file in which the Sink continues.
	OnPath func(path string)
	// Now returns the time from which gaps are counted. It is called once, in New,
	// without a lock of the Sink; nil means time.Now.
	Now func() time.Time
}

// Sink writes blocks to an Output in the order of their arrival, on its own
// goroutine. A slow file blocks its writers; a file that has stopped, or fails,
// does not: the blocks wait in memory, up to a bound, and beyond it lines are
// lost and counted. All methods are safe for concurrent use.
type Sink struct {
	o     Options
	out   Output
	work  chan struct{} // wakes the goroutine
	alarm *time.Timer   // wakes waiting callers

	mu      sync.Mutex
	changed sync.Cond // broadcast after every change that callers wait for
	alarmAt time.Time // when the alarm goes off; zero means never
	queue   queue
	stall   stall
	ask     ask
	closing closing
	err     error // the error of the current failure; nil while writes succeed

	// The state of lines that are not in the file.
	clock
	path    string
	stats   Stats
	part    Part
	outage  *outage
	reports []error // errors for OnError
	first   error   // the first error that lost lines
	other   error   // the first error that lost none

	telling sync.Mutex // held while OnError is called
	writer  *writer    // used by the goroutine only
}

// ask holds the requests of Check and Flush to the goroutine.
type ask struct {
	asked, answered uint64 // numbers of requests
	look            bool   // check whether the file is still there
	sync            bool   // sync it to the disk
}

// closing is the state of Close.
type closing struct {
	begun  bool
	at     time.Time
	leave  bool // leave the file without its end
	given  bool // a deadline has passed
	ended  bool // the goroutine has ended
	result error
}

// New creates a Sink and writes the start of the file. If this fails it returns
// an error, closes out, and deletes a file that Open has made.
func New(out Output, o Options) (*Sink, error) {
	onError := o.OnError
	o.OnError = nil // the caller gets the error
	s := newSink(out, o)
	if err := s.writer.begin(); err != nil {
		if f, regular := out.(*file); regular && f.made {
			err = errors.Join(err, f.Remove())
		}
		return nil, errors.Join(err, out.Close())
	}
	s.o.OnError = onError
	go s.writer.run()
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
	s := &Sink{o: o, out: out, work: make(chan struct{}, 1), queue: newQueue(o.Hold), clock: newClock(o.Now), path: out.Path()}
	s.writer = &writer{Sink: s}
	s.changed.L = &s.mu
	s.alarm = time.AfterFunc(time.Hour, s.ring)
	s.alarm.Stop()
	return s
}

// Path returns the path of the current file.
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
	st.Held = s.queue.held
	return st
}

// Err returns why the file does not work at present, or nil.
func (s *Sink) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble(time.Now())
}

// trouble returns the error of the current failure or stall.
func (s *Sink) trouble(now time.Time) error {
	if s.err != nil {
		return s.err
	}
	if s.stall.hasStalled(now) {
		return ErrStalled
	}
	return nil
}

// Put appends a block of whole lines, which it copies. It never waits: call
// Admit first.
func (s *Sink) Put(data []byte, lines, metadata int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.given || s.closing.begun {
		s.lose(lines)
		return
	}
	s.stats.Lines += uint64(lines)
	s.queue.push(data, lines, metadata)
	s.wake()
}

// Admit waits until there is room for more. It returns false, and counts the
// lines as lost, if the file has stopped and its memory is full.
func (s *Sink) Admit(lines int) bool {
	if s.Ready() {
		return true
	}
	s.mu.Lock()
	ok := s.admit(lines)
	s.mu.Unlock()
	s.report()
	return ok
}

// Ready reports whether Admit would return true at once.
func (s *Sink) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.full() || s.closing.begun || s.closing.given {
		return false
	}
	s.queue.reserved = 0
	return true
}

// Reserved reports whether one more line that reports a loss may be put, and
// reserves its place: some lines are reserved for the time in which Admit
// refuses more. They are counted, because memory may then exceed the limit by
// more than their length.
func (s *Sink) Reserved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.begun || s.closing.given {
		return false
	}
	return s.queue.reserve()
}

func (s *Sink) admit(lines int) bool {
	for {
		if s.closing.given {
			s.lose(lines)
			return false
		}
		if !s.queue.full() || s.closing.begun {
			return true
		}
		now := time.Now()
		bad := s.trouble(now)
		if bad == nil {
			s.pause(s.stall.untilStall(now))
			continue
		}
		s.fail(bad, now)
		if s.queue.limit = s.o.Hold; !s.queue.full() {
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

// pause waits for a change, or for this long. The caller holds the lock.
func (s *Sink) pause(d time.Duration) {
	at := time.Now().Add(max(d, time.Millisecond))
	if s.alarmAt.IsZero() || at.Before(s.alarmAt) {
		s.alarmAt = at
		s.alarm.Reset(time.Until(at))
	}
	s.changed.Wait()
}

// ring ends the pause of all waiting callers.
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

// Check makes the goroutine check whether the file is still there, and detects
// a stall. It does not wait.
func (s *Sink) Check() {
	s.mu.Lock()
	s.ask.asked++
	s.ask.look = true
	_ = s.notice() // it is recorded
	s.wake()
	s.mu.Unlock()
	s.report()
}

// notice begins an outage if there is a failure or stall, and returns its
// error.
func (s *Sink) notice() error {
	now := time.Now()
	bad := s.trouble(now)
	if bad != nil {
		s.fail(bad, now)
	}
	return bad
}

// Flush waits until what was put before is in the file, and with sync on the
// disk. While the file fails or has stopped it returns the error. It returns at
// the latest when the context ends.
func (s *Sink) Flush(ctx context.Context, sync bool) error { return s.flush(ctx, true, sync) }

// Drain is Flush without checking that the file is still there.
func (s *Sink) Drain(ctx context.Context) error { return s.flush(ctx, false, false) }

func (s *Sink) flush(ctx context.Context, look, sync bool) error {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, s.ring)()
	}
	defer s.report()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask.asked++
	ticket := s.ask.asked
	s.ask.look, s.ask.sync = s.ask.look || look, s.ask.sync || sync
	s.wake()
	for !s.closing.given && !s.closing.ended && s.ask.answered < ticket {
		now := time.Now()
		if s.stall.hasStalled(now) {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		s.pause(s.stall.untilStall(now))
	}
	if s.closing.given || s.closing.ended {
		return s.closing.result
	}
	return s.notice()
}

// Close writes what waits and the end of the file, and closes it. It returns
// when the context ends: what is not in the file then is lost, and counted.
// Without a deadline it gives up when the file takes nothing for 30 s. It
// returns the first error that lost lines or left the file incomplete; later
// calls return the same.
func (s *Sink) Close(ctx context.Context) error {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, s.ring)()
	}
	defer s.report()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing.begun {
		s.closing.begun, s.closing.at = true, time.Now()
	}
	s.wake()
	_, bounded := ctx.Deadline()
	for !s.closing.given && !s.closing.ended {
		_ = s.notice() // it is recorded
		if now := time.Now(); !bounded && s.stall.hasStalled(now) && min(now.Sub(s.stall.busy), now.Sub(s.closing.at)) >= patience {
			s.abandon(ErrStalled)
			break
		}
		if err := ctx.Err(); err != nil {
			s.abandon(err)
			break
		}
		s.pause(StallAfter)
	}
	return s.closing.result
}

// Abandon gives up at once: what waits is lost, all waiting calls return, and
// so does Close, with reason as its error.
func (s *Sink) Abandon(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing.ended {
		s.abandon(reason)
	}
}

func (s *Sink) abandon(reason error) {
	if s.closing.given {
		return
	}
	s.closing.given = true
	s.lose(s.queue.drop())
	if bad := s.trouble(time.Now()); bad != nil && !errors.Is(reason, bad) {
		reason = fmt.Errorf("%w (%w)", reason, bad)
	}
	s.closing.result = fmt.Errorf("the file is not complete: %w; %d lines are missing", reason, s.stats.Lost)
	s.changed.Broadcast()
	s.out.Interrupt()
	s.wake()
}

// report calls OnError with the pending errors, in order and without the lock.
func (s *Sink) report() {
	for s.unreported() && s.telling.TryLock() {
		for {
			s.mu.Lock()
			if len(s.reports) == 0 {
				s.mu.Unlock()
				break
			}
			err := s.reports[0]
			s.reports = s.reports[1:]
			s.mu.Unlock()
			if s.o.OnError != nil {
				calm(func() { s.o.OnError(err) })
			}
		}
		s.telling.Unlock()
	}
}

// calm calls a function of the program, whose panic must not end the process.
func calm(f func()) {
	defer func() { _ = recover() }()
	f()
}

func (s *Sink) unreported() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reports) > 0
}

// Block is what a [Format] adds to a file.
type Block struct {
	Data     []byte // valid until the Format is called again
	Lines    int
	Metadata int // how many of the lines are metadata
}

// Part is the state of a file.
type Part struct {
	Number   int    // number of the part, from 0
	Lines    int    // in the file
	Metadata int    // how many of the lines are metadata
	Lost     uint64 // lines lost so far in all parts
	Last     bool   // for End: no other part follows
	Again    bool   // for Begin: the file replaces one that vanished
}

// Gap describes lines that are missing.
type Gap struct {
	Lines    int
	From, To time.Time
	Cause    error
}

// Format adds framing to the blocks of a file. Its methods are called by one
// goroutine at a time. It may be nil.
type Format interface {
	// Begin returns the start of a file.
	Begin(Part) Block
	// Encode returns a block in the form of the file. After a failed write it may
	// be called again with the same block, after Begin for a new file.
	Encode(data []byte) []byte
	// Gap returns the record of missing lines.
	Gap(Gap) Block
	// End returns the end of a file.
	End(Part) Block
}
