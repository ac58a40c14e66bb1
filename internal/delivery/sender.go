package delivery

import (
	"context"
	"time"
)

// UnreachableShare is the part of the time for sending, as its divisor, that an
// unreachable backend gets at the end: a job need not wait for one that is gone.
const UnreachableShare = 5

// sender is the way to one backend: attempts, the pauses between them, and the
// decision to give up.
type sender struct {
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

// newSender makes a sender that pauses as o says. Where it spills, nothing is tried
// again after the stop: the spill can take it.
func newSender(o Options, spills bool) *sender {
	return &sender{o: o, spills: spills, stop: make(chan struct{})}
}

// send makes attempts until one settles the matter, the time for retries is
// over, or there is no point in another one. ok reports that the last one
// succeeded. Else err is the latest failure, nil if there was none, and cause
// what the loss is to be counted as. One goroutine may send at a time.
//
// Before the stop an attempt is repeated for Options.RetryFor, with growing
// pauses. A pause that the backend asks for holds for everything that goes
// there: nothing is sent before it is over ([Health.Held]), and a batch for
// which it is too long gets one attempt more, or goes to the spill. The stop cuts our own pauses
// short, and what comes then is
//
//   - for a backend that answered lately: attempts until the time is over, less
//     than a second apart as a rule, since it may be starting again just now;
//   - for an unreachable one ([Health.Unreachable]): one attempt and a second look, and
//     nothing any more, for this batch and all others;
//   - for one that asked for a pause: one attempt, and nothing any more if it
//     asks for a pause beyond the end.
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
			return false // it is safer there
		case !s.stopped():
			sleep(ctx, d, s.stop)
		case !s.asked && !s.spills: // there may be no later time to look
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

// end begins the end of the sending: at most so much time is left for sending,
// and for an unreachable backend a fifth of it. cut is called when it is over, once
// or more often. release stops the clock. end may be called once.
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

// late is the cause of what came to the end of its retries.
func (s *sender) late() Cause {
	if s.stopped() {
		return Shutdown
	}
	return TimedOut
}

// pause waits until another attempt is due, and reports whether one is. atEnd says
// that the one before was made after the stop.
func (s *sender) pause(ctx context.Context, p *pauses, e *Error, atEnd bool) bool {
	if !s.stopped() {
		if e.After > 0 {
			return p.outlives(s.health.Held()) // ready waits, or does not
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
		return true // what was under way at the stop is no look
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

// nextAtEnd is the pause before another attempt after the stop. All batches
// share them.
func (s *sender) nextAtEnd() time.Duration {
	if s.atEnd == nil {
		o := s.o
		o.RetryMost = min(o.RetryMost, 2*o.RetryFirst)
		s.atEnd = newPauses(&o)
	}
	return s.atEnd.next.NextBackOff()
}

type endingKey struct{}

// mark tells attempts after the stop apart.
func (s *sender) mark(ctx context.Context) context.Context {
	if s.stopped() {
		return context.WithValue(ctx, endingKey{}, true)
	}
	return ctx
}

// Ending reports whether the context is that of an attempt after the stop. Such
// an attempt must find out how things are, and not repeat what was found before.
func Ending(ctx context.Context) bool { return ctx.Value(endingKey{}) != nil }
