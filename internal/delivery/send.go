package delivery

import (
	"context"
	"math/bits"
	"time"
)

// send is the goroutine that exports. It ends after Shutdown, when the queue
// is empty.
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

// drain exports what waits now: all of it, or whole batches only. What comes
// meanwhile is left for the next turn, so that a flush ends.
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
	if all { // what the other goroutine took belongs to it too
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
	cleaned := make([]bool, 0, cap(batch)) // before they waited
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

// deliver sees to it that the fate of a batch is settled. What is too large for
// one request is sent in halves, down to single items, so that one huge item
// costs no other. A backend that says the same of everything is believed: once
// it has said it as often in a row as it takes to find one item, nothing is
// halved any more until it takes something.
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
	if q.sink.Keep != nil && !q.gone() {
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
// spill while the other one waits for the backend, and at the end all of them.
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

// relieveAll moves what waits at the end to the spill, in time and without
// waiting for the backend: as soon as that has taken nothing for half of the time
// for sending, or when that time is over. An exporter that does not come back then
// loses the batch that it has.
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

// unsent waits until a time, and reports whether something is still being sent then.
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

// waiting takes a batch of what waits.
func (q *Queue[T]) waiting() []T { return q.take(true) }
