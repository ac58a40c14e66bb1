package job

import (
	"math"

	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// NoEnd is the End of a span whose end was not recorded.
const NoEnd int64 = math.MaxInt64

// Unknown is the value of an unknown number.
const Unknown int64 = -1

// Span is one span of one process, from any kind of file.
//
// Times are integer nanoseconds since the Unix epoch on the clock of its
// process. Set Step, Epoch and First to Unknown if there is no number, because
// zero is a step.
type Span struct {
	// ID is unique in its process, never zero. Parent is the ID of the enclosing
	// span, zero for a root and for an unknown parent.
	ID, Parent uint64

	// Name is the standard name (package spans) if there is one, otherwise the name
	// in the file. Cat is the DFTracer category, empty in JSON lines.
	Name, Cat string

	// Class is what the time was spent on, Kind the kind of collective, and For
	// what a device did the work for: see [vocab.Meaning].
	Class, For vocab.Class
	Kind       string

	// StepRule is the rule by which the span may be a training step, or mark one.
	// [Process.Steps] decides which spans are steps.
	StepRule vocab.StepRule

	Start, End int64 // End is NoEnd if it was not recorded

	// Step is the zero-based number of a training iteration, the step of the
	// checkpoint that is saved or loaded, or that of a collective: a device runs it
	// later than the host, which may already be in the next iteration.
	Step int64

	// Within is the step of which another kind of span is a part, plus one: zero if
	// unknown.
	Within int64

	// Epoch is the number of the epoch, or Unknown.
	Epoch int64

	// First is train_iterations_start of a training loop.
	First int64

	// Tokens is how many tokens or samples the process worked on in a training
	// iteration, zero if unknown.
	Tokens int64

	// Group is the process group of a collective, and GroupSize its number of
	// ranks. Empty and zero mean unknown.
	Group     string
	GroupSize int

	// Peer is the rank that a message goes to or comes from, plus 1; zero if
	// unknown.
	Peer int

	// Role distinguishes ranks that do different work, such as the stages of a
	// pipeline: the arguments role, pipeline_stage (or pp_rank) and expert_group of
	// the application, the training loop or an iteration.
	Role string

	Profiling

	// Thread is the thread or lane, zero if unknown: see [ThreadOf].
	Thread int64

	// Background marks a span that runs concurrently with the training thread.
	Background bool

	// Async marks a collective that was only started here: the wait for it is
	// another span.
	Async bool

	// Loader is how a data loader works, for the span that starts one.
	Loader Loader

	// Reason is why a compiler compiled again, empty if it was not recorded.
	Reason string

	// Failed means that the program recorded an error as the outcome.
	Failed bool

	// Nested means that the file has no parents: the parent is the innermost open
	// span of the same thread that encloses this one.
	Nested bool
}

// Loader is how a data loader works.
type Loader uint8

// A loader fetches a batch when it is requested, or its workers fetch batches
// ahead of the training. Zero means unknown.
const (
	LoaderDirect Loader = 1 + iota
	LoaderAhead
)

// Profiling is what a profiler recorded about a span: zero for other sources.
type Profiling struct {
	// Profiled marks the records of a profiler, and what was derived from them.
	Profiled bool

	// OnDevice marks profiler records of a device's work; Span.For is then the
	// class of the work, and Operator what the host requested, empty if unknown.
	// Their Class is ClassDetail, because other spans represent this time.
	OnDevice bool
	Operator string

	// Device is how long a device worked for what this span launched, in
	// nanoseconds, and DeviceComm the part of collectives, including their waits;
	// zero if no profiler recorded it.
	Device, DeviceComm int64

	// Launch is when the host requested a device's work in this span, zero if not
	// recorded. Start and End are then the device's times.
	Launch int64
}

// SetName sets the name of a span, its category and their meaning, by its name
// in a trace file, or by its standard name with an empty category.
func (s *Span) SetName(category, name string) {
	m := vocab.Of(category, name)
	s.mean(category, &m)
}

func (s *Span) mean(category string, m *vocab.Meaning) {
	s.Name, s.Cat, s.Class, s.Kind, s.For, s.StepRule = m.Name, category, m.Class, m.Kind, m.For, m.Step
}

// ThreadOf returns the thread of a lane: overlapping spans of one thread are on
// several lanes, see [tracefile.LaneDistance].
func ThreadOf(lane int64) int64 { return lane % tracefile.LaneDistance }

// Event is an instant event.
type Event struct {
	Name string // of package spans, or the program's own
	Time int64  // nanoseconds since the epoch
	Span uint64 // the ID of its span, zero if unknown

	// Step is the step in the event, or Unknown. Through is, for a saved
	// checkpoint, the last iteration in it.
	Step, Through int64

	// Iterations is, for an update of the training metrics, how many iterations
	// there were so far, and Took how long they took together, in nanoseconds; zero
	// if unknown.
	Iterations, Took int64
	// Finished is when the last of them ended, zero if unknown.
	Finished int64

	failure *Failure
}
