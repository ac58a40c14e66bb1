// Package vocab knows what the names of spans mean, whatever program gave them: their
// class, their rule of a training step, the standard span that other vocabularies call
// by another name, and what an OpenTelemetry span is called in a trace file.
package vocab

import (
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/spans"
)

// Class says what the time of a span was spent on. Every answer about time
// (goodput, the phases of a step, computing and communication) is a projection
// of it, so that two answers cannot disagree about a span.
type Class uint8

// The classes.
const (
	ClassOther          Class = iota // a span of the program's own with an unknown name
	ClassFrame                       // application, loops, epochs: what they hold says what the time was spent on
	ClassStep                        // one training step
	ClassBody                        // what a loop over an iterator does with one element
	ClassForward                     //
	ClassBackward                    //
	ClassOptimizer                   // its step, and the zeroing of gradients
	ClassCompute                     // computing, not divided further
	ClassCollective                  // with the kind of Meaning.Kind
	ClassCommInit                    // process groups are set up
	ClassTransfer                    // copies between host and device, and on it
	ClassDeviceWork                  // what a device did for the class of Meaning.For
	ClassInputWait                   // for the next batch
	ClassInputWork                   // a batch is made, here or in a worker
	ClassCheckpointSave              //
	ClassCheckpointLoad              //
	ClassEvaluation                  // loop and iterations
	ClassTesting                     // loop and iterations
	ClassCompile                     // of the program that a device runs
	ClassInit                        // model, optimizer, data loader
	ClassStartUp                     // what a process does before it is the program: the part is Meaning.Kind
	ClassIO                          // calls on files
	ClassDetail                      // operators, calls of a runtime: part of whatever they are in

	// Classes is how many there are.
	Classes = int(ClassDetail) + 1
)

var classNames = [Classes]string{
	"other", "frame", "step", "body", "forward", "backward", "optimizer", "compute", "collective", "comm_init", "transfer", "device_work",
	"input_wait", "input_work", "checkpoint_save", "checkpoint_load", "evaluation", "testing", "compile", "init", "start_up", "io", "detail",
}

// String returns the word for it: input_wait.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return classNames[ClassOther]
}

// Meaning is what a span stands for, whatever vocabulary its name is of.
type Meaning struct {
	// Name is the standard name where there is one, otherwise the span's own.
	Name string

	Class Class

	// Kind is which collective (all_reduce, send, wait, ...), in the words of
	// [Collectives], or which part of a start. It is empty for other classes and
	// where the name does not say.
	Kind string

	// For is, of ClassDeviceWork, the class of what the host asked for.
	For Class

	// Step is the rule by which such spans are training steps, or mark them.
	Step StepRule

	// Holds says that such a span lasts as long as others inside of it by nature:
	// loops and their bodies, but not steps.
	Holds bool
}

// StepRule says by which of its spans the training steps of a process are known.
// A process has those of the first rule that it has spans for.
type StepRule uint8

// The rules, in the order in which they apply.
const (
	StepNone      StepRule = iota // there is no training step, or it cannot be known which spans are one
	StepIteration                 // spans that are called an iteration of training
	StepProfiler                  // PyTorch's ProfilerStep#N
	StepNamed                     // spans with a common name for a step of training, in any category
	StepUpdate                    // no spans: updates of the metrics of the training say how many there were, and how long they took
	StepCompute                   // what a benchmark computes for a batch, and calls computing
	StepBody                      // the body of the loop over a data loader
	StepOptimizer                 // from the end of one optimizer step to the end of the next
	StepArgument                  // from the begin to the end of the spans of a thread that say they are of one step

	// StepRules is how many there are.
	StepRules = int(StepArgument) + 1
)

var stepNames = [StepRules]string{"none", "iteration", "profiler_step", "named_step", "metrics_update", "compute", "loader_body", "optimizer_step", "step_argument"}

// String returns the word for it: loader_body.
func (r StepRule) String() string {
	if int(r) < len(stepNames) {
		return stepNames[r]
	}
	return stepNames[StepNone]
}

// Between reports whether no span stands for a step: it is the time between two marks.
func (r StepRule) Between() bool { return r == StepOptimizer || r == StepArgument }

// tailPart is how much of the usual step the last one of a profile must at least last.
const tailPart = 50

// IsTail reports whether the last step of PyTorch's profiler is none, by how long it and
// the steps before it lasted: the profiler opens a step behind the last call of step(), and
// closes it when it is stopped, some microseconds later.
func IsTail(last int64, before []int64) bool {
	if len(before) == 0 {
		return false
	}
	before = slices.Sorted(slices.Values(before))
	return last < before[len(before)/2]/tailPart
}

