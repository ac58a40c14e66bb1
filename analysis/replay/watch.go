package replay

import "slices"

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

// NewWatch makes a Watch that judges every so many steps; every at 0 means 10.
// Its memory is bounded by opt.MaxCells.
func NewWatch(opt *Options, every int) *Watch {
	if every <= 0 {
		every = 10
	}
	return &Watch{st: New(opt), every: int64(every)}
}

// State gives the state that is fed, for SetRank and SetWorldSize.
func (w *Watch) State() *State { return w.st }

// Add adds one step of one rank. It returns a verdict when the answer has
// changed, otherwise nil. An answer counts when two judgements in a row agree:
// a run that is judged often has more chances to look wrong once. The
// first answer is healthy, which is not reported.
//
// A step counts as reached when the first rank reports the one after it, so
// that ranks may report a little apart.
func (w *Watch) Add(st *Step) *Verdict {
	due := w.begun && st.Number >= w.next
	if !w.begun {
		w.begun, w.next = true, st.Number+w.every
	}
	var out *Verdict
	if due {
		w.next = st.Number + w.every
		out = w.Check()
	}
	w.st.Add(st)
	return out
}

// Check judges now, as Add does at its steps. A rank that is lost sends no more
// steps: call it when none have come for long.
func (w *Watch) Check() *Verdict {
	v := w.st.Verdict()
	agree := w.before != nil && sameAnswer(w.before, v)
	w.before = v
	if !agree || w.said != nil && sameAnswer(w.said, v) {
		return nil
	}
	if w.said == nil && (v.Kind == Fine || v.Kind == Unknown) {
		return nil
	}
	w.said = v
	return v
}

func sameAnswer(a, b *Verdict) bool {
	return a.Kind == b.Kind && a.Cause == b.Cause && a.Reason == b.Reason && slices.Equal(a.Ranks, b.Ranks)
}
