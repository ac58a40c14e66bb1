// Package vocab maps the names of spans to their meaning, for all supported
// vocabularies: the class, the rule for training steps, the standard span with
// the same meaning, and the name of an OpenTelemetry span in a trace file.
package vocab

import (
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/spans"
)

// Class is what the time of a span was spent on. Every result about time
// (goodput, the phases of a step, computing and communication) is derived from
// it, so that two results cannot disagree about a span.
type Class uint8

// The classes.
const (
	ClassOther          Class = iota // a span of the program's own with an unknown name
	ClassFrame                       // application, loops, epochs: the spans inside tell what the time was spent on
	ClassStep                        // one training step
	ClassBody                        // the body of a loop over an iterator, for one element
	ClassForward                     //
	ClassBackward                    //
	ClassOptimizer                   // the optimizer's step, and zeroing gradients
	ClassCompute                     // other computing
	ClassCollective                  // Meaning.Kind is the kind of collective
	ClassCommInit                    // setting up process groups
	ClassTransfer                    // copies between host and device, and on the device
	ClassDeviceWork                  // work of a device for the class Meaning.For
	ClassInputWait                   // waiting for the next batch
	ClassInputWork                   // making a batch, here or in a worker
	ClassCheckpointSave              //
	ClassCheckpointLoad              //
	ClassEvaluation                  // loop and iterations
	ClassTesting                     // loop and iterations
	ClassCompile                     // compiling programs for a device
	ClassInit                        // model, optimizer, data loader
	ClassStartUp                     // before the process runs the program; Meaning.Kind is the part
	ClassIO                          // calls on files
	ClassDetail                      // operators and runtime calls: part of the span around them

	// Classes is the number of classes.
	Classes = int(ClassDetail) + 1
)

var classNames = [Classes]string{
	"other", "frame", "step", "body", "forward", "backward", "optimizer", "compute", "collective", "comm_init", "transfer", "device_work",
	"input_wait", "input_work", "checkpoint_save", "checkpoint_load", "evaluation", "testing", "compile", "init", "start_up", "io", "detail",
}

// String returns the name of the class, such as input_wait.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return classNames[ClassOther]
}

// Meaning is what a span stands for, independent of the vocabulary of its name.
type Meaning struct {
	// Name is the standard name if there is one, otherwise the span's own.
	Name string

	Class Class

	// Kind is the kind of collective (all_reduce, send, wait, ...), one of
	// [Collectives], or the part of a start. It is empty for other classes and if
	// the name does not tell.
	Kind string

	// For is the class of what the host asked for, with ClassDeviceWork.
	For Class

	// Step is the rule by which such spans are training steps or mark them.
	Step StepRule

	// Holds means that such a span by its nature lasts as long as the spans inside
	// it: loops and their bodies, but not steps.
	Holds bool
}

// StepRule is a rule that finds the training steps of a process by its spans.
// The first rule for which a process has spans applies.
type StepRule uint8

// The rules, in the order in which they apply.
const (
	StepNone      StepRule = iota // no training steps, or spans that cannot be identified as steps
	StepIteration                 // spans named as a training iteration
	StepProfiler                  // PyTorch's ProfilerStep#N
	StepNamed                     // spans with a common name for a training step, in any category
	StepUpdate                    // no spans: updates of training metrics with the number and the duration of steps
	StepCompute                   // what a benchmark computes for a batch, named computing
	StepBody                      // the body of the loop over a data loader
	StepOptimizer                 // from the end of one optimizer step to the end of the next
	StepArgument                  // from the begin to the end of the spans of a thread with the same step argument
	StepWord                      // spans with a word for a step that has other meanings too: StepNamed if they contain a backward pass

	// StepRules is the number of rules.
	StepRules = int(StepWord) + 1
)

var stepNames = [StepRules]string{"none", "iteration", "profiler_step", "named_step", "metrics_update", "compute", "loader_body", "optimizer_step", "step_argument", "step_word"}

