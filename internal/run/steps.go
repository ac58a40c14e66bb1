package run

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/nest"
	"github.com/trainspan/trainspan/spans"
)

// Steps are the training steps of one process: the one place that decides which
// spans these are and which numbers they have. It is filled while files are read
// and final when the sinks of the process are closed; a [Sink] takes what it needs
// of the single steps in its Close, because they are dropped after that.
//
// Of the rules of [spans.StepRule] the first one applies that the process has
// spans for. The body of a loop over a loader is a step where a gradient is
// computed or applied in it, if any has one: those of an evaluation are none.
// Several bodies inside of another, and optimizer steps outside of the bodies, of different
// optimizers, or more often than a batch was waited for, contradict what the rule
// says: then no span is a step.
//
// The zero value is ready for use. It is not safe for concurrent use.
type Steps struct {
	// Rule is the one by which the steps are known, [spans.StepNone] without any.
	Rule spans.StepRule
	// Contradiction says that there are no steps because the spans for a rule, or
	// others, contradict it.
	Contradiction bool
	// Count is how many there are, unfinished ones included, and Unnumbered how
	// many of them have no number.
	Count, Unnumbered int
	// Begun says that a loop of training is on record, or an epoch.
	Begun bool
	// GoesOn says that a checkpoint was loaded, or that the first step is above 0.
	GoesOn bool
	// Local says that the program counts anew in each loop, so that the numbers in
	// its files are not those of the job.
	Local bool

	found     [spans.StepRules][]Step
	starts    []Loop // as they were read
	epochs    []epoch
	loads     []load
	restored  bool            // a checkpoint, whether its step is known or not
	updates   []Event         // of the metrics of the training
	held      []nest.Interval // what iterations are held up by
	work      []int64         // when gradients were computed or applied
	paused    []nest.Interval
	waits     int    // for batches
	mixed     bool   // optimizers have different names
	optimizer string // the name of one
	first     int64  // when the training began with a batch, 0 without one

	list  []Step
	loops []Loop
	made  bool // these are up to date
}

// Step is one training step of one process.
type Step struct {
	ID, Parent uint64 // of its span; zero where it is none, as of [spans.StepOptimizer]
	Thread     int64
	Start, End int64 // End is NoEnd when it never finished

	// Number is the one that it has in the job, over loops and attempts, or
	// Unknown. Raw is what was recorded.
	Number, Raw int64

	// Epoch is the number that was recorded, or else that of the epoch's span in
	// which it begins; these are counted where they have none. Unknown without one.
	Epoch  int64
	Tokens int64 // see [Span.Tokens]
	Loop   int   // index of its loop
}

// Loop is a loop of training.
type Loop struct {
	Start int64
	From  int64 // the number of its first step, Unknown
	Given bool  // From was written down, not concluded
}

type load struct{ time, through int64 }

type epoch struct {
	nest.Interval
	number int64 // Unknown without one
}