// ProfilerStepNumber returns the number of a step of PyTorch's profiler by the name
// of its span: 12 for ProfilerStep#12.
func ProfilerStepNumber(name string) (n int64, ok bool) {
	rest, ok := strings.CutPrefix(name, "ProfilerStep#")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	return n, err == nil && n >= 0
}

// byEvent finds the standard spans by their names in a trace file.
var byEvent = func() map[[2]string]int {
	m := make(map[[2]string]int, spans.Count)
	for i, info := range spans.All() {
		m[[2]string{info.Category, info.Event}] = i
	}
	return m
}()

// indexOf returns the index of the standard span that has that category and name in
// a trace file, or -1.
func indexOf(category, event string) int {
	if i, ok := byEvent[[2]string{strings.ToLower(category), event}]; ok {
		return i
	}
	return -1
}

// ByEvent finds the standard span that has that category and name in a trace
// file. The case of the category does not matter.
func ByEvent(category, event string) (info spans.Info, ok bool) {
	if i := indexOf(category, event); i >= 0 {
		return spans.At(i), true
	}
	return spans.Info{}, false
}

// meanings has the meaning of each standard span by its [spans.Index].
var meanings = func() (all [spans.Count]Meaning) {
	for i, info := range spans.All() {
		m := byRule(info.Category, info.Event)
		m.Name, m.Holds = info.Name, info.Long
		if m.Class == ClassStartUp {
			m.Kind = info.Event
		}
		all[i] = m
	}
	return all
}()

// Of returns the meaning of a span by its category and name in a trace file. The
// case of the category does not matter. A span of JSON lines, which has no
// category, has the empty one and is looked up by its standard name.
//
// It is meant to be asked once for each name: it goes through a table.
func Of(category, event string) Meaning {
	i := indexOf(category, event)
	if i < 0 && category == "" {
		i = spans.Index(event)
	}
	if i >= 0 {
		return meanings[i]
	}
	m := byRule(strings.ToLower(category), event)
	if m.Class == ClassCollective || m.For == ClassCollective {
		m.Kind = CollectiveKind(event)
	}
	return m
}

// OnDevice returns the meaning of a row of a device in an imported profile by its
// arguments: the kind that the profiler gives it, the class that the import found,
// and whether it is marked as a collective's. ok is false for other rows.
func OnDevice(kind, class, name string, collective bool) (m Meaning, ok bool) {
	switch kind {
	case "kernel", "gpu_memcpy", "gpu_memset":
		m = byRule(kind, name)
	case "device": // of a maker that has a category of its own
		m = byRule("kernel", name)
	default:
		return Meaning{}, false
	}
	switch {
	case collective || class == "comm":
		m.Class, m.For = ClassDeviceWork, ClassCollective
	case class == "copy":
		m.Class, m.For = ClassTransfer, ClassOther
	}
	return m, true
}

// Operator reports whether a row of a profiler with that name is an operator that
// computes on the host: aten::mm, but no operator that communicates.
func Operator(category, name string) bool {
	space, _, ok := strings.Cut(name, "::")
	return ok && strings.EqualFold(category, "pp") && !strings.Contains(space, "c10d")
}

// Book remembers meanings, so that a reader of many spans asks for each name
// once. The zero value is ready for use. It is not safe for concurrent use.
type Book struct {
	known map[[2]string]*Meaning
	last  [32]page // by length and first letter
}

type page struct {
	key [2]string
	is  *Meaning
}

// maxBook bounds the names that a Book remembers: a program may make up a name
// for every span.
const maxBook = 1 << 14

// Of is [Of]. The result must not be changed.
func (b *Book) Of(category, event string) *Meaning {
	key := [2]string{category, event}
	at := uint(len(event) + len(category))
	if event != "" {
		at += uint(event[0])
	}
	last := &b.last[at%uint(len(b.last))]
	if last.is != nil && last.key == key {
		return last.is
	}
	m := b.known[key]
	if m == nil {
		key = [2]string{strings.Clone(category), strings.Clone(event)}
		of := Of(key[0], key[1])
		m = &of
		if b.known == nil {
			b.known = make(map[[2]string]*Meaning)
		}
		if len(b.known) < maxBook {
			b.known[key] = m
		}
	}
	last.key, last.is = key, m
	return m
}
