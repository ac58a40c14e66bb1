// Package spantree counts the progress of a training run: iterations, samples, tokens,
// operations, saves, and their times. It computes with the numbers and times that it is
// given, and returns the content of the records. The rules and the order of operations
// are those of one-logger, so that equal input gives equal doubles; comments mark the
// differences.
package spantree

import (
	"cmp"
	"fmt"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Counters are the counters of one run. The zero value is for a run that has not begun.
// They are not safe for concurrent use.
type Counters struct {
	windows [spans.Count]window
	loop    loop
	done    int64 // completed iterations, including those of earlier runs
	sized   bool  // the number of samples per iteration is known

	reported  int64 // value of done at the last metrics update
	validated int64 // value of done at the end of the last validation loop
	tested    int64 // value of done at the end of the last testing loop

	loops      int   // number of training loops started
	begun      int64 // start of the first loop, nanoseconds since the epoch
	trained    int64 // end of the first completed iteration, nanoseconds since the epoch
	productive int64 // nanoseconds of completed iterations, all loops

	flops    attrvalue.Count // of the job
	hasFlops bool

	saves saves
}

// loop holds the counts of one training loop.
type loop struct {
	start    int64 // nanoseconds since the epoch; zero before the first loop
	first    int64 // number of its first iteration
	samples0 int64 // samples of earlier runs
	counted0 bool  // samples0 is known
	samples  int64
	tokens   int64
	counted  bool // tokens were counted one by one
	failed   int64
	flops    attrvalue.Count
	loss     attributes.Opt[float64]

	throughput    float64 // running average per GPU, 10^12 FLOP/s
	throughputMin float64
	throughputMax float64
	latest        float64  // throughput of the last iteration
	iteration     extremes // throughput of single iterations since the last update

	firstFinish int64 // end of the first iteration of the loop
	lastFinish  int64 // end of the latest iteration
}

// Ending describes the end of a standard span.
type Ending struct {
	Index    int
	Step     int64 // of a save
	At, Took int64 // nanoseconds since the epoch, nanoseconds
	Now      int64 // nanoseconds since the epoch
	Failure  *failure.Failure
	Repaired bool // its end was before its start, and was corrected
	Used     Consumed
	Loop     bool // a training loop is open
	Unread   bool // no output gets that loop: the content of its events is left out
}

// Consumed is what the program reports about a training iteration.
type Consumed struct {
	Loss            attributes.Opt[float64]
	Samples, Tokens attributes.Opt[int64]
}

// Add sets the fields that are set in more.
func (c *Consumed) Add(more Consumed) {
	if more.Loss.IsSet() {
		c.Loss = more.Loss
	}
	if more.Samples.IsSet() {
		c.Samples = more.Samples
	}
	if more.Tokens.IsSet() {
		c.Tokens = more.Tokens
	}
}

// Entry is the result of counting the end of a span: events and metrics.
type Entry struct {
	Events  []Event
	Reading Reading
}

// Event is an event to add to a span.
type Event struct {
	outputs.Event
	Loop      bool // add the event to the open training loop, not to the span that ended
	Error     bool // the event is an error
	Extension bool // one-logger does not have the event
}

// Reading is what one call contributes to the metrics.
type Reading struct {
	Iteration  *IterationReading
	Failed     bool
	Blocking   int64 // nanoseconds of a save that blocked training
	Background int64 // nanoseconds of a save in the background
	Stored     bool  // a save succeeded
	Lost       bool  // a save failed
}

// IterationReading is what an iteration contributes to the metrics.
type IterationReading struct {
	Duration        int64 // nanoseconds
	Ranks           int64
	Samples, Tokens int64
	Flops           float64
	Throughput      float64 // 10^12 operations per second and GPU
	Average         float64
	Loss            attributes.Opt[float64]
}

// Start counts the start of a standard span.
func (b *Counters) Start(index int) { b.windows[index].start() }

// Done returns the number of completed iterations, including those of earlier runs.
func (b *Counters) Done() int64 { return b.done }

// Training reports whether a training loop was started.
func (b *Counters) Training() bool { return b.loops > 0 }

// Force counts the time d of a timed span that the program did not end, in nanoseconds.
func (b *Counters) Force(index int, d int64) { b.windows[index].stop(d) }

func (o *Entry) event(name string, at int64, attrs []attributes.Attr) {
	o.Events = append(o.Events, Event{Event: outputs.Event{Name: name, Time: at, Attributes: attrs}})
}

// Times are the durations of the phases of a process, in nanoseconds.
type Times struct {
	Productive int64 // of completed iterations
	Loop       int64 // since the start of the first training loop, zero before it
	Startup    int64 // until the end of the first completed iteration, or until now
}

// Times returns the times at now of a process that began at made, both in nanoseconds
// since the epoch.
func (b *Counters) Times(made, now int64) Times {
	t := Times{Productive: b.productive, Startup: max(0, cmp.Or(b.trained, now)-made)}
	if b.begun != 0 {
		t.Loop = max(0, now-b.begun)
	}
	return t
}

// NotOpen returns the error for a required span that is not open.
func NotOpen(index int) error {
	return fmt.Errorf("Expected to have one and only one span named %s but found 0.", spans.At(index).Name)
}
