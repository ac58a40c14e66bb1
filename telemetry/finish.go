package telemetry

import (
	"context"

	"github.com/trainspan/trainspan/telemetry/internal/books"
	"github.com/trainspan/trainspan/telemetry/internal/phase"
)

// finish ends a span with everything that the end of its kind means: metrics
// of an iteration, a loop, a save.
func (r *recorder) finish(s *Span, e End, used books.Consumed) error {
	var v books.Values
	switch s.index {
	case phase.Iteration, phase.SaveSync, phase.SaveAsync, phase.Training:
		v = r.values(false)
	}
	if s.index == phase.Application && r.hooks.ending != nil && r.Recording() && s.Active() {
		r.hooks.ending()
	}
	c := call{now: r.time.now()}
	at, wrong := r.time.instant(e.Time, c.now, e.anyTime)
	end := finishing{End: e, at: at, wrong: wrong, used: used, failure: r.repairs.describe(e.Err, 2), known: r.known(s, e.Err)}
	var problem error
	last := false // the span was ended that ends the recording
	r.locked(func() {
		var ended bool
		ended, problem = r.end(&c, s, &end, &v)
		if last = ended && s.index == phase.Application; last {
			// The end of the application is the end of what is open below it.
			r.stopOpen(&c, ErrClosed)
		}
	})
	r.out.deliver(&c)
	switch {
	case last && r.hooks.closing != nil:
		_ = r.hooks.closing(context.Background()) // logged where it happens: no outcome of this call
	case problem != nil && !last:
		return r.fail(phase.CallsOf(s.index).End, problem)
	}
	return nil
}
