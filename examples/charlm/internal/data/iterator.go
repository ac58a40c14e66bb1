package data

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
)

// Iterator delivers the batches of one epoch in order while its workers read
// ahead. It belongs to one goroutine; Close ends the workers.
type Iterator struct {
	order  chan job // jobs in the order of delivery; its capacity limits the read-ahead
	cancel context.CancelFunc
	wg     sync.WaitGroup
	end    error // io.EOF, or the reason for an early end; set before order is closed
	err    error // the first error, returned by all later calls
}

// Epoch starts reading batches first to first+count-1 of an epoch. The iterator
// must be closed, also after its end.
func (l *Loader) Epoch(ctx context.Context, epoch, first, count int) *Iterator {
	ctx, cancel := context.WithCancel(ctx)
	it := &Iterator{order: make(chan job, 2*l.cfg.Workers), cancel: cancel, end: io.EOF}
	jobs := make(chan job)
	it.wg.Go(func() {
		defer close(it.order)
		defer close(jobs)
		p := plan{cfg: &l.cfg, epoch: epoch, index: first}
		for i := range count {
			j := job{epoch: epoch, index: first + i, pieces: p.next(), answer: make(chan answer, 1)}
			select {
			case it.order <- j:
			case <-ctx.Done():
				it.end = ctx.Err()
				return
			}
			select {
			case jobs <- j:
			case <-ctx.Done():
				j.answer <- answer{err: ctx.Err()} // the reader waits for it
				return
			}
		}
	})
	for range l.cfg.Workers {
		it.wg.Go(func() {
			for j := range jobs {
				batch, err := l.read(ctx, j)
				j.answer <- answer{batch, err}
			}
		})
	}
	return it
}

// Next waits for the next batch. It returns io.EOF after the last one, and
// ctx's error if ctx ends first. After any error except ctx's it always returns
// the same error.
func (it *Iterator) Next(ctx context.Context) (Batch, error) {
	if it.err != nil {
		return Batch{}, it.err
	}
	if err := ctx.Err(); err != nil {
		return Batch{}, err
	}
	// After taking a job, Next waits for its answer without ctx: the wait is at
	// most one read, and returning early would lose a batch.
	select {
	case j, ok := <-it.order:
		if !ok {
			it.err = it.end
			return Batch{}, it.err
		}
		a := <-j.answer
		it.err = a.err
		return a.batch, a.err
	case <-ctx.Done():
		return Batch{}, ctx.Err()
	}
}

// All ranges over the remaining batches. An error ends the loop after it was
// yielded; the end of the epoch is not an error.
func (it *Iterator) All(ctx context.Context) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for {
			b, err := it.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// Close stops the workers and waits for them. It drops undelivered batches. A
// second call does nothing, and neither does a call on a nil Iterator.
func (it *Iterator) Close() {
	if it == nil {
		return
	}
	it.cancel()
	it.wg.Wait()
	if it.err == nil {
		it.err = io.EOF
	}
}
