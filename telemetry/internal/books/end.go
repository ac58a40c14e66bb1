package books

import (
	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/grammar"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/internal/phase"
)

// End does what the end of a standard span means for the books, and adds to out
// what is to be said of it. readings says that metrics are read. An error leaves
// the span to be stopped all the same, so that a problem in one iteration is not
// a problem in all that follow.
func (b *Books) End(e *Ending, v *Values, readings bool, out *Entry) error {
	switch w := &b.windows[e.Index]; e.Index {
	case phase.Iteration:
		return b.endIteration(e, v, readings, out)
	case phase.SaveSync, phase.SaveAsync:
		w.stop(e.Took)
		b.endSave(e, v, out)
	case phase.Finalization:
		w.stop(e.Took)
		b.endFinalization(e, out)
	case phase.Validation:
		out.event(spans.EventValidationMetricsUpdate, e.Now, b.validation())
		b.validated = b.done
	case phase.Testing:
		out.event(spans.EventTestingMetricsUpdate, e.Now, grammar.TestingMetricsUpdate{
			CurrentIteration: max(0, b.done-1),
			Interval:         b.done - b.tested,
		}.Append(nil))
		b.tested = b.done
	case phase.Training:
		// The reference drops what a loop did since its last update.
		if b.done > b.reported && v.known && v.err == nil {
			out.Events = append(out.Events, Event{Event: b.update(v, true, e.Now), Extension: true})
		}
	case phase.Epoch:
	default:
		if e.Failure != nil {
			w.drop()
		} else {
			w.stop(e.Took)
		}
	}
	return nil
}

// validation are the metrics of a validation loop.
func (b *Books) validation() []attributes.Attr {
	m := grammar.ValidationMetricsUpdate{
		CurrentIteration: max(0, b.done-1),
		Interval:         b.done - b.validated,
	}
	if w := &b.windows[phase.ValidationIteration]; w.timed {
		m.AvgIterationTimeSec = attributes.Some(w.avg())
		m.MinIterationTimeSec = attributes.Some(Seconds(w.min))
		m.MaxIterationTimeSec = attributes.Some(Seconds(w.max))
		m.TotalIterationTimeSec = attributes.Some(Seconds(w.total))
	}
	return m.Append(nil)
}
