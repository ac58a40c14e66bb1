package delivery

import (
	"context"
	"math/bits"
	"sync"
	"time"
)

// UnreachableShare is the part of the sending time at the end, as a divisor,
// that an unreachable backend gets, so that a job does not wait for one that is
// gone.
const UnreachableShare = 5

// sender makes the attempts to one backend, with pauses between them, and
// decides when to give up.
type sender struct {
	o      Options
	spills bool // what is given up goes to a spill
	health Health
	stop   chan struct{} // closed by end
	// Set before stop is closed.
	until time.Time     // the end of the time for sending
	least time.Duration // with less time than this no further attempt is made

	// Used by the sending goroutine.
	last   *Error  // the latest failure
	atEnd  *pauses // set after the stop
	asked  bool    // one attempt was made at the end although the backend asked for a pause
	looked bool    // the second attempt at an unreachable backend was made
	gaveUp *Error  // why no further attempts are made
}

// newSender returns a sender with the pauses of o. With spills, nothing is
// retried after the stop, because the spill can take it.
func newSender(o Options, spills bool) *sender {
	return &sender{o: o, spills: spills, stop: make(chan struct{})}
}

// send makes attempts until one gets a final result, the time for retries is
// over, or another attempt is useless. ok reports that the last one succeeded.
// Otherwise err is the latest failure, nil if there was none, and cause is the
// cause under which the loss is counted. One goroutine may send at a time.
//
// Before the stop an attempt is repeated for Options.RetryFor, with growing
// pauses. A pause that the backend asks for holds for everything sent to it:
// nothing is sent before it is over ([Health.Held]), and a batch for which it
// is too long gets one more attempt, or goes to the spill. The stop cuts our
// own pauses short, and then there are
//
//   - for a backend that answered lately: attempts until the time is over, mostly less than a second apart, because it may be starting again;
//   - for an unreachable one ([Health.Unreachable]): one attempt and a second one, and then no more, for this batch and all others;
//   - for one that asked for a pause: one attempt, and no more if it asks for a pause beyond the end.
func (s *sender) send(ctx context.Context, attempt func(ctx context.Context, first bool) *Error) (err *Error, cause Cause, ok bool) {
	p := newPauses(&s.o)
	for first := true; ; first = false {
		if !s.ready(ctx) {
			if err == nil {
				err = s.gaveUp
			}
			return err, s.late(), false
		}
		atEnd := s.stopped()
		err = attempt(s.mark(ctx), first)
		s.health.Note(err)
		if err != nil {
			s.last = err
		}
		switch {
		case err == nil:
			return nil, 0, true
		case err.Rejected > 0, err.TooLarge:
			return err, Refused, false
		case ctx.Err() != nil:
			return err, Shutdown, false
		case !err.Retry:
			return err, Refused, false
		case !s.pause(ctx, p, err, atEnd):
			return err, s.late(), false
		}
	}
}

// ready waits for the end of a pause that the backend asked for, and reports
// whether an attempt may be made.
func (s *sender) ready(ctx context.Context) bool {
	for s.gaveUp == nil && ctx.Err() == nil {
		d := s.health.Held()
		switch {
		case d <= 0:
			return true
		case !s.stopped() && s.spills && d > s.o.RetryFor:
			return false // the spill is safer
		case !s.stopped():
			sleep(ctx, d, s.stop)
		case !s.asked && !s.spills: // there may be no later attempt
			s.asked = true
			return true
		case s.spills, d >= time.Until(s.until):
			s.gaveUp = s.last
		default:
			sleep(ctx, d, nil)
		}
	}
	return false
}

// end begins the end of sending: at most most time is left for sending, and a
// fifth of it for an unreachable backend. cut is called when it is over, once
// or more often. release stops the timer. end may be called once.
func (s *sender) end(most time.Duration, cut func()) (release func()) {
	s.until, s.least = time.Now().Add(most), most/20
	close(s.stop)
	soon := time.AfterFunc(most/UnreachableShare, func() {
		if s.health.Unreachable(s.o.RetryFor) {
			cut()
		}
	})
	late := time.AfterFunc(most, cut)
	return func() {
		soon.Stop()
		late.Stop()
	}
}

func (s *sender) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// late returns the cause for items whose retries ended.
func (s *sender) late() Cause {
	if s.stopped() {
		return Shutdown
	}
	return TimedOut
}

