package job

import (
	"cmp"
	"math"
	"slices"
)

// number sets the job-wide numbers of the steps. Nothing is guessed: numbers
// without a record stay unknown.
func (s *Steps) number() {
	s.loops = append(s.loops[:0], s.starts...)
	slices.SortFunc(s.loops, func(a, b Loop) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.From, a.From), compareBool(b.failed, a.failed))
	})
	s.loops = slices.CompactFunc(s.loops, func(a, b Loop) bool { return a.Start == b.Start })
	if len(s.list) > 0 && (len(s.loops) == 0 || s.list[0].Start < s.loops[0].Start) {
		s.loops = slices.Insert(s.loops, 0, Loop{Start: s.list[0].Start, From: Unknown})
	}
	s.Unnumbered, s.Local = 0, false
	at := 0
	for i := range s.loops {
		lp := &s.loops[i]
		from := at
		for at < len(s.list) && (i+1 == len(s.loops) || s.list[at].Start < s.loops[i+1].Start) {
			s.list[at].Loop = i
			at++
		}
		s.numberLoop(i, lp, from, at)
	}
}

// numberLoop numbers the steps of loop i, which are those from one index to another.
func (s *Steps) numberLoop(i int, lp *Loop, from, to int) {
	steps := s.list[from:to]
	lowest, last := NoEnd, Unknown
	numbered, repeated, restarts := 0, 0, false
	for k := range steps {
		if n := steps[k].Raw; n >= 0 {
			numbered++
			if n <= last {
				repeated++
			}
			restarts = restarts || n < last && n <= lowest
			lowest, last = min(lowest, n), n
		}
	}
	// Numbers that restart with each epoch, or that several steps share, count nothing in the loop. A step that is
	// tried again leaves the numbers of the others right.
	local := numbered == len(steps) && (restarts || 3*repeated >= numbered)
	loads := s.loadsBefore(i, from, to)
	// Numbers that begin again with the first one, as in a loop for each epoch, are no rollback unless a record says so.
	again := from > 0 && numbered > 0 && numbered == len(steps) && !lp.Given && len(loads) == 0 && lowest <= min(s.list[0].Raw, 1)
	failed := again && s.loops[s.list[from-1].Loop].failed // it may be tried again from its beginning, or go on
	if lp.Continues = again && !failed && s.list[from-1].Number >= 0 && s.list[from-1].End != NoEnd; lp.Continues {
		lp.From = Unknown
		next := s.list[from-1].Number + 1
		for k := range steps {
			if steps[k].Number = next + steps[k].Raw - lowest; local {
				steps[k].Number = next + int64(k)
			}
		}
		return
	}
	if !lp.Given {
		lp.From = Unknown
		switch step := lastStep(loads); {
		case step >= 0 && numbered > 0 && lowest == step+1:
			lp.From = step + 1 // the writer means the last step in the checkpoint
		case step >= 0:
			lp.From = step
		case numbered > 0 && lowest > 0 && !failed:
			lp.From, lp.Inferred = lowest, true
		}
	}
	for k := range steps {
		st := &steps[k]
		st.Number = st.Raw
		switch {
		case numbered == 0 && lp.From >= 0, local:
			st.Number = max(lp.From, 0) + int64(k)
		case st.Raw < 0:
			s.Unnumbered++
		case lowest <= 1 && lp.From > lowest:
			st.Number += lp.From - lowest
			s.Local = true
		}
	}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// loadsBefore returns the loads of checkpoints from which loop i, whose steps are those from one index to another, may
// have resumed: those after the last step before it began and before its first step.
func (s *Steps) loadsBefore(i, from, to int) (out []load) {
	since, until := int64(math.MinInt64), s.loops[i].Start
	if from > 0 {
		since = s.list[from-1].Start
	}
	if from < to {
		until = s.list[from].Start
	}
	for _, l := range s.loads {
		if l.time >= since && l.time <= until {
			out = append(out, l)
		}
	}
	return out
}

// lastStep returns the recorded step of the last of some loads that has one, or Unknown.
func lastStep(loads []load) int64 {
	at, step := int64(math.MinInt64), Unknown
	for _, l := range loads {
		if l.through >= 0 && l.time >= at {
			at, step = l.time, l.through
		}
	}
	return step
}

// inEpochs sets the epoch of steps without one to the epoch around them.
func (s *Steps) inEpochs() {
	slices.SortFunc(s.epochs, func(a, b epoch) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(b.number, a.number))
	})
	s.epochs = slices.CompactFunc(s.epochs, func(a, b epoch) bool { return a.Start == b.Start }) // and the record of its begin
	at := -1
	for i := range s.list {
		st := &s.list[i]
		for at+1 < len(s.epochs) && s.epochs[at+1].Start <= st.Start {
			at++
		}
		if st.Epoch < 0 && at >= 0 && st.Start < s.epochs[at].End {
			if st.Epoch = s.epochs[at].number; st.Epoch < 0 {
				st.Epoch = int64(at)
			}
		}
	}
}
