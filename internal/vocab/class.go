package vocab

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
