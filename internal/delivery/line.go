package delivery

import (
	"context"
	"time"
)

// UnreachableShare is the part of the time for sending, as its divisor, that an
// unreachable backend gets at the end: a job need not wait for one that is gone.
const UnreachableShare = 5

// line is the way to one backend: attempts, the pauses between them, and the
// decision to give up.
type line struct {
	o      Options
	spills bool // what is given up is not lost
	health Health
	stop   chan struct{} // closed by end
	// Set before stop is closed.
	until time.Time     // the end of the time for sending
	least time.Duration // less time than this is too little for another attempt

	// Of the goroutine that sends.
	last   *Error  // the latest failure
	atEnd  *pauses // after the stop; nil before the first one
	asked  bool    // an attempt was made at the end although the backend wants to be left alone
	looked bool    // the second look at an unreachable backend was taken
	gaveUp *Error  // why nothing is tried any more
}

// newLine makes a line that pauses as o says. Where it spills, nothing is tried
// again after the stop: the spill can take it.
func newLine(o Options, spills bool) *line {
	return &line{o: o, spills: spills, stop: make(chan struct{})}
}

// send makes attempts until one settles the matter, the time for retries is
// over, or there is no point in another one. ok tells that the last one
// succeeded. Else err is the latest failure, nil if there was none, and cause
// what the loss is to be counted as. One goroutine may send at a time.
//
// Before the stop an attempt is repeated for Options.RetryFor, with growing
// pauses. A pause that the backend asks for holds for everything that goes
// there: nothing is sent before it is over ([Health.Held]), and a batch for
// which it is too long gets one attempt more. The stop cuts our own pauses
// short, and what comes then is
//
//   - for a backend that answered lately: attempts until the time is over, less
//     than a second apart as a rule, since it may be starting again just now;
//   - for an unreachable one ([Health.Unreachable]): one attempt and a second look, and
//     nothing any more, for this batch and all others;
//   - for one that asked for a pause: one attempt, and nothing any more if it
//     asks for a pause beyond the end.
func (l *line) send(ctx context.Context, attempt func(ctx context.Context, first bool) *Error) (err *Error, cause Cause, ok bool) {
	p := newPauses(&l.o)
	for first := true; ; first = false {
		if !l.ready(ctx) {
			if err == nil {
				err = l.gaveUp
			}
			return err, Shutdown, false
		}
		err = attempt(l.mark(ctx), first)
		l.health.Note(err)
		if err != nil {
			l.last = err
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
		case !l.pause(ctx, p, err):
			return err, l.late(), false
		}
	}
}

// ready waits for the end of a pause that the backend asked for, and reports
// whether an attempt may be made.
func (l *line) ready(ctx context.Context) bool {
	for l.gaveUp == nil && ctx.Err() == nil {
		d := l.health.Held()
		switch {
		case d <= 0:
			return true
		case !l.stopped():
			sleep(ctx, d, l.stop)
		case !l.asked && !l.spills: // there may be no later time to look
			l.asked = true
			return true
		case l.spills, d >= time.Until(l.until):
			l.gaveUp = l.last
		default:
			sleep(ctx, d, nil)
		}
	}
	return false
}

// end begins the end of the line: at most so much time is left for sending,
// and for an unreachable backend a fifth of it. cut is called when it is over, once
// or more often. release stops the clock. end may be called once.
func (l *line) end(most time.Duration, cut func()) (release func()) {
	l.until, l.least = time.Now().Add(most), most/20
	close(l.stop)
	soon := time.AfterFunc(most/UnreachableShare, func() {
		if l.health.Unreachable(l.o.RetryFor) {
			cut()
		}
	})
	late := time.AfterFunc(most, cut)
	return func() {
		soon.Stop()
		late.Stop()
	}
}

func (l *line) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// late is the cause of what came to the end of its retries.
func (l *line) late() Cause {
	if l.stopped() {
		return Shutdown
	}
	return TimedOut
}

// pause waits until another attempt is due, and reports whether one is.
func (l *line) pause(ctx context.Context, p *pauses, e *Error) bool {
	if !l.stopped() {
		if e.After > 0 {
			return p.outlives(l.health.Held()) // ready waits
		}
		return p.wait(ctx, e, l.stop)
	}
	unreachable := l.health.Unreachable(l.o.RetryFor)
	if l.spills || l.o.RetryFor < 0 {
		if unreachable {
			l.gaveUp = e
		}
		return false
	}
	if unreachable && l.looked {
		l.gaveUp = e
		return false
	}
	left := time.Until(l.until)
	d := l.o.RetryFirst / 2
	if l.looked = unreachable; !unreachable {
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
func (l *line) nextAtEnd() time.Duration {
	if l.atEnd == nil {
		o := l.o
		o.RetryMost = min(o.RetryMost, 2*o.RetryFirst)
		l.atEnd = newPauses(&o)
	}
	return l.atEnd.next.NextBackOff()
}

type endingKey struct{}

// mark tells attempts after the stop apart.
func (l *line) mark(ctx context.Context) context.Context {
	if l.stopped() {
		return context.WithValue(ctx, endingKey{}, true)
	}
	return ctx
}

// Ending reports whether the context is that of an attempt after the stop. Such
// an attempt must find out how things are, and not repeat what was found before.
func Ending(ctx context.Context) bool { return ctx.Value(endingKey{}) != nil }
