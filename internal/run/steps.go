package run

import (
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/nest"
	"github.com/trainspan/trainspan/internal/vocab"
	"github.com/trainspan/trainspan/spans"
)

// Steps are the training steps of one process: the one place that decides which
// spans these are and which numbers they have. It is filled while files are read
// and final when the sinks of the process are closed; a [Sink] takes what it needs
// of the single steps in its Close, because they are dropped after that.
//
// Of the rules of [vocab.StepRule] the first one applies that the process has
// spans for. The body of a loop over a loader is a step where a gradient is
// computed or applied in it, if any has one: those of an evaluation are none.
// Several bodies inside of another, and optimizer steps outside of the bodies, of different
// optimizers, or more often than a batch was waited for, contradict what the rule
// says: then no span is a step.
//
// The zero value is ready for use. It is not safe for concurrent use.
type Steps struct {
	// Rule is the one by which the steps are known, [vocab.StepNone] without any.
	Rule vocab.StepRule
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

	found     [vocab.StepRules][]Step
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
	marks     []mark // spans that say of which step they are

	list  []Step
	loops []Loop
	made  bool // these are up to date
}

// Step is one training step of one process.
type Step struct {
	ID, Parent uint64 // of its span; zero where it is none, as of [vocab.StepOptimizer]
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

// mark is spans of a thread, one after the other, that say they are of one step.
type mark struct {
	thread, step, epoch int64
	nest.Interval
}

type epoch struct {
	nest.Interval
	number int64 // Unknown without one
}

// Add takes a span of the process. Spans may come in any order, and twice.
func (s *Steps) Add(sp *Span) {
	s.made = false
	switch sp.Class {
	case vocab.ClassFrame:
		switch sp.Name {
		case spans.TrainingLoop:
			s.starts = append(s.starts, Loop{Start: sp.Start, From: sp.First, Given: sp.First >= 0})
		case spans.Epoch:
			s.epochs = append(s.epochs, epoch{nest.Interval{Start: sp.Start, End: sp.End}, sp.Epoch})
		}
	case vocab.ClassCheckpointLoad:
		s.restored = true
		if sp.Step >= 0 {
			s.loads = append(s.loads, load{sp.Start, sp.Step})
		}
	case vocab.ClassCheckpointSave, vocab.ClassEvaluation, vocab.ClassTesting:
		if !sp.Background && sp.End != NoEnd && !s.explicit() {
			s.held = append(s.held, nest.Interval{Start: sp.Start, End: sp.End})
		}
	}
	if sp.Background || s.explicit() && sp.StepRule != vocab.StepIteration {
		return
	}
	switch sp.Class {
	case vocab.ClassEvaluation, vocab.ClassTesting:
		if sp.End != NoEnd {
			s.paused = append(s.paused, nest.Interval{Start: sp.Start, End: sp.End})
		}
	case vocab.ClassInputWait:
		if sp.End != NoEnd {
			s.waits++
		}
		s.began(sp.Start)
	case vocab.ClassBackward:
		s.work = append(s.work, sp.Start)
		s.began(sp.Start)
	case vocab.ClassForward:
		s.began(sp.Start)
	}
	if sp.Within > 0 && sp.End != NoEnd {
		s.mark(sp)
	}
	r := sp.StepRule
	if r == vocab.StepNone {
		return
	}
	if r == vocab.StepOptimizer {
		s.work = append(s.work, sp.Start)
		s.mixed = s.mixed || s.optimizer != "" && s.optimizer != sp.Name
		s.optimizer = sp.Name
	}
	c := Step{ID: sp.ID, Parent: sp.Parent, Thread: sp.Thread, Start: sp.Start, End: sp.End, Raw: sp.Step, Epoch: sp.Epoch, Tokens: sp.Tokens}
	if n, ok := vocab.ProfilerStepNumber(sp.Name); ok {
		c.Raw = n
	}
	if r == vocab.StepCompute {
		c.Epoch = Unknown // what DLIO says there is 0 in all of them
	}
	s.found[r] = append(s.found[r], c)
	if r == vocab.StepIteration && len(s.found[r]) == 1 { // what the others need is not needed any more
		*s = Steps{found: [vocab.StepRules][]Step{vocab.StepIteration: s.found[r]}, starts: s.starts, epochs: s.epochs, loads: s.loads, restored: s.restored}
	}
}

// SaysSteps reports whether spans like an event, which has that meaning, tell which spans
// are steps, or what numbers these have.
func SaysSteps(m *vocab.Meaning, ev *dftracer.Event) bool {
	if _, named := ev.Arg(argStep); named && inStep(m.Class) {
		return true
	}
	switch m.Class {
	case vocab.ClassInputWait, vocab.ClassForward, vocab.ClassBackward, vocab.ClassEvaluation, vocab.ClassTesting, vocab.ClassCheckpointLoad:
		return true
	}
	return m.Step != vocab.StepNone || m.Name == spans.TrainingLoop || m.Name == spans.Epoch
}

// mark adds a span that says of which step it is.
func (s *Steps) mark(sp *Span) {
	m := mark{ThreadOf(sp.Thread), sp.Within - 1, sp.Epoch, nest.Interval{Start: sp.Start, End: sp.End}}
	if n := len(s.marks); n > 0 {
		last := &s.marks[n-1]
		if last.thread == m.thread && last.step == m.step && last.epoch == m.epoch && m.Start <= last.End {
			last.Start, last.End = min(last.Start, m.Start), max(last.End, m.End)
			return
		}
	}
	s.marks = append(s.marks, m)
}

// explicit reports whether the first rule applies.
func (s *Steps) explicit() bool { return len(s.found[vocab.StepIteration]) > 0 }

// began notes when training began.
func (s *Steps) began(t int64) {
	if s.first == 0 || t < s.first {
		s.first = t
	}
}
