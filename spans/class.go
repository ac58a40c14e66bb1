package spans

import "strings"

// Class says what the time of a span was spent on. Every answer about time
// (goodput, the phases of a step, computing and communication) is a projection
// of it, so that two answers cannot disagree about a span.
type Class uint8

// The classes.
const (
	ClassOther          Class = iota // a span of the program's own, of which the name says nothing
	ClassFrame                       // application, loops, epochs: what they hold says what the time was spent on
	ClassStep                        // one training step
	ClassBody                        // what a loop over an iterator does with one element
	ClassForward                     //
	ClassBackward                    //
	ClassOptimizer                   // its step, and the zeroing of gradients
	ClassCompute                     // computing of which it is not said what
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

// Of returns the meaning of a span by its category and name in a trace file. The
// case of the category does not matter. A span of JSON lines, which has no
// category, has the empty one and is looked up by its standard name.
//
// It is meant to be asked once for each name: it goes through a table.
func Of(category, event string) Meaning {
	info, ok := ByEvent(category, event)
	if !ok && category == "" {
		info, ok = Lookup(event)
	}
	if ok {
		m := Meaning{Name: info.Name, Class: info.Class, Step: info.Step, Holds: info.Long}
		if m.Class == ClassStartUp {
			m.Kind = info.Event
		}
		return m
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