// String returns the name of the rule, such as loader_body.
func (r StepRule) String() string {
	if int(r) < len(stepNames) {
		return stepNames[r]
	}
	return stepNames[StepNone]
}

// Between reports whether a step is the time between two marks, without a span
// of its own.
func (r StepRule) Between() bool { return r == StepOptimizer || r == StepArgument }

// tailPart: the last step of a profile counts if it lasts at least 1/tailPart of
// the usual step.
const tailPart = 50

// IsTail reports whether the last step of PyTorch's profiler is not a real
// step, by its duration and those of the steps before: the profiler opens a
// step after the last call of step(), and closes it when it is stopped, some
// microseconds later.
func IsTail(last int64, before []int64) bool {
	if len(before) == 0 {
		return false
	}
	before = slices.Sorted(slices.Values(before))
	return last < before[len(before)/2]/tailPart
}

// ProfilerStepNumber returns the step number in the name of a span of PyTorch's
// profiler: 12 for ProfilerStep#12.
func ProfilerStepNumber(name string) (n int64, ok bool) {
	rest, ok := strings.CutPrefix(name, "ProfilerStep#")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	return n, err == nil && n >= 0
}

// byEvent maps category and name in a trace file to standard spans.
var byEvent = func() map[[2]string]int {
	m := make(map[[2]string]int, spans.Count)
	for i, info := range spans.All() {
		m[[2]string{info.Category, info.Event}] = i
	}
	return m
}()

// indexOf returns the index of the standard span with that category and name in
// a trace file, or -1.
func indexOf(category, event string) int {
	if i, ok := byEvent[[2]string{strings.ToLower(category), event}]; ok {
		return i
	}
	return -1
}

// ByEvent returns the standard span with that category and name in a trace
// file. The case of the category does not matter.
func ByEvent(category, event string) (info spans.Info, ok bool) {
	if i := indexOf(category, event); i >= 0 {
		return spans.At(i), true
	}
	return spans.Info{}, false
}

// meanings holds the meaning of each standard span by its [spans.Index].
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

// Of returns the meaning of a span by its category and name in a trace file.
// The case of the category does not matter. A span of JSON lines has the empty
// category and is looked up by its standard name.
//
// Call it once for each name, because it searches a table.
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

// OnDevice returns the meaning of a device's row in an imported profile. kind
// is the profiler's, class is the one that the import found, and collective is
// true if the row is marked as a collective. ok is false for other rows.
func OnDevice(kind, class, name string, collective bool) (m Meaning, ok bool) {
	switch kind {
	case "kernel", "gpu_memcpy", "gpu_memset":
		m = byRule(kind, name)
	case "device": // from a profiler of another maker, with its own category
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

// Operator reports whether a row of a profiler is an operator that computes on
// the host, such as aten::mm, and not one that communicates.
func Operator(category, name string) bool {
	space, _, ok := strings.Cut(name, "::")
	return ok && strings.EqualFold(category, "pp") && !strings.Contains(space, "c10d")
}

// Book caches meanings, so that a reader of many spans looks up each name once.
// The zero value is ready for use. It is not safe for concurrent use.
type Book struct {
	known map[[2]string]*Meaning
	last  [32]page // by length and first letter
}

type page struct {
	key [2]string
	is  *Meaning
}

// maxBook bounds the number of cached names, because a program may use a new
// name for every span.
const maxBook = 1 << 14

// Of is a cached [Of]. The result must not be changed.
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
		own := [2]string{strings.Clone(category), strings.Clone(event)}
		of := Of(own[0], own[1])
		m = &of
		if b.known == nil {
			b.known = make(map[[2]string]*Meaning)
		}
		if len(b.known) < maxBook {
			b.known[own] = m
		}
	}
	last.key, last.is = key, m // strings of a reader that knows them are equal at first sight
	return m
}
