package job

import (
	"math"

	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// NoEnd is the End of a span whose end was not recorded.
const NoEnd int64 = math.MaxInt64

// Unknown stands for a number that the records do not give.
const Unknown int64 = -1

// Span is one span of one process, from whatever file it came.
//
// Times are integer nanoseconds since the Unix epoch on the clock of its
// process. Set Step, Epoch and First to Unknown where there is no number: zero is a
// step.
type Span struct {
	// ID is unique in its process, never zero. Parent is the ID of the
	// enclosing span, zero for a root and for a parent that is not known.
	ID, Parent uint64

	// Name is the standard name (package spans) where both vocabularies have
	// one, otherwise the name in the file. Cat is the DFTracer category, empty
	// in JSON lines.
	Name, Cat string

	// Class says what the time was spent on, Kind which collective it is, and For
	// what a device did it for: see [vocab.Meaning].
	Class, For vocab.Class
	Kind       string

	// StepRule is the rule by which the span may be a training step, or mark one.
	// Which spans are steps [Process.Steps] decides.
	StepRule vocab.StepRule

	Start, End int64 // End is NoEnd when it was not recorded

	// Step is the zero-based number of a training iteration, the step of the
	// checkpoint that is saved or loaded, or that of a collective: a device
	// runs it later than the host that went on to the next iteration.
	Step int64

	// Within is the step that a span of another kind says it is part of, plus one:
	// zero where it says none.
	Within int64

	// Epoch is the number of the epoch, Unknown without one.
	Epoch int64

	// First is train_iterations_start of a training loop.
	First int64

	// Tokens is how many tokens or samples the process worked on in a training
	// iteration, zero when that is not known.
	Tokens int64

	// Group is the process group of a collective, and GroupSize how many ranks
	// it has. Empty and zero mean that the record does not say.
	Group     string
	GroupSize int

	// Role is what tells ranks apart that do different work, such as the stages
	// of a pipeline: the arguments role, pipeline_stage (or pp_rank) and
	// expert_group of the application, the training loop or an iteration.
	Role string

	Profiling

	// Thread is the thread or lane, zero when it is not known: see [ThreadOf].
	Thread int64

	// Background marks a span that runs beside the training thread.
	Background bool

	// Async marks a collective that was only asked for here: what waits for it is
	// another span.
	Async bool

	// Loader is how a data loader works, of the span that starts one.
	Loader Loader

	// Nested says that the file has no parents: the parent is the innermost
	// open span of the same thread that encloses this one.
	Nested bool
}

// Loader is how a data loader works.
type Loader uint8

// A loader fetches a batch when it is asked for, or its workers fetch batches ahead of the
// training. Zero is not known.
const (
	LoaderDirect Loader = 1 + iota
	LoaderAhead
)

// Profiling is what a profiler says of a span: nothing in a record of another source.
type Profiling struct {
	// Profiled marks the records of a profiler, and what was concluded from them.
	Profiled bool

	// OnDevice marks what a device did, of those; Span.For says then what it
	// was, and Operator what the host asked for, empty where that is not
	// known. Their Class is ClassDetail, because spans of other names stand for them
	// where that is more.
	OnDevice bool
	Operator string

	// Device is how long a device worked for what this span launched, in
	// nanoseconds, and DeviceComm the part of it that collectives took, with
	// their waits; zero where no profiler recorded it.
	Device, DeviceComm int64

	// Launch is when the host asked for what a device did in this span, zero
	// where that is not recorded. Start and End are the device's then.
	Launch int64
}

// SetName gives a span its name, its category and what they mean, by the name that
// it has in a trace file, or by its standard name with an empty category.
func (s *Span) SetName(category, name string) {
	m := vocab.Of(category, name)
	s.mean(category, &m)
}

func (s *Span) mean(category string, m *vocab.Meaning) {
	s.Name, s.Cat, s.Class, s.Kind, s.For, s.StepRule = m.Name, category, m.Class, m.Kind, m.For, m.Step
}

// ThreadOf returns the thread of a lane: spans of one thread that overlap lie on
// lanes of its own, as [tracefile.LaneDistance] says.
func ThreadOf(lane int64) int64 { return lane % tracefile.LaneDistance }

// Event is something that happened at a moment.
type Event struct {
	Name string // of package spans, or the program's own
	Time int64  // nanoseconds since the epoch
	Span uint64 // the ID of its span, zero when it is not known

	// Step is the step that the event names, Unknown without one. Through is,
	// for a checkpoint that was saved, the last iteration that it holds.
	Step, Through int64

	// Iterations is, of an update of the metrics of the training, how many there have
	// been so far, and Took how long they took together, in nanoseconds; zero where it
	// does not say.
	Iterations, Took int64
	// Finished is when the last of them ended, zero where it does not say.
	Finished int64

	failure *Failure
}