// Add takes a span of the process. Spans may come in any order, and twice.
func (s *Steps) Add(sp *Span) {
	s.made = false
	switch sp.Class {
	case spans.ClassFrame:
		switch sp.Name {
		case spans.TrainingLoop:
			s.starts = append(s.starts, Loop{Start: sp.Start, From: sp.First, Given: sp.First >= 0})
		case spans.Epoch:
			s.epochs = append(s.epochs, epoch{nest.Interval{Start: sp.Start, End: sp.End}, sp.Epoch})
		}
	case spans.ClassCheckpointLoad:
		s.restored = true
		if sp.Step >= 0 {
			s.loads = append(s.loads, load{sp.Start, sp.Step})
		}
	case spans.ClassCheckpointSave, spans.ClassEvaluation, spans.ClassTesting:
		if !sp.Background && sp.End != NoEnd && !s.explicit() {
			s.held = append(s.held, nest.Interval{Start: sp.Start, End: sp.End})
		}
	}
	if sp.Background || s.explicit() && sp.StepRule != spans.StepIteration {
		return
	}
	switch sp.Class {
	case spans.ClassEvaluation, spans.ClassTesting:
		if sp.End != NoEnd {
			s.paused = append(s.paused, nest.Interval{Start: sp.Start, End: sp.End})
		}
	case spans.ClassInputWait:
		if sp.End != NoEnd {
			s.waits++
		}
		s.began(sp.Start)
	case spans.ClassBackward:
		s.work = append(s.work, sp.Start)
		s.began(sp.Start)
	case spans.ClassForward:
		s.began(sp.Start)
	}
	r := sp.StepRule
	if r == spans.StepNone {
		return
	}
	if r == spans.StepOptimizer {
		s.work = append(s.work, sp.Start)
		s.mixed = s.mixed || s.optimizer != "" && s.optimizer != sp.Name
		s.optimizer = sp.Name
	}
	c := Step{ID: sp.ID, Parent: sp.Parent, Thread: sp.Thread, Start: sp.Start, End: sp.End, Raw: sp.Step, Epoch: sp.Epoch, Tokens: sp.Tokens}
	if n, ok := spans.ProfilerStepNumber(sp.Name); ok {
		c.Raw = n
	}
	if r == spans.StepCompute {
		c.Epoch = Unknown // what DLIO says there is 0 in all of them
	}
	s.found[r] = append(s.found[r], c)
	if r == spans.StepIteration && len(s.found[r]) == 1 { // what the others need is not needed any more
		*s = Steps{found: [spans.StepRules][]Step{spans.StepIteration: s.found[r]}, starts: s.starts, epochs: s.epochs, loads: s.loads, restored: s.restored}
	}
}

// SaysSteps reports whether spans of a meaning tell which spans are steps, or what
// numbers these have.
func SaysSteps(m *spans.Meaning) bool {
	switch m.Class {
	case spans.ClassInputWait, spans.ClassForward, spans.ClassBackward, spans.ClassEvaluation, spans.ClassTesting, spans.ClassCheckpointLoad:
		return true
	}
	return m.Step != spans.StepNone || m.Name == spans.TrainingLoop || m.Name == spans.Epoch
}

// AddEvent is Add for an event of a trace with times in microseconds, whose
// meaning is known.
func (s *Steps) AddEvent(ev *dftracer.Event, m *spans.Meaning) {
	sp := Span{ID: ev.ID, Start: ev.TS * 1000, End: ev.End() * 1000, Step: Unknown, Epoch: Unknown, First: Unknown, Thread: ev.TID}
	sp.mean(ev.Cat, m)
	for i := range ev.Args {
		sp.argument(&ev.Args[i])
	}
	s.Add(&sp)
}

// explicit reports whether the first rule applies.
func (s *Steps) explicit() bool { return len(s.found[spans.StepIteration]) > 0 }

// began notes when training began.
func (s *Steps) began(t int64) {
	if s.first == 0 || t < s.first {
		s.first = t
	}
}

// All returns the steps by start, as far as spans have been added: after the last
// one they are final. They are valid until the next call.
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

// Find returns the index in All of the step whose span has that start and ID, -1
// where that is none.
func (s *Steps) Find(start int64, id uint64) int {
	list := s.All()
	for i := sort.Search(len(list), func(i int) bool { return list[i].Start >= start }); i < len(list) && list[i].Start == start; i++ {
		if list[i].ID == id && id != 0 {
			return i
		}
	}
	return -1
}

// Shown returns the number by which an answer calls step i of All: its number or,
// where that of any is not known, its place in the process.
func (s *Steps) Shown(i int) int64 {
	if list := s.All(); s.Unnumbered == 0 {
		return list[i].Number
	}
	return int64(i)
}

// Loops returns the loops of training by start, at least one where there is a
// step. It is valid after All, as long as its result is.
func (s *Steps) Loops() []Loop { return s.loops }

// drop gives up the single steps.
func (s *Steps) drop() {
	*s = Steps{made: true, Begun: s.Begun, GoesOn: s.GoesOn, Rule: s.Rule, Contradiction: s.Contradiction, Count: s.Count, Unnumbered: s.Unnumbered, Local: s.Local}
}

// united sorts spans and makes one of a span and the note of its begin, or a copy.
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
		out = append(out, c)
	}
	return out
}

