package delivery

import (
	"context"
	"time"
)

// HopelessShare is the part of the time for sending, as its divisor, that a
// hopeless backend gets at the end: a job need not wait for one that is gone.
const HopelessShare = 5

// Line is the way to one backend: attempts, the pauses between them, and the
// decision to give up. Make it with [NewLine].
type Line struct {
	o      Options
	health Health
	stop   chan struct{} // closed by Stop
	// Set before stop is closed.
	until time.Time     // the end of the time for sending
	least time.Duration // less time than this is too little for another attempt

	// Of the goroutine that sends, after the stop.
	end    *pauses // nil before the first one
	looked bool    // the second look at a hopeless backend was taken
	gaveUp *Error  // why nothing is tried any more
}

// NewLine makes a line that pauses as o says; zero fields are the defaults.
// With a Spill nothing is tried again after the stop: the spill can take it.
func NewLine(o Options) *Line {
	return &Line{o: o.withDefaults(), stop: make(chan struct{})}
}

// Send makes attempts until one settles the matter, the time for retries is
// over, or there is no point in another one. ok tells that the last one
// succeeded. Else err is the latest failure, nil if there was none, and cause
// what the loss is to be counted as. One goroutine may send at a time.
//
// Before the stop an attempt is repeated for Options.RetryFor, with growing
// pauses. The stop cuts a pause short, and what comes then is
//
//   - for a backend that answered lately: attempts until the time is over, less
//     than a second apart as a rule, since it may be starting again just now;
//   - for a hopeless one ([Health.Hopeless]): one attempt and a second look, and
//     nothing any more, for this batch and all others;
//   - for one that asks for a pause beyond the end: nothing any more.
func (l *Line) Send(ctx context.Context, attempt func(ctx context.Context, first bool) *Error) (err *Error, cause Cause, ok bool) {
	p := newPauses(&l.o)
	for first := true; ; first = false {
		if l.gaveUp != nil || ctx.Err() != nil {
			if err == nil {
				err = l.gaveUp
			}
			return err, Shutdown, false
		}
		err = attempt(l.mark(ctx), first)
		l.health.Note(err)
		switch {
		case err == nil:
			return nil, 0, true
		case err.Rejected > 0, err.TooLarge:
			return err, Refused, false
		case ctx.Err() != nil:
			return err, Shutdown, false
		case !err.Retry:
			return err, Refused, false
		case !l.pause(ctx, p, err):
			return err, l.late(), false
		}
	}
}

// Stop begins the end of the line: at most so much time is left for sending,
// and for a hopeless backend a fifth of it. cut is called when it is over, once
// or more often. release stops the clock. Stop may be called once.
func (l *Line) Stop(most time.Duration, cut func()) (release func()) {
	l.until, l.least = time.Now().Add(most), most/20
	close(l.stop)
	soon := time.AfterFunc(most/HopelessShare, func() {
		if l.health.Hopeless(l.o.RetryFor) {
			cut()
		}
	})
	late := time.AfterFunc(most, cut)
	return func() {
		soon.Stop()
		late.Stop()
	}
}

func (l *Line) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// late is the cause of what came to the end of its retries.
func (l *Line) late() Cause {
	if l.stopped() {
		return Shutdown
	}
	return TimedOut
}

// pause waits until another attempt is due, and reports whether one is.
func (l *Line) pause(ctx context.Context, p *pauses, e *Error) bool {
	if !l.stopped() {
		return p.wait(ctx, e, l.stop)
	}
	hopeless := l.health.Hopeless(l.o.RetryFor)
	if l.o.Spill != nil || l.o.RetryFor < 0 {
		if hopeless {
			l.gaveUp = e
		}
		return false
	}
	if hopeless && l.looked {
		l.gaveUp = e
		return false
	}
	left := time.Until(l.until)
	d := l.o.RetryFirst / 2
	if l.looked = hopeless; !hopeless {
		d = l.nextAtEnd()
	}
	d = max(min(d, left/2), e.After)
	if left < l.least || d >= left {
		l.gaveUp = e
		return false
	}
	return sleep(ctx, d, nil)
}

// nextAtEnd is the pause before another attempt after the stop. All batches
// share them.
func (l *Line) nextAtEnd() time.Duration {
	if l.end == nil {
		o := l.o
		o.RetryMost = min(o.RetryMost, 2*o.RetryFirst)
		l.end = newPauses(&o)
	}
	return l.end.next.NextBackOff()
}

type endingKey struct{}

// mark tells attempts after the stop apart.
func (l *Line) mark(ctx context.Context) context.Context {
	if l.stopped() {
		return context.WithValue(ctx, endingKey{}, true)
	}
	return ctx
}

// Ending reports whether the context is that of an attempt after the stop. Such
// an attempt must find out how things are, and not repeat what was found before.
func Ending(ctx context.Context) bool { return ctx.Value(endingKey{}) != nil }
