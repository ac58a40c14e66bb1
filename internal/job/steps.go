package job

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// Steps determines the training steps of one process: it is the only place that
// decides which spans are steps and which numbers they have. It is filled while
// files are read and final when the sinks of the process are closed; a [Sink]
// takes what it needs of the single steps in its Close, because they are
// dropped after that.
//
// The first rule of [vocab.StepRule] for which the process has spans applies.
// The body of a loop over a loader is a step if a gradient is computed or
// applied in it, or if no body has one, so that evaluations do not count.
// Several bodies inside another, and optimizer steps outside of the bodies, by
// different optimizers, or more often than a batch was waited for, contradict
// the rule: then no span is a step.
//
// The zero value is ready for use. It is not safe for concurrent use.
type Steps struct {
	// Rule is the rule that determined the steps, or [vocab.StepNone].
	Rule vocab.StepRule
	// Contradiction is true if there are no steps because spans contradict the
	// rule.
	Contradiction bool
	// Count is the number of steps, including unfinished ones, and Unnumbered how
	// many of them have no number.
	Count, Unnumbered int
	// Begun is true if there is a training loop or an epoch.
	Begun bool
	// GoesOn is true if a checkpoint was loaded, or if the first step is above 0.
	GoesOn bool
	// Local is true if the program restarts its count in each loop, so that the
	// numbers in its files are not those of the job.
	Local bool

	found     [vocab.StepRules][]Step
	starts    []Loop // in the order of reading
	epochs    []epoch
	loads     []load
	restored  bool            // a checkpoint was loaded, with or without a known step
	updates   []Event         // of the training metrics
	held      []nest.Interval // interruptions of iterations
	work      []int64         // times at which gradients were computed or applied
	backward  []int64         // times at which gradients were computed
	paused    []nest.Interval
	waits     int    // waits for batches
	mixed     bool   // optimizers have different names
	optimizer string // the name of one
	first     int64  // when training began with a batch, or 0
	marks     []mark // spans with a step argument
	training  Training

	list  []Step
	loops []Loop
	made  bool // the fields below are up to date
}

// Step is one training step of one process.
type Step struct {
	ID, Parent uint64 // of its span; zero if it has none, as for [vocab.StepOptimizer]
	Thread     int64
	Start, End int64 // End is NoEnd if it never finished

	// Number is the step's number in the job, over loops and attempts, or Unknown.
	// Raw is the recorded number.
	Number, Raw int64

	// Epoch is the recorded number, or that of the epoch's span in which it begins;
	// epochs without numbers are counted. Unknown without one.
	Epoch  int64
	Tokens int64 // see [Span.Tokens]
	Loop   int   // index of its loop
}

// Loop is a training loop.
type Loop struct {
	Start int64
	From  int64 // the number of its first step, or Unknown
	Given bool  // From was recorded, not derived

	failed bool // it ended with an error
	// Inferred is true if From is only the lowest number of its own steps.
	Inferred bool
	// Continues is true if the numbers in its records begin again and its steps are
	// numbered after those of the loop before.
	Continues bool
}

type load struct{ time, through int64 } // through is Unknown if no step was recorded

// mark is successive spans of a thread with the same step argument.
type mark struct {
	thread, step, epoch int64
	nest.Interval
}

type epoch struct {
	nest.Interval
	number int64 // or Unknown
}

