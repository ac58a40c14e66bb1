package run

import (
	"cmp"
	"slices"
	"sort"
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/vocab"
	"github.com/trainspan/trainspan/spans"
)

// AddUpdate takes an event of the process. It is used where it is an update of the
// metrics of the training.
func (s *Steps) AddUpdate(e *Event) {
	if e.Name == spans.EventTrainingMetricsUpdate && e.Iterations > 0 && e.Took > 0 && !s.explicit() {
		s.updates = append(s.updates, *e)
		s.made = false
	}
}

// AddRecord is AddUpdate for a metadata event of a trace.
func (s *Steps) AddRecord(ev *dftracer.Event) {
	key, value := ev.Meta()
	if us, err := strconv.ParseInt(value, 10, 64); err == nil && key == spans.EventTrainingMetricsUpdate {
		e := Event{Name: key, Time: us * 1000, Step: Unknown, Through: Unknown}
		e.arguments(ev.Args)
		s.AddUpdate(&e)
	}
}

// RecordOf returns an event as the record that a trace has of it, of the parts that
// this package reads.
func RecordOf(e *Event) *dftracer.Event {
	args := []dftracer.Arg{dftracer.String("name", e.Name), dftracer.String("value", strconv.FormatInt(e.Time/1000, 10))}
	for _, a := range [...]struct {
		key string
		is  int64
		ok  bool
	}{{argIteration, e.Step, e.Step >= 0}, {argIterations, e.Iterations, e.Iterations > 0}} {
		if a.ok {
			args = append(args, dftracer.Int(a.key, a.is))
		}
	}
	for _, a := range [...]struct {
		key string
		is  int64
	}{{argTook, e.Took}, {argFinished, e.Finished}} {
		if a.is > 0 {
			args = append(args, dftracer.Float(a.key, float64(a.is)/1e9))
		}
	}
	return &dftracer.Event{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: dft.NameCustom, Parent: dftracer.NoParent, Args: args}
}

// updateStep begins the IDs of steps that no span stands for.
const updateStep uint64 = 1 << 62

// maxUpdated bounds the steps that an update may tell of: programs log every ten to
// thousand steps.
const maxUpdated = 1 << 12

// fromUpdates returns the steps that updates of the metrics tell of, where the program
// did not export the steps themselves. Those between two updates are as long as
// their mean, and lie before the second one, without what held them up. So their number
// and their time are right, while single ones are not known; nor are those after
// the last update.
func (s *Steps) fromUpdates() (out []Step) {
	slices.SortFunc(s.updates, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Iterations, b.Iterations))
	})
	s.held = joined(s.held)
	var before Event
	for _, u := range s.updates {
		if u.Iterations < before.Iterations { // counted anew
			before.Iterations, before.Took = 0, 0
		}
		n, took := u.Iterations-before.Iterations, u.Took-before.Took
		if n <= 0 || n > maxUpdated || took <= 0 {
			before = u // a copy
			continue
		}
		var steps []Step
		if u.Finished > before.Time && u.Finished < u.Time {
			u.Time = u.Finished // it is told later
		}
		end := u.Time
		hold := sort.Search(len(s.held), func(i int) bool { return s.held[i].Start >= end })
		for k := range n {
			length := took*(n-k)/n - took*(n-k-1)/n
			for ; hold > 0 && s.held[hold-1].End > end-length; hold-- {
				end = min(end, s.held[hold-1].Start)
			}
			if end = max(end, before.Time); end-length < before.Time {
				length = end - before.Time // more than there was time
			}
			st := Step{ID: updateStep + uint64(u.Iterations-k), Start: end - length, End: end, Raw: Unknown, Epoch: Unknown}
			if u.Step >= 0 {
				st.Raw = max(u.Step-k, Unknown)
			}
			steps = append(steps, st)
			end -= length
		}
		slices.Reverse(steps)
		out = append(out, steps...)
		before = u
	}
	return out
}

// AddEvent is Add for an event of a trace with times in microseconds, whose
// meaning is known.
func (s *Steps) AddEvent(ev *dftracer.Event, m *vocab.Meaning) {
	sp := Span{ID: ev.ID, Start: ev.TS * 1000, End: ev.End() * 1000, Step: Unknown, Epoch: Unknown, First: Unknown, Thread: ev.TID}
	sp.mean(ev.Cat, m)
	for i := range ev.Args {
		sp.argument(&ev.Args[i])
	}
	s.Add(&sp)
}