// pause waits until another attempt is due, and reports whether one is. atEnd
// means that the last attempt was made after the stop.
func (s *sender) pause(ctx context.Context, p *pauses, e *Error, atEnd bool) bool {
	if !s.stopped() {
		if e.After > 0 {
			return p.outlives(s.health.Held()) // ready waits, or not
		}
		return p.wait(ctx, e, s.stop)
	}
	unreachable := s.health.Unreachable(s.o.RetryFor)
	if s.spills || s.o.RetryFor < 0 {
		if unreachable {
			s.gaveUp = e
		}
		return false
	}
	if unreachable && !atEnd && e.After <= 0 {
		return true // an attempt in progress at the stop does not count
	}
	if unreachable && s.looked {
		s.gaveUp = e
		return false
	}
	left := time.Until(s.until)
	d := s.o.RetryFirst / 2
	if s.looked = unreachable; !unreachable {
		d = s.nextAtEnd()
	}
	d = max(min(d, left/2), e.After)
	if left < s.least || d >= left {
		s.gaveUp = e
		return false
	}
	return sleep(ctx, d, nil)
}

// nextAtEnd returns the pause before another attempt after the stop. All
// batches share these pauses.
func (s *sender) nextAtEnd() time.Duration {
	if s.atEnd == nil {
		o := s.o
		o.RetryMost = min(o.RetryMost, 2*o.RetryFirst)
		s.atEnd = newPauses(&o)
	}
	return s.atEnd.next.NextBackOff()
}

type endingKey struct{}

// mark marks the context of attempts after the stop.
func (s *sender) mark(ctx context.Context) context.Context {
	if s.stopped() {
		return context.WithValue(ctx, endingKey{}, true)
	}
	return ctx
}

// Ending reports whether the context is that of an attempt after the stop. Such
// an attempt must try again instead of returning an earlier error.
func Ending(ctx context.Context) bool { return ctx.Value(endingKey{}) != nil }

// send is the sending goroutine. It ends after Shutdown, when the queue is
// empty.
func (q *Queue[T]) send() {
	defer close(q.sent)
	timer := time.NewTimer(q.opts.Delay)
	defer timer.Stop()
	for {
		var asked *flush
		all, stopping := true, false
		select {
		case <-q.wake:
			all = false
		case <-timer.C:
		case asked = <-q.flushes:
		case <-q.stop:
			stopping = true
		}
		q.drain(all)
		q.report()
		if asked != nil {
			close(asked.done)
		}
		if stopping {
			return
		}
		timer.Reset(q.opts.Delay)
	}
}

// drain exports what waits now: all of it, or whole batches only. Later items
// are left for the next call, so that a flush ends.
func (q *Queue[T]) drain(all bool) {
	q.mu.Lock()
	left := q.queue.Len()
	q.mu.Unlock()
	for left > 0 {
		batch := q.take(all)
		if len(batch) == 0 {
			break
		}
		left -= len(batch)
		q.deliver(batch)
		q.report()
	}
	if all { // includes what the other goroutine took
		q.relief.Lock()
		defer q.relief.Unlock()
	}
}

// take removes a batch from the queue; a smaller one only if partial is set.
func (q *Queue[T]) take(partial bool) []T {
	q.mu.Lock()
	if !partial && q.queue.Len() < q.opts.MaxBatch && q.queue.Bytes() < q.opts.MaxBatchBytes {
		q.mu.Unlock()
		return nil
	}
	batch := make([]T, 0, min(q.opts.MaxBatch, q.queue.Len()))
	cleaned := make([]bool, 0, cap(batch)) // those cleaned before they waited
	for left := q.opts.MaxBatchBytes; len(batch) < cap(batch); {
		bytes, _ := q.queue.First()
		if left -= bytes; left < 0 && len(batch) > 0 {
			break
		}
		value, _ := q.queue.Take()
		batch, cleaned = append(batch, value), append(cleaned, bytes > largeItem)
	}
	q.mu.Unlock()
	repaired := 0
	for i := range batch {
		if !cleaned[i] {
			value, n := q.clean(batch[i])
			batch[i] = value
			repaired += n
		}
	}
	if repaired > 0 {
		q.mu.Lock()
		q.stats.Repaired += int64(repaired)
		q.mu.Unlock()
	}
	return batch
}

// deliver gets a final result for a batch. What is too large for one request is
// sent in halves, down to single items, so that one huge item costs no other.
// If the backend finds everything too large, as often in a row as it takes to
// find one item, nothing is halved until it takes something.
func (q *Queue[T]) deliver(batch []T) {
	q.flight.add(batch)
	for batch := q.flight.current(); batch != nil; batch = q.flight.current() {
		e, cause, ok := q.sender.send(q.sending, func(ctx context.Context, first bool) *Error {
			return q.attempt(ctx, batch, first)
		})
		if !q.flight.land() {
			return // it went to the spill meanwhile
		}
		if e != nil && e.TooLarge {
			q.oversize++
		} else if ok || e != nil && e.Rejected > 0 {
			q.oversize = 0
		}
		switch {
		case ok:
			q.settle(len(batch), 0, Refused, nil)
		case e != nil && e.Rejected > 0:
			rejected := min(e.Rejected, len(batch))
			q.settle(len(batch)-rejected, rejected, Refused, e)
		case e != nil && e.TooLarge && len(batch) > 1 && q.oversize <= bits.Len(uint(q.opts.MaxBatch)):
			half := len(batch) / 2
			q.flight.add(batch[half:], batch[:half])
		default:
			q.lose(batch, cause, e)
		}
	}
}