// Add adds a span of the process. Spans may come in any order, and twice.
func (s *Steps) Add(sp *Span) {
	s.made = false
	s.training.add(sp)
	switch sp.Class {
	case vocab.ClassFrame:
		switch sp.Name {
		case spans.TrainingLoop:
			s.starts = append(s.starts, Loop{Start: sp.Start, From: sp.First, Given: sp.First >= 0, failed: sp.Failed})
			s.training.threads = addThread(s.training.threads, sp.Thread)
		case spans.Epoch:
			s.epochs = append(s.epochs, epoch{nest.Interval{Start: sp.Start, End: sp.End}, sp.Epoch})
		}
	case vocab.ClassCheckpointLoad:
		if !sp.Failed {
			s.restored = true
			s.loads = append(s.loads, load{sp.Start, max(sp.Step, Unknown)})
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
		s.work, s.backward = append(s.work, sp.Start), append(s.backward, sp.Start)
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
		c.Epoch = Unknown // DLIO writes 0 in all of them
	}
	s.found[r] = addStep(s.found[r], c)
	if r == vocab.StepIteration && len(s.found[r]) == 1 { // drops what only other rules need
		*s = Steps{found: [vocab.StepRules][]Step{vocab.StepIteration: s.found[r]}, starts: s.starts, epochs: s.epochs, loads: s.loads, restored: s.restored, training: s.training}
	}
}

// stepMemory has lists for more than fewSteps steps, of processes that have been read.
var stepMemory sync.Pool

const fewSteps = 64

// addStep appends a step.
func addStep(list []Step, st Step) []Step {
	if n := len(list); n == cap(list) {
		if n >= fewSteps {
			if of, ok := stepMemory.Get().(*[]Step); ok && cap(*of) > n {
				return append(append((*of)[:0], list...), st)
			}
		}
		list = slices.Grow(list, max(n, 16)) // append grows by a quarter, and copies more
	}
	return append(list, st)
}

// usesExplicit reports whether Add uses spans of a class and a lane while the
// first rule applies, apart from the steps.
func (s *Steps) usesExplicit(c vocab.Class, lane int64) bool {
	if p, ok := passOf(c); ok {
		return !slices.Contains(s.training.passes[p], ThreadOf(lane))
	}
	return c == vocab.ClassFrame || c == vocab.ClassCheckpointLoad
}

// SaysSteps reports whether spans like an event, which has that meaning, help
// to determine the steps or their numbers.
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

// mark adds a span with a step argument.
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

// StepRules returns the rules for the steps of some processes, separated by ",
// ", or ""; and remarks about them: what the steps are if no span is named as
// one, and why they are unknown. Do not pass helpers of training processes,
// which have none.
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
			remarks = append(remarks, "the iterations were not exported: their number and time are those of the last update of the metrics, single steps are means, and later steps are not counted")
		case vocab.StepNamed:
			remarks = append(remarks, "no span has this vocabulary's name for an iteration: the steps are the spans that are called a step of training")
		case vocab.StepArgument:
			remarks = append(remarks, "no span is called an iteration: a step is the spans of a thread that have its number")
		case vocab.StepCompute:
			remarks = append(remarks, "no span is called an iteration: the steps are the calls that compute for a batch")
		case vocab.StepBody:
			remarks = append(remarks, "no span is called an iteration: the steps are the bodies of the loop over the data loader")
		case vocab.StepOptimizer:
			remarks = append(remarks, "no span is named as an iteration: a step ends with the optimizer's step")
		}
	}
	if contradiction {
		remarks = append(remarks, "which spans are training steps is unknown: the records of loaders and optimizers contradict each other")
	}
	return strings.Join(words, ", "), remarks
}

// AddUpdate adds an event of the process. It is used if it is an update of the
// training metrics.
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

// Record returns an event as its record in a trace, with the parts that this
// package reads.
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

// updateStep is the first ID of steps without a span.
const updateStep uint64 = 1 << 62

// maxUpdated bounds the steps per update: programs log every ten to thousand
// steps.
const maxUpdated = 1 << 12

// fromUpdates returns the steps between updates of the metrics, for a program
// that did not export the steps themselves. The steps between two updates have
// their mean length, and end at the second one, without interruptions. So their
// number and total time are right, while single steps are unknown; so are those
// after the last update.
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
				length = end - before.Time // more than the available time
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

// AddEvent is Add for an event of a trace with times in microseconds and a
// known meaning.
func (s *Steps) AddEvent(ev *dftracer.Event, m *vocab.Meaning) {
	if s.explicit() && m.Step != vocab.StepIteration && !s.usesExplicit(m.Class, ev.TID) {
		return
	}
	var sp Span
	sp.ID, sp.Start, sp.End, sp.Thread = ev.ID, ev.TS*1000, ev.End()*1000, ev.TID
	sp.Step, sp.Epoch, sp.First = Unknown, Unknown, Unknown
	sp.mean(ev.Cat, m)
	for i := range ev.Args {
		sp.argument(&ev.Args[i])
	}
	s.Add(&sp)
}
