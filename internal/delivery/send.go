package delivery

import (
	"context"
	"errors"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

var (
	errUnknown  = errors.New("no attempt was made")
	errNoAnswer = errors.New("the backend did not answer before the deadline of the shutdown")
)

// send is the goroutine that exports. It ends after Shutdown, when the queue
// is empty.
func (p *Processor) send() {
	timer := time.NewTimer(p.opts.Delay)
	defer timer.Stop()
	for {
		var asked *flush
		all, stopping := true, false
		select {
		case <-p.wake:
			all = false
		case <-timer.C:
		case asked = <-p.flushes:
		case <-p.stop:
			stopping = true
		}
		p.drain(all)
		p.tell()
		if asked != nil {
			close(asked.done)
		}
		if stopping {
			return
		}
		timer.Reset(p.opts.Delay)
	}
}

// drain exports what waits now: all of it, or whole batches only. What comes
// meanwhile is left for the next turn, so that a flush ends.
func (p *Processor) drain(all bool) {
	p.mu.Lock()
	left := p.queue.len()
	p.mu.Unlock()
	for left > 0 {
		batch := p.take(all)
		if len(batch) == 0 {
			break
		}
		left -= len(batch)
		p.deliver(batch)
		p.tell()
	}
	if all { // what the other goroutine took belongs to it too
		p.relief.Lock()
		defer p.relief.Unlock()
	}
}

// take removes a batch from the queue; a smaller one only if partial is set.
func (p *Processor) take(partial bool) []sdktrace.ReadOnlySpan {
	p.mu.Lock()
	var items []item
	if partial || p.queue.len() >= p.opts.MaxBatch || p.queue.bytes >= p.opts.MaxBatchBytes {
		items = p.queue.take(make([]item, 0, min(p.opts.MaxBatch, p.queue.len())), p.opts.MaxBatch, p.opts.MaxBatchBytes)
	}
	p.mu.Unlock()
	batch := make([]sdktrace.ReadOnlySpan, len(items))
	repaired := 0
	for i, it := range items {
		batch[i] = it.span
		if it.bytes <= largeSpan {
			s, n := p.clean(it.span)
			batch[i] = s
			repaired += n
		}
	}
	if repaired > 0 {
		p.mu.Lock()
		p.stats.Repaired += int64(repaired)
		p.mu.Unlock()
	}
	return batch
}

// deliver sees to it that the fate of a batch is settled.
func (p *Processor) deliver(batch []sdktrace.ReadOnlySpan) {
	e, cause, ok := p.line.Send(p.sending, func(ctx context.Context, first bool) *Error {
		return p.attempt(ctx, batch, first)
	})
	switch {
	case ok:
		p.settle(len(batch), 0, Refused, nil)
	case e != nil && e.Rejected > 0:
		rejected := min(e.Rejected, len(batch))
		p.settle(len(batch)-rejected, rejected, Refused, e)
	case e != nil && e.TooLarge && len(batch) > 1:
		half := len(batch) / 2
		p.deliver(batch[:half])
		p.deliver(batch[half:])
	default:
		p.lose(batch, cause, e)
	}
}

// attempt exports a batch once.
func (p *Processor) attempt(ctx context.Context, batch []sdktrace.ReadOnlySpan, first bool) *Error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.ExportTimeout)
	defer cancel()
	e := judge(ctx, p.guard(func() error { return p.exporter.ExportSpans(ctx, batch) }))
	if e != nil && p.sending.Err() != nil && e.Rejected == 0 {
		e = &Error{Err: errNoAnswer, Retry: true, NoAnswer: true}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Attempts++
	if !first {
		p.stats.Retries++
	}
	if e != nil && (p.stats.LastError == nil || e.Err != errNoAnswer) {
		p.stats.LastError = e
	}
	return e
}

// lose gives a batch to the spill, or counts it as dropped. e may be nil.
func (p *Processor) lose(batch []sdktrace.ReadOnlySpan, c Cause, e *Error) {
	kept := 0
	if p.opts.Spill != nil && !p.gone() {
		err := p.guard(func() (err error) {
			kept, err = p.opts.Spill.Keep(batch)
			return err
		})
		if err != nil || kept < len(batch) {
			e = &Error{Err: err}
			p.mu.Lock()
			if kept < len(batch) {
				p.stats.SpillErrors++
			}
			p.stats.LastError = e
			p.unspill(err)
			p.mu.Unlock()
		}
		kept = min(max(kept, 0), len(batch))
	}
	p.mu.Lock()
	if !p.abandoned {
		p.stats.Spilled += int64(kept)
	}
	p.mu.Unlock()
	p.settle(0, len(batch)-kept, c, e)
}

// unspill counts spans that the spill has lost. The lock is held.
func (p *Processor) unspill(err error) {
	var lost *SpillLost
	if errors.As(err, &lost) && !p.abandoned {
		n := min(int64(lost.Spans), p.stats.Spilled)
		p.stats.Spilled -= n
		p.stats.Dropped[Unspilled] += n
		p.reasons[Unspilled] = &Error{Err: err}
	}
}

// settle counts spans whose fate is known.
func (p *Processor) settle(exported, dropped int, c Cause, e *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandoned {
		return
	}
	p.stats.Exported += int64(exported)
	p.stats.Dropped[c] += int64(dropped)
	if dropped > 0 && e != nil {
		p.reasons[c] = e
	}
}

func (p *Processor) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.abandoned
}

// relieve is the goroutine that moves spans from a nearly full queue to the
// spill while the other one waits for the backend.
func (p *Processor) relieve() {
	for {
		select {
		case <-p.stop:
			return
		case <-p.overflow:
		}
		for p.relieveOnce() {
		}
	}
}

// relieveOnce moves one batch, if the queue is more than half full.
func (p *Processor) relieveOnce() bool {
	p.relief.Lock()
	defer p.relief.Unlock()
	p.mu.Lock()
	full := p.crowded(1, 2) && !p.stopped
	p.mu.Unlock()
	if !full {
		return false
	}
	batch := p.take(true)
	p.lose(batch, QueueFull, nil)
	return len(batch) > 0
}

// tell reports the drops that were not reported yet.
func (p *Processor) tell() {
	if p.opts.OnLoss == nil {
		return
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	p.mu.Lock()
	dropped, reasons := p.stats.Dropped, p.reasons
	p.mu.Unlock()
	for c, n := range dropped {
		if n > p.told[c] {
			_ = p.guard(func() error { // a panic there must not end the sender
				p.opts.OnLoss(Cause(c), n-p.told[c], reasons[c])
				return nil
			})
			p.told[c] = n
		}
	}
}
