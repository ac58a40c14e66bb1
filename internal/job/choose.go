package job

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/trainspan/trainspan/internal/tracefile/nest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// All returns the steps by start, for the spans added so far: after the last
// span they are final. They are valid until the next call.
func (s *Steps) All() []Step {
	if s.made {
		return s.list
	}
	for r := range s.found {
		s.found[r] = united(s.found[r])
	}
	s.made, s.Contradiction = true, false
	s.choose()
	s.Count, s.Begun = len(s.list), len(s.starts)+len(s.epochs) > 0
	s.number()
	s.inEpochs()
	s.GoesOn = s.restored || len(s.list) > 0 && s.list[0].Number > 0
	return s.list
}

// Find returns the index in All of the step whose span has that start and ID,
// or -1.
func (s *Steps) Find(start int64, id uint64) int {
	list := s.All()
	for i := sort.Search(len(list), func(i int) bool { return list[i].Start >= start }); i < len(list) && list[i].Start == start; i++ {
		if list[i].ID == id && id != 0 {
			return i
		}
	}
	return -1
}

// Shown returns the displayed number of step i of All: its number or, if any
// number is unknown, its index in the process.
func (s *Steps) Shown(i int) int64 {
	if list := s.All(); s.Unnumbered == 0 {
		return list[i].Number
	}
	return int64(i)
}

// Loops returns the training loops by start, at least one if there is a step.
// It is valid after All, as long as its result is.
func (s *Steps) Loops() []Loop { return s.loops }

// Then merges s, which covers some files of a process, with the steps of its
// next file, without the single steps. next.All must have been called.
func (s *Steps) Then(next *Steps) Steps {
	restored := s.restored || next.restored
	return Steps{
		Count: s.Count + next.Count, Begun: s.Begun || next.Begun, restored: restored,
		GoesOn: restored || s.GoesOn || s.Count == 0 && next.GoesOn, // steps of a later file do not begin with the first
	}
}

// drop drops the single steps.
func (s *Steps) drop() {
	if of := s.found[vocab.StepIteration]; cap(of) > fewSteps {
		stepMemory.Put(&of)
	}
	*s = Steps{made: true, Begun: s.Begun, GoesOn: s.GoesOn, Rule: s.Rule, Contradiction: s.Contradiction, Count: s.Count, Unnumbered: s.Unnumbered, Local: s.Local}
}

// united sorts spans and merges a span with the record of its begin, or a copy.
// A span without an end is dropped if the next one of its thread has its
// number: the program abandoned it, for example a batch that was requested and
// not used.
func united(list []Step) []Step {
	slices.SortFunc(list, func(a, b Step) int {
		if c := cmp.Compare(a.Start, b.Start); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.End, b.End), cmp.Compare(b.Raw, a.Raw))
	})
	out := list[:0]
	for _, c := range list {
		if n := len(out); n > 0 && c.ID != 0 && out[n-1].ID == c.ID && out[n-1].Start == c.Start {
			last := &out[n-1]
			last.Raw, last.Epoch, last.Thread, last.Tokens = max(last.Raw, c.Raw), max(last.Epoch, c.Epoch), max(last.Thread, c.Thread), max(last.Tokens, c.Tokens)
			continue
		}
		if n := len(out); n > 0 && out[n-1].End == NoEnd && c.Raw >= 0 && out[n-1].Raw == c.Raw && out[n-1].Epoch == c.Epoch && ThreadOf(out[n-1].Thread) == ThreadOf(c.Thread) {
			out = out[:n-1]
		}
		out = append(out, c)
	}
	return out
}

// choose determines the rule and its steps.
func (s *Steps) choose() {
	take := func(r vocab.StepRule, list []Step) {
		if s.Rule, s.list = r, list; s.Contradiction || len(list) == 0 {
			s.Rule, s.list = vocab.StepNone, nil
		}
	}
	for _, r := range [...]vocab.StepRule{vocab.StepIteration, vocab.StepProfiler} {
		if len(s.found[r]) > 0 {
			if r == vocab.StepProfiler {
				s.found[r] = withoutTail(s.found[r])
			}
			take(r, s.found[r])
			return
		}
	}
	if named := outermost(s.found[vocab.StepNamed]); len(named) > 0 {
		take(vocab.StepNamed, named)
		return
	}
	if words := outermost(s.found[vocab.StepWord]); s.containBackward(words) {
		take(vocab.StepNamed, words)
		return
	}
	if steps := s.fromUpdates(); len(steps) > 0 {
		take(vocab.StepUpdate, steps)
		return
	}
	slices.Sort(s.work)
	s.paused = joined(s.paused)
	if computed := slices.DeleteFunc(s.found[vocab.StepCompute], func(c Step) bool { return s.inPause(c.Start) }); len(computed) > 0 {
		take(vocab.StepCompute, computed)
		return
	}
	if bodies := s.bodies(); len(bodies) > 0 || s.Contradiction {
		take(vocab.StepBody, bodies)
		return
	}
	for _, c := range s.found[vocab.StepBody] { // of an evaluation
		if c.End != NoEnd {
			s.paused = append(s.paused, nest.Interval{Start: c.Start, End: c.End})
		}
	}
	s.paused = joined(s.paused)
	take(vocab.StepOptimizer, s.betweenOptimizers())
	if len(s.list) == 0 && !s.Contradiction {
		take(vocab.StepArgument, s.fromMarks())
	}
}

