package straggler

import (
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// Watch judges a run while it lasts: the same detector as State.Verdict, fed
// step by step. It is not safe for concurrent use.
type Watch struct {
	st     *State
	every  int64
	next   int64
	begun  bool
	before *Verdict
	said   *Verdict
}

// What began a few steps ago gains little of a long run, so that a Watch that finds
// nothing in all of it looks at the last steps as well. They are enough for a finding
// of twenty, and what they say counts while it lasts only.
const recentSteps = 60

// NewWatch makes a Watch that judges every so many steps; every at 0 means 5.
// Its memory is bounded by opt.MaxCells.
func NewWatch(opt *Options, every int) *Watch {
	if every <= 0 {
		every = 5
	}
	w := &Watch{st: New(opt), every: int64(every)}
	w.st.SetLive()
	return w
}

// State returns the state that is fed, for SetRank and SetWorldSize.
func (w *Watch) State() *State { return w.st }

// Add adds one step of one rank. It returns a verdict when the answer has
// changed, otherwise nil. An answer counts when two judgements in a row agree:
// a run that is judged often has more chances to look wrong once. The
// first answer is that all is well, which is not reported.
//
// A step counts as reached when the first rank reports the one after it, so
// that ranks may report a little apart.
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

// Check judges now, as Add does at its steps. A rank that is lost sends no more
// steps: call it when none have come for long.
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

// Lately returns the verdict v of a run that goes on or, where that finds nothing, one on
// what began lately and costs 5 % of the time since.
func (s *State) Lately(v *Verdict) *Verdict {
	if v.Kind != finding.Fine && v.Suspected == nil || s.windowed {
		return v
	}
	if last := s.stepsSince(s.newest - recentSteps + 1).Verdict(); last.ExitCode() == 3 && last.ToStep < 0 && max(last.Gain, last.SegmentGain) >= floorSegment {
		return last
	}
	return v
}

// stepsSince returns the steps from one on. It shares with s what is packed.
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
