// Package straggler reports what holds a training job up, and what a repair would gain.
//
//	st := straggler.New(&straggler.Options{WorldSize: 8})
//	st.SetRank(3, straggler.Rank{Host: "node-b"})
//	st.Add(&straggler.Step{Rank: 3, Number: 17, Spans: spans}) // of every rank and step, in any order
//	fmt.Println(st.Verdict().Sentence)
//
// Each step of a rank is kept as a program: its own work, and the meetings with other
// ranks in the order in which the rank came to them. The programs of all ranks are
// replayed as they were, which must take the recorded times, and again with something
// repaired. The difference is the gain of the repair. Times of two ranks are never
// subtracted, because their clocks may be days apart.
//
// A [State] holds the steps of one attempt, and a [Watch] judges a run while it lasts.
package straggler

import "github.com/trainspan/trainspan/internal/platform/extsort"

// Phase is what a rank does during a span.
type Phase uint8

// The phases of a step. Host is the time that no span covers; it is measured,
// never passed in.
const (
	Host       Phase = iota // in no recorded span, or in one that is Other
	Input                   // waiting for the next batch, or making it
	Transfer                // copying the batch to the device
	Forward                 // model forward
	Backward                // model backward
	Optimizer               // optimizer update
	Checkpoint              // a blocking save
	phases                  // how many phases own work is split into

	Communication // a collective, a message, or the wait for one
	Other         // anything else that is worth a span: counted as Host
)

var phaseNames = [...]string{
	Host: "host", Input: "input", Transfer: "transfer", Forward: "forward", Backward: "backward",
	Optimizer: "optimizer", Checkpoint: "checkpoint", phases: "", Communication: "communication", Other: "other",
}

// String returns the phase as a verdict spells it.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "unknown"
}

// Phases are those that own work is split into.
func Phases() []Phase {
	return []Phase{Host, Input, Transfer, Forward, Backward, Optimizer, Checkpoint}
}

// PhaseWords returns how screens call a phase or a cause, given by its name in JSON.
func PhaseWords(name string) string {
	switch name {
	case Input.String():
		return "data"
	case Host.String():
		return "other code"
	case Checkpoint.String():
		return "save"
	}
	return name
}

// Meeting is what kind of communication a span is.
type Meeting uint8

// The kinds of communication.
const (
	Collective Meeting = iota // all members of the group enter, and leave together
	Send                      // of a message, by the order of messages of two ranks
	Receive                   //
	Join                      // the wait for what runs on other lanes
	Launch                    // of a collective that a device runs: nobody waits in it
)

// Span is one recorded piece of a step. Its times are nanoseconds of the clock
// of the rank that recorded it.
type Span struct {
	Phase   Phase
	Meeting Meeting // of Communication
	Start   int64
	End     int64 // before Start: the span never ended, the process or the run died in it
	// Group is, of a collective, the process group; empty when all ranks take
	// part. GroupSize is how many ranks it has, zero where that is not known.
	Group     string
	GroupSize int
	// Lane is 0 for the thread that trains. A collective of another lane (a
	// communication stream or thread) runs beside it. On the lane [Device] lies
	// what a device did, of all phases; Launch is when the host asked for it.
	Lane   int
	Launch int64
	// Op is what a collective that never ended was, empty where that is not known:
	// all_reduce, or all_reduce of group 3.
	Op string
}

// Device is the lane of what a device did.
const Device = 2

// Step is one training step of one rank. Its time is from the first to the last of
// Start, End and the spans; what lies between the steps of a rank counts as host.
type Step struct {
	Rank       int
	Number     int64 // of the step, the same on all ranks
	Tokens     int64 // work that the rank did in it: tokens or samples; 0 where that is not recorded
	Start, End int64 // of the iteration, zero where that is not known; with Start alone it never ended
	Spans      []Span
}

// Rank is what is known of a rank besides its steps.
type Rank struct {
	Host string
	// Role tells ranks apart that do different work, such as the stages of a
	// pipeline: ranks are compared within a role only.
	Role string
	// LastSeen is the last sign of life, nanoseconds of the rank's own clock; 0
	// where that is not known.
	LastSeen int64
	// Ended says that the process ended by itself, in good order.
	Ended bool
	// Cut says that damage has taken or changed records: it is never named, and where
	// it stood at last is known only if it Ended.
	Cut bool
	// Pauses are those that others wait for without a hang.
	Pauses [PauseKinds]Pause
	// Loader is how its batches come. Where that is not known, the times of its fetches
	// decide.
	Loader Loader
}

// Loader is how batches come to a rank: zero is not known.
type Loader uint8

// A loader fetches a batch when it is asked for, or its workers fetch batches ahead of the
// training.
const (
	LoaderDirect Loader = 1 + iota
	LoaderAhead
)

// Options of a State. Nil and the zero value are valid.
type Options struct {
	// WorldSize is the number of ranks that the job was started with; 0 means
	// the ranks that have data.
	WorldSize int
	// MaxCells bounds the memory: the number of steps that are held, times the
	// number of ranks. When there are more, the oldest steps of all ranks are
	// forgotten. 0 means 4,000,000.
	MaxCells int
	// Spill holds the packed steps. If it is nil they stay in memory. Once it has an error a
	// State lacks steps.
	Spill *extsort.Blocks
}

func (o *Options) orDefault() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.MaxCells <= 0 {
		out.MaxCells = 4_000_000
	}
	return out
}

// PauseKind is something that all ranks may wait for without one of them hanging.
type PauseKind uint8

// The kinds of pauses.
const (
	PauseSave       PauseKind = iota // of a checkpoint
	PauseLoad                        //
	PauseCompile                     //
	PauseEvaluation                  // or testing
	PauseStartUp                     // of the program, its model or process groups
	PauseKinds                       // how many there are
)

// Pause is what is known of the pauses of one kind of a rank: the longest of those
// that ended, and when the one began that has not, zero where there is none. Times
// are nanoseconds.
type Pause struct {
	Longest int64
	Since   int64
}