// choose finds the rule and its steps.
func (s *Steps) choose() {
	take := func(r spans.StepRule, list []Step) {
		if s.Rule, s.list = r, list; s.Contradiction || len(list) == 0 {
			s.Rule, s.list = spans.StepNone, nil
		}
	}
	for _, r := range [...]spans.StepRule{spans.StepIteration, spans.StepProfiler} {
		if len(s.found[r]) > 0 {
			take(r, s.found[r])
			return
		}
	}
	if steps := s.fromUpdates(); len(steps) > 0 {
		take(spans.StepUpdate, steps)
		return
	}
	slices.Sort(s.work)
	s.paused = joined(s.paused)
	if computed := slices.DeleteFunc(s.found[spans.StepCompute], func(c Step) bool { return s.inPause(c.Start) }); len(computed) > 0 {
		take(spans.StepCompute, computed)
		return
	}
	if bodies := s.bodies(); len(bodies) > 0 || s.Contradiction {
		take(spans.StepBody, bodies)
		return
	}
	for _, c := range s.found[spans.StepBody] { // of an evaluation
		if c.End != NoEnd {
			s.paused = append(s.paused, nest.Interval{Start: c.Start, End: c.End})
		}
	}
	s.paused = joined(s.paused)
	take(spans.StepOptimizer, s.betweenOptimizers())
}

// bodies returns the bodies of loops over a loader that are steps.
func (s *Steps) bodies() (out []Step) {
	for _, c := range s.found[spans.StepBody] {
		i, _ := slices.BinarySearch(s.work, c.Start)
		trains := i < len(s.work) && s.work[i] < c.End
		if trains || len(s.work) == 0 && !s.inPause(c.Start) {
			out = append(out, c)
		}
	}
	out = s.innermost(out)
	inside := 0
	optimizer := s.found[spans.StepOptimizer]
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

// innermost returns the bodies that hold no other. A loop over a generator that loops
// itself has one body in each body: these are the same steps, and before the inner
// one begins lies all that is waited for. More than one in another contradict that
// they are steps.
func (s *Steps) innermost(bodies []Step) []Step {
	out := bodies[:0]
	around := int64(math.MinInt64) // until when the outermost lasts that holds the last of out
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

// joined sorts intervals and makes one of those that overlap.
func joined(list []nest.Interval) []nest.Interval {
	slices.SortFunc(list, func(a, b nest.Interval) int { return cmp.Compare(a.Start, b.Start) })
	return nest.Union(list[:0], list, nil)
}

// betweenOptimizers returns a step for each step of the optimizer: from the end of the one
// before, or of what the training paused for after it.
func (s *Steps) betweenOptimizers() (out []Step) {
	next, from := 0, s.first
	for i, c := range s.found[spans.StepOptimizer] {
		if i > 0 && c.End <= from || c.End == NoEnd { // inside of another one, or it never ended
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

// number gives the steps their numbers in the job. Nothing is guessed: what no
// record says stays unknown.
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
		s.numberLoop(i, lp, s.list[from:at])
	}
}

func (s *Steps) numberLoop(i int, lp *Loop, steps []Step) {
	lowest, numbered, rises, last := NoEnd, 0, true, Unknown
	for k := range steps {
		if n := steps[k].Raw; n >= 0 {
			numbered++
			lowest = min(lowest, n)
			rises = rises && n > last
			last = n
		}
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
		case numbered == 0 && lp.From >= 0, numbered == len(steps) && !rises: // in each epoch anew
			st.Number = max(lp.From, 0) + int64(k)
		case st.Raw < 0:
			s.Unnumbered++
		case lp.From > 0 && lowest == 0:
			st.Number += lp.From
			s.Local = true
		}
	}
}

// inEpochs gives steps that do not name their epoch the one around them.
func (s *Steps) inEpochs() {
	slices.SortFunc(s.epochs, func(a, b epoch) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(b.number, a.number))
	})
	s.epochs = slices.CompactFunc(s.epochs, func(a, b epoch) bool { return a.Start == b.Start }) // and the note that it began
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

// loaded is the step of the last checkpoint loaded before loop i and after the
// loop before it, or Unknown.
func (s *Steps) loaded(i int) int64 {
	at, step := int64(math.MinInt64), Unknown
	for _, l := range s.loads {
		if l.time <= s.loops[i].Start && l.time >= at && (i == 0 || l.time >= s.loops[i-1].Start) {
			at, step = l.time, l.through
		}
	}
	return step
}