// attempt exports a batch once.
func (q *Queue[T]) attempt(ctx context.Context, batch []T, first bool) *Error {
	ctx, cancel := context.WithTimeout(ctx, q.opts.ExportTimeout)
	defer cancel()
	e := judge(ctx, guard(func() error { return q.sink.Export(ctx, batch) }))
	if e != nil && q.sending.Err() != nil && e.Rejected == 0 {
		e = &Error{Err: errNoAnswer, Retry: true, NoAnswer: true}
	}
	q.attempted(e, first)
	return e
}

// lose gives a batch to the spill, or counts it as dropped. e may be nil.
func (q *Queue[T]) lose(batch []T, c Cause, e *Error) {
	kept := 0
	if q.sink.Keep != nil && !q.isAbandoned() {
		q.mu.Lock()
		ctx := q.rescue
		q.mu.Unlock()
		err := guard(func() (err error) {
			kept, err = q.sink.Keep(ctx, batch)
			return err
		})
		if err != nil || kept < len(batch) {
			e = &Error{Err: err}
			q.mu.Lock()
			if kept < len(batch) {
				q.stats.SpillErrors++
			}
			q.stats.LastError = e
			q.unspill(err)
			q.mu.Unlock()
		}
		kept = min(max(kept, 0), len(batch))
	}
	q.mu.Lock()
	if !q.abandoned {
		q.stats.Spilled += int64(kept)
	}
	q.mu.Unlock()
	q.settle(0, len(batch)-kept, c, e)
}

// relieve is the goroutine that moves items from a nearly full queue to the
// spill while the sender waits for the backend, and at the end all of them.
func (q *Queue[T]) relieve() {
	for {
		select {
		case <-q.stop:
			q.relieveAll()
			return
		case <-q.overflow:
		}
		for q.relieveOnce() {
		}
	}
}

// relieveOnce moves one batch, if the queue is more than half full.
func (q *Queue[T]) relieveOnce() bool {
	q.relief.Lock()
	defer q.relief.Unlock()
	q.mu.Lock()
	full := q.crowded(1, 2) && !q.stopped
	q.mu.Unlock()
	if !full {
		return false
	}
	batch := q.take(true)
	q.lose(batch, QueueFull, nil)
	return len(batch) > 0
}

// relieveAll moves the remaining items at the end to the spill, in time and
// without waiting for the backend: as soon as it has taken nothing for half of
// the sending time, or when that time is over. An exporter that does not return
// then loses its batch.
func (q *Queue[T]) relieveAll() {
	before := q.Stats().Exported
	e := q.ending
	if !q.unsent(e.began.Add(e.sending / 2)) {
		return
	}
	if q.Stats().Exported == before {
		q.spillAll(q.waiting)
	}
	if !q.unsent(e.began.Add(e.sending)) {
		return
	}
	q.spillAll(q.waiting)
	if q.unsent(e.began.Add(e.sending + (e.keeping-e.sending)/4)) {
		q.spillAll(q.flight.oldest)
	}
}

// unsent waits until a time, and reports whether something is still being sent
// then.
func (q *Queue[T]) unsent(until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-q.sent:
		return false
	case <-timer.C:
		return true
	}
}

// spillAll moves batches to the spill until there are none.
func (q *Queue[T]) spillAll(next func() []T) {
	for batch := next(); len(batch) > 0; batch = next() {
		q.lose(batch, Shutdown, nil)
	}
}

// waiting takes a batch of waiting items.
func (q *Queue[T]) waiting() []T { return q.take(true) }

// flight holds the batches that the sender has taken and that have no result
// yet, the current one last.
type flight[T any] struct {
	mu      sync.Mutex
	batches [][]T
}

// add adds batches that the sender is about to deliver, the first of them last.
func (f *flight[T]) add(batches ...[]T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, batches...)
}

// current returns the batch to deliver next, or nil.
func (f *flight[T]) current() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.batches) == 0 {
		return nil
	}
	return f.batches[len(f.batches)-1]
}

// land removes the batch that the sender has just tried to deliver. It returns
// false if another goroutine has taken it.
func (f *flight[T]) land() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.batches) == 0 {
		return false
	}
	f.batches = f.batches[:len(f.batches)-1]
	return true
}

// oldest takes a batch away from the sender.
func (f *flight[T]) oldest() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.batches) == 0 {
		return nil
	}
	batch := f.batches[0]
	if f.batches = f.batches[1:]; len(f.batches) == 0 {
		f.batches = nil
	}
	return batch
}
