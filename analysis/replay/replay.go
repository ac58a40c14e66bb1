// Package replay says what holds a training job up, and what a repair would gain.
//
//	st := replay.New(&replay.Options{WorldSize: 8})
//	st.SetRank(3, replay.Rank{Host: "node-b"})
//	st.Add(&replay.Step{Rank: 3, Number: 17, Spans: spans}) // of every rank and step, in any order
//	fmt.Println(st.Verdict().Sentence)
//
// Each step of a rank is kept as a program: its own work, and the meetings with
// other ranks in the order in which it came to them. The programs of all ranks are
// replayed as they were, which must take the recorded times, and again with
// something repaired. The difference is what the repair gains. Times of two ranks
// are never subtracted: their clocks may be days apart.
package replay

import "github.com/trainspan/trainspan/internal/replay"

// What goes in: steps of spans, and what is known of ranks.
type (
	Options   = replay.Options
	Rank      = replay.Rank
	Step      = replay.Step
	Span      = replay.Span
	Phase     = replay.Phase
	Meeting   = replay.Meeting
	Pause     = replay.Pause
	PauseKind = replay.PauseKind
)

// The phases of a step. Host is the time that no span covers; it is measured,
// never passed in.
const (
	Host          = replay.Host
	Input         = replay.Input         // waiting for the next batch, or making it
	Transfer      = replay.Transfer      // copying the batch to the device
	Forward       = replay.Forward       // model forward
	Backward      = replay.Backward      // model backward
	Optimizer     = replay.Optimizer     // optimizer update
	Checkpoint    = replay.Checkpoint    // a blocking save
	Communication = replay.Communication // a collective, a message, or the wait for one
	Other         = replay.Other         // anything else that is worth a span: counted as Host
)

// The kinds of communication.
const (
	Collective = replay.Collective // all members of the group enter, and leave together
	Send       = replay.Send       // of a message, by the order of messages of two ranks
	Receive    = replay.Receive
	Join       = replay.Join   // the wait for what runs on other lanes
	Launch     = replay.Launch // of a collective that a device runs: nobody waits in it
)

// Device is the lane of what a device did.
const Device = replay.Device

// The kinds of pauses.
const (
	PauseSave       = replay.PauseSave // of a checkpoint
	PauseLoad       = replay.PauseLoad
	PauseCompile    = replay.PauseCompile
	PauseEvaluation = replay.PauseEvaluation // or testing
	PauseStartUp    = replay.PauseStartUp    // of the program, its model or process groups
)

// What comes out.
type (
	Verdict    = replay.Verdict
	Finding    = replay.Finding
	Kind       = replay.Kind
	Evidence   = replay.Evidence
	Coverage   = replay.Coverage
	RankRow    = replay.RankRow
	Waits      = replay.Waits
	WaitCell   = replay.WaitCell
	WaitPart   = replay.WaitPart
	Recurrence = replay.Recurrence
)

// The kinds of verdicts.
const (
	Fine         = replay.Fine         // no repair gains as much as is worth a word
	SlowRanks    = replay.SlowRanks    // the same ranks are late
	Imbalance    = replay.Imbalance    // another rank is late each time, or work is given out unevenly
	InputSlow    = replay.InputSlow    // all ranks wait for data
	SlowTransfer = replay.SlowTransfer // the transfer itself is slow; Ranks is the group, or empty
	Drift        = replay.Drift        // all ranks are slower from a step on
	Hang         = replay.Hang         // ranks wait for one that does not come
	Unknown      = replay.Unknown      // Reason and Needed say what is missing
)

// State holds the steps of one attempt of a job. Its memory is bounded by
// Options.MaxCells. The order in which steps are added is irrelevant, and a step
// added twice counts once. A State is not safe for concurrent use; States that were
// filled side by side can be merged.
type State struct{ of *replay.State }

// New makes an empty State. Nil options are valid.
func New(opt *Options) *State { return &State{replay.New(opt)} }

// SetRank tells what is known of a rank. Fields that are empty change nothing.
func (s *State) SetRank(rank int, info Rank) { s.of.SetRank(rank, info) }

// Add adds one step of one rank. It keeps nothing of st. A negative rank is
// ignored, and so is a step without a span.
func (s *State) Add(st *Step) { s.of.Add(st) }

// Merge adds what other knows; other stays as it was.
func (s *State) Merge(other *State) { s.of.Merge(other.of) }

// Verdict judges what the State holds. It changes nothing but may forget the oldest
// steps; more steps can be added afterwards.
func (s *State) Verdict() *Verdict { return s.of.Verdict() }

// Watch judges a run while it lasts: the same detector as State.Verdict, fed
// step by step. It is not safe for concurrent use.
type Watch struct{ of *replay.Watch }

// NewWatch makes a Watch that judges after each number of steps that every says; 0 means 5.
// Its memory is bounded by opt.MaxCells.
func NewWatch(opt *Options, every int) *Watch { return &Watch{replay.NewWatch(opt, every)} }

// State returns the state that is fed, for SetRank and for what was recorded before.
func (w *Watch) State() *State { return &State{w.of.State()} }

// Add adds one step of one rank. It returns a verdict when the answer has changed,
// otherwise nil. An answer counts when two judgements in a row agree; the first
// answer is that all is well, which is not reported. A step counts as reached when
// the first rank reports the one after it, so that ranks may report a little apart.
func (w *Watch) Add(st *Step) *Verdict { return w.of.Add(st) }

// Check judges now, as Add does at its steps. A rank that is lost sends no more
// steps: call it when none have come for long.
func (w *Watch) Check() *Verdict { return w.of.Check() }
