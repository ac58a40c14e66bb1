package straggler

import (
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// Watch judges a run while it lasts, with the same detector as [State.Verdict], fed step by step. It is not
// safe for concurrent use.
type Watch struct {
	st     *State
	every  int64
	next   int64
	begun  bool
	before *Verdict
	said   *Verdict
}

// A recent problem gains little over a long run, so a Watch that finds nothing in the whole run also judges
// the last recentSteps steps. They suffice for a finding, which counts only as long as it lasts.
const recentSteps = 60

// NewWatch returns a Watch that judges the run each time every steps have passed; 0 means 5. opt.MaxCells
// bounds its memory.
func NewWatch(opt *Options, every int) *Watch {
	if every <= 0 {
		every = 5
	}
	w := &Watch{st: New(opt), every: int64(every)}
	w.st.SetLive()
	return w
}

// State returns the State of the Watch, for SetRank and SetWorldSize.
func (w *Watch) State() *State { return w.st }

// Add adds one step of one rank. It returns a verdict if the diagnosis has changed, otherwise nil. Two
// consecutive judgments must agree: a run that is judged often is more likely to look wrong once. An initial
// verdict without a problem is not returned.
//
// A step counts as reached when the first rank reports the step after it, so ranks may report slightly apart.
func (w *Watch) Add(st *Step) *Verdict {
	var out *Verdict
	if first := !w.begun; first || st.Number >= w.next {
		if w.begun, w.next = true, st.Number+w.every; !first {
			out = w.Check()
		}
	}
	w.st.Add(st)
	return out
}

// Check judges at once and returns what [Watch.Add] would. Call it when no steps have arrived for long,
// because a lost rank sends none.
func (w *Watch) Check() *Verdict {
	v := w.st.Lately(w.st.Verdict())
	if v.Coverage.Steps < fewRounds && v.Kind != finding.Hang && v.ExitCode() == 3 {
		return nil
	}
	agree := w.before != nil && w.before.sameAnswer(v)
	w.before = v
	if !agree || w.said != nil && w.said.sameAnswer(v) {
		return nil
	}
	if w.said == nil && (v.Kind == finding.Fine || v.Kind == finding.Unknown) {
		return nil
	}
	w.said = v
	return v
}

// Lately returns v, the verdict on a running job. If v finds nothing, Lately returns instead a finding on the
// last steps that costs 5 % of the time since it began, if there is one.
func (s *State) Lately(v *Verdict) *Verdict {
	if v.Kind != finding.Fine && v.Suspected == nil || s.windowed {
		return v
	}
	if last := s.stepsSince(s.newest - recentSteps + 1).Verdict(); last.ExitCode() == 3 && last.ToStep < 0 && max(last.Gain, last.SegmentGain) >= floorSegment {
		return last
	}
	return v
}

// stepsSince returns the steps from step on. It shares the packed blocks with s.
func (s *State) stepsSince(step int64) *State {
	out := New(&s.opt)
	out.oldest, out.forgot, out.live = step, true, s.live
	out.Merge(s)
	out.forgot = s.forgot
	return out
}

func (a *Verdict) sameAnswer(b *Verdict) bool {
	return a.Kind == b.Kind && a.Cause == b.Cause && a.Reason == b.Reason && slices.Equal(a.Ranks, b.Ranks)
}