// containBackward reports whether nine of ten spans that have ended contain a backward pass.
func (s *Steps) containBackward(list []Step) bool {
	slices.Sort(s.backward)
	n, with := 0, 0
	for _, c := range list {
		if c.End == NoEnd {
			continue
		}
		n++
		if i, _ := slices.BinarySearch(s.backward, c.Start); i < len(s.backward) && s.backward[i] < c.End {
			with++
		}
	}
	return n > 0 && 10*with >= 9*n
}

// withoutTail returns the steps of a profiler without the one that it opened
// just before it was stopped.
func withoutTail(steps []Step) []Step {
	n := len(steps) - 1
	var before []int64
	for _, c := range steps[:n] {
		before = append(before, c.End-c.Start)
	}
	if vocab.IsTail(steps[n].End-steps[n].Start, before) {
		return steps[:n]
	}
	return steps
}

// outermost returns the spans of one thread that are not inside others, because
// a step may call a function of the same kind. Of several threads it uses the
// one with most time.
func outermost(list []Step) (out []Step) {
	time := make(map[int64]int64)
	for _, c := range list {
		if c.End != NoEnd {
			time[ThreadOf(c.Thread)] += c.End - c.Start
		}
	}
	thread := busiest(time)
	until := int64(math.MinInt64)
	for _, c := range list {
		if len(time) > 0 && ThreadOf(c.Thread) != thread || c.Start < until {
			continue
		}
		out = append(out, c)
		if c.End != NoEnd {
			until = c.End
		}
	}
	return out
}

// busiest returns the thread with most time, of equal ones the lowest.
func busiest(time map[int64]int64) int64 {
	thread, most := int64(0), int64(-1)
	for t, d := range time {
		if d > most || d == most && t < thread {
			thread, most = t, d
		}
	}
	return thread
}

// fromMarks returns a step for each number that spans of a thread have: from
// the first of these spans to the last. Of several threads it uses the one with
// most time. Numbers that are not consecutive are not steps.
func (s *Steps) fromMarks() (out []Step) {
	time := make(map[int64]int64)
	for _, m := range s.marks {
		time[m.thread] += m.End - m.Start
	}
	thread := busiest(time)
	slices.SortFunc(s.marks, func(a, b mark) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	for _, m := range s.marks {
		if m.thread != thread || s.inPause(m.Start) {
			continue
		}
		n := len(out)
		if n == 0 || out[n-1].Raw != m.step || out[n-1].Epoch != m.epoch {
			if n > 0 && (m.Start < out[n-1].End || m.epoch == out[n-1].Epoch && m.step < out[n-1].Raw && m.step > out[0].Raw) {
				return nil
			}
			out = append(out, Step{Thread: m.thread, Start: m.Start, End: m.End, Raw: m.step, Epoch: m.epoch})
			continue
		}
		out[n-1].End = max(out[n-1].End, m.End)
	}
	return out
}

// bodies returns the bodies of loops over a loader that are steps.
func (s *Steps) bodies() (out []Step) {
	for _, c := range s.found[vocab.StepBody] {
		i, _ := slices.BinarySearch(s.work, c.Start)
		trains := i < len(s.work) && s.work[i] < c.End
		if trains || len(s.work) == 0 && !s.inPause(c.Start) {
			out = append(out, c)
		}
	}
	out = s.innermost(out)
	inside := 0
	optimizer := s.found[vocab.StepOptimizer]
	for _, c := range optimizer {
		i := sort.Search(len(out), func(i int) bool { return out[i].Start > c.Start })
		if i > 0 && c.Start < out[i-1].End {
			inside++
		}
	}
	if len(out) > 0 && inside < len(optimizer)-inside {
		s.Contradiction = true
	}
	return out
}

// innermost returns the bodies that contain no other. A loop over a generator
// that loops itself has one body in each body: these are the same steps, and
// the wait comes before the inner one. More than one body inside another
// contradicts that they are steps.
func (s *Steps) innermost(bodies []Step) []Step {
	out := bodies[:0]
	around := int64(math.MinInt64) // the end of the outermost body around the last of out
	for _, c := range bodies {
		if c.Start >= around || around == NoEnd && c.End != NoEnd {
			out, around = append(out, c), c.End
			continue
		}
		last := &out[len(out)-1]
		s.Contradiction = s.Contradiction || c.Start >= last.End || c.End > last.End
		*last = c
	}
	return out
}

func (s *Steps) inPause(t int64) bool {
	i := sort.Search(len(s.paused), func(i int) bool { return s.paused[i].End > t })
	return i < len(s.paused) && s.paused[i].Start <= t
}

// joined sorts intervals and joins those that overlap.
func joined(list []nest.Interval) []nest.Interval {
	slices.SortFunc(list, func(a, b nest.Interval) int { return cmp.Compare(a.Start, b.Start) })
	return nest.Union(list[:0], list, nil)
}

// betweenOptimizers returns a step for each optimizer step: from the end of the
// previous one, or of an interruption of the training after it.
func (s *Steps) betweenOptimizers() (out []Step) {
	next, from := 0, s.first
	for i, c := range s.found[vocab.StepOptimizer] {
		if i > 0 && c.End <= from || c.End == NoEnd { // inside another one, or without an end
			continue
		}
		for ; next < len(s.paused) && s.paused[next].End <= c.Start; next++ {
			from = max(from, s.paused[next].End)
		}
		if from == 0 || from > c.Start {
			from = c.Start
		}
		out = append(out, Step{Thread: c.Thread, Start: from, End: c.End, Raw: c.Raw, Epoch: c.Epoch})
		from = c.End
	}
	s.Contradiction = s.mixed || s.waits > 0 && len(out) > s.waits+1
	return out
}
