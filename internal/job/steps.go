package job

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
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
	// Local says that the program restarts its count in each loop, so that the numbers in
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
	training  Training

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
	s.training.add(sp)
	switch sp.Class {
	case vocab.ClassFrame:
		switch sp.Name {
		case spans.TrainingLoop:
			s.starts = append(s.starts, Loop{Start: sp.Start, From: sp.First, Given: sp.First >= 0})
			s.training.threads = addThread(s.training.threads, sp.Thread)
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
		*s = Steps{found: [vocab.StepRules][]Step{vocab.StepIteration: s.found[r]}, starts: s.starts, epochs: s.epochs, loads: s.loads, restored: s.restored, training: s.training}
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

// StepRules returns by which rules the steps of some processes are known, as words
// with ", " between them, empty without any; and what has to be said of them: what
// the steps are where no span is called one, and where they cannot be known. Helpers of
// training processes have none to begin with and are not meant to be among them.
func StepRules(procs []*Process) (rules string, remarks []string) {
	var list []vocab.StepRule
	contradiction := false
	for _, p := range procs {
		contradiction = contradiction || p.Steps.Contradiction
		if r := p.Steps.Rule; r != vocab.StepNone && !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, cmp.Compare[vocab.StepRule])
	var words []string
	for _, r := range list {
		words = append(words, r.String())
		switch r {
		case vocab.StepUpdate:
			remarks = append(remarks, "the iterations were not exported: their number and time are those of the last update of the metrics, single steps are means, and what came after it is not counted")
		case vocab.StepNamed:
			remarks = append(remarks, "no span has this vocabulary's name for an iteration: the steps are the spans that are called a step of training")
		case vocab.StepArgument:
			remarks = append(remarks, "no span is called an iteration: a step is the spans of a thread that have its number")
		case vocab.StepCompute:
			remarks = append(remarks, "no span is called an iteration: the steps are the calls that compute for a batch")
		case vocab.StepBody:
			remarks = append(remarks, "no span is called an iteration: the steps are the bodies of the loop over the data loader")
		case vocab.StepOptimizer:
			remarks = append(remarks, "no span is called an iteration: a step ends with that of the optimizer")
		}
	}
	if contradiction {
		remarks = append(remarks, "which spans are training steps cannot be known: what is recorded of loaders and optimizers contradicts itself")
	}
	return strings.Join(words, ", "), remarks
}

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

// Record returns an event as the record that a trace has of it, of the parts that
// this package reads.
func (e *Event) Record() *dftracer.Event {
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
	return &dftracer.Event{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: tracefile.NameCustom, Parent: dftracer.NoParent, Args: args}
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
		if u.Iterations < before.Iterations { // the count restarted
			before.Iterations, before.Took = 0, 0
		}
		n, took := u.Iterations-before.Iterations, u.Took-before.Took
		if n <= 0 || n > maxUpdated || took <= 0 {
			before = u // a copy
			continue
		}
		var steps []Step
		if u.Finished > before.Time && u.Finished < u.Time {
			u.Time = u.Finished // it is reported later
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
