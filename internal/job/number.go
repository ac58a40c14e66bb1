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
	slices.SortFunc(s.loops, func(a, b Loop) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.From, a.From)) })
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
	if lp.Continues = from > 0 && numbered > 0 && numbered == len(steps) && s.continues(i, s.list[from-1], lowest); lp.Continues {
		lp.From = Unknown
		first := s.list[0].Loop
		if of := &s.loops[first]; !of.Given && of.From == lowest && s.loaded(first) < 0 {
			of.From = Unknown // its number is not that of the job either
		}
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
		switch step := s.loaded(i); {
		case step >= 0 && numbered > 0 && lowest == step+1:
			lp.From = step + 1 // the writer means the last step in the checkpoint
		case step >= 0:
			lp.From = step
		case numbered > 0 && lowest > 0:
			lp.From = lowest
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
		case lp.From > 0 && lowest == 0:
			st.Number += lp.From
			s.Local = true
		}
	}
}

// continues reports whether loop i, whose lowest number is given, goes on after the last step of the loop before:
// numbers that begin again with the first one, as in a loop for each epoch, are no rollback unless a record says so.
func (s *Steps) continues(i int, last Step, lowest int64) bool {
	return !s.loops[i].Given && lowest <= min(s.list[0].Raw, 1) && last.Number >= 0 && last.End != NoEnd &&
		!slices.ContainsFunc(s.loads, func(l load) bool { return l.time >= s.loops[i-1].Start && l.time <= s.loops[i].Start })
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

// loaded returns the step of the last checkpoint loaded before loop i and after
// the loop before it, or Unknown.
func (s *Steps) loaded(i int) int64 {
	at, step := int64(math.MinInt64), Unknown
	for _, l := range s.loads {
		if l.through >= 0 && l.time <= s.loops[i].Start && l.time >= at && (i == 0 || l.time >= s.loops[i-1].Start) {
			at, step = l.time, l.through
		}
	}
	return step
}
