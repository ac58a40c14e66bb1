// Package straggler reports which ranks, links or phases slow a training job down, and what
// fixing them would gain.
//
//	st := straggler.New(&straggler.Options{WorldSize: 8})
//	st.SetRank(3, straggler.Rank{Host: "node-b"})
//	st.Add(&straggler.Step{Rank: 3, Number: 17, Spans: spans}) // of every rank and step, in any order
//	fmt.Println(st.Verdict().Sentence)
//
// Each step of a rank is stored as a program: its compute work, and its meetings with other
// ranks (collectives and messages) in order. The programs of all ranks are replayed
// unchanged, which must reproduce the recorded times, and again with a repair applied. The
// difference is the gain of the repair. Times of two ranks are never subtracted, because
// their clocks may be days apart.
//
// A [State] holds the steps of one attempt.
package straggler

import "github.com/trainspan/trainspan/internal/platform/extsort"

// Phase is what a rank does during a span.
type Phase uint8

// The phases of a step. Host is time that no span covers; it is measured, not passed in.
const (
	Host       Phase = iota // in no recorded span, or in a span of phase Other
	Input                   // waiting for the next batch, or loading it
	Transfer                // copying the batch to the device
	Forward                 // model forward
	Backward                // model backward
	Optimizer               // optimizer update
	Checkpoint              // blocking save
	phases                  // number of phases of compute work

	Communication // a collective, a message, or the wait for either
	Other         // any other span; counted as Host
)

var phaseNames = [...]string{
	Host: "host", Input: "input", Transfer: "transfer", Forward: "forward", Backward: "backward",
	Optimizer: "optimizer", Checkpoint: "checkpoint", phases: "", Communication: "communication", Other: "other",
}

// String returns the name of the phase in verdicts.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "unknown"
}

// Phases returns the phases of compute work.
func Phases() []Phase {
	return []Phase{Host, Input, Transfer, Forward, Backward, Optimizer, Checkpoint}
}

// Meeting is the kind of a communication span.
type Meeting uint8

// The kinds of communication.
const (
	Collective Meeting = iota // all members of the group enter, and leave together
	Send                      // a message; messages between two ranks match in order
	Receive
	Join   // wait for work on other lanes
	Launch // launch of a collective that a device runs; the host does not wait
)

// Span is one recorded interval of a step. Times are nanoseconds of the clock of the recording rank.
type Span struct {
	Phase   Phase
	Meeting Meeting // for Communication
	Start   int64
	End     int64 // before Start if the span never ended because the process or the run died in it
	// Group is the process group of a collective; empty if all ranks take part. GroupSize is its number of
	// ranks, 0 if unknown.
	Group     string
	GroupSize int
	// Peer is the number of the rank that a message is sent to, or received from, plus 1; 0 if unknown. Then
	// the rank at the same position in the neighbor stage of the pipeline is assumed, see [meet.Stages].
	Peer int
	// Lane is 0 for the training thread. A collective on another lane (a communication stream or thread) runs
	// concurrently. The lane [Device] holds the work of a device, of all phases; Launch is then the time at
	// which the host launched it.
	Lane   int
	Launch int64
	// Op is the operation of a collective that never ended, such as "all_reduce" or "all_reduce of group 3";
	// empty if unknown.
	Op string
}

// Device is the lane for device work.
const Device = 2

// Step is one training step of one rank. It lasts from the earliest to the latest of Start, End and the span
// times. Time between the steps of a rank counts as host.
type Step struct {
	Rank       int
	Number     int64 // step number, the same on all ranks
	Tokens     int64 // tokens or samples that the rank processed; 0 if not recorded
	Start, End int64 // of the iteration, 0 if unknown; Start without End means that it never ended
	Spans      []Span
}

// Rank describes a rank.
type Rank struct {
	Host string
	// Role distinguishes ranks that do different work, such as the stages of a pipeline. Ranks are compared
	// only within a role.
	Role string
	// LastSeen is the last heartbeat, in nanoseconds of the rank's own clock; 0 if unknown.
	LastSeen int64
	// Ended reports whether the process ended by itself without an error.
	Ended bool
	// Cut reports whether records are damaged or missing. Such a rank is never named, and its last position
	// is trusted only if it Ended.
	Cut bool
	// Sampled reports whether the work of its device was read for several steps together, or only in some steps.
	Sampled bool
	// Pauses are the pauses during which waiting ranks do not count as hung.
	Pauses [PauseKinds]Pause
	// Loader is how the rank gets its batches. If it is unknown, the durations of the fetches decide.
	Loader Loader
}

// Loader is how a rank gets its batches. The zero value means unknown.
type Loader uint8

// LoaderDirect fetches a batch on request; with LoaderAhead workers prefetch batches.
const (
	LoaderDirect Loader = 1 + iota
	LoaderAhead
)

// Options configures a State. A nil pointer and the zero value are valid.
type Options struct {
	// WorldSize is the number of ranks that the job was started with; 0 means the ranks that have data.
	WorldSize int
	// MaxCells bounds memory: the number of steps held, summed over ranks. When it is exceeded, the oldest
	// steps of all ranks are discarded. 0 means 4,000,000.
	MaxCells int
	// Spill stores the packed steps. If it is nil they stay in memory. After an error of Spill the State
	// lacks steps.
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

// PauseKind is a kind of pause that other ranks may wait for without a hang.
type PauseKind uint8

// The kinds of pauses.
const (
	PauseSave PauseKind = iota // saving a checkpoint
	PauseLoad                  // loading a checkpoint
	PauseCompile
	PauseEvaluation // evaluation or testing
	PauseStartUp    // start-up of the program, its model or its process groups
	PauseKinds      // number of kinds
)

// Pause describes the pauses of one kind on one rank: the duration of the longest finished one, and the start
// of the open one (0 if no pause is open). Times are nanoseconds.
type Pause struct {
	Longest int64
	Since   int64
}
