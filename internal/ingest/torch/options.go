package torch

import (
	"io"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// Sink takes the events of an import. *dftracer.Writer is one. Write is called
// from one goroutine at a time; the event and its Args are reused afterwards.
// A sink that also has NextID() uint64 gives the ids of the events; otherwise
// they count from one.
type Sink interface {
	Write(*dftracer.Event)
}

// Source is one file to import: a Kineto trace (plain, gzip, or a tar of
// ranks) or a TORCH_TRACE log, told apart by their first bytes.
type Source struct {
	// Name is shown in the report and searched for a rank and a time stamp.
	Name string
	// Open returns the bytes as stored. It is called once.
	Open func() (io.ReadCloser, error)
	// ModTime helps to place a trace whose time base is missing. Zero is unknown.
	ModTime time.Time
}

// Options adjust an import. The zero value, and nil, import everything that
// the profiler's own summary would show and the AI categories on top.
type Options struct {
	// Begin, when set, opens the sink when all sources are read, and the one
	// handed to Import is not used. start is the first moment of what will be
	// written, zero when nothing has a time; a trace that is written afterwards
	// begins there.
	Begin func(start time.Time) (Sink, error)
	// Rules is the table of AI categories, the built-in one when nil; an empty
	// slice turns it off.
	Rules []Rule
	// DeviceRules tell what kind of work a kernel is. They come before the
	// built-in ones, which stay.
	DeviceRules []DeviceRule
	// PythonStacks also imports python_function rows, which are most of a
	// trace taken with with_stack.
	PythonStacks bool
	// NoInference leaves out events that are guesses (argument inferred:1).
	NoInference bool
	// NoSteps leaves out the pipeline event of each ProfilerStep.
	NoSteps bool
	// StarSteps names steps "ProfilerStep*" as the profiler's tables do.
	StarSteps bool
	// DeviceCopies also makes device.transfer events of copies inside one device.
	DeviceCopies bool
	// Epoch is put on every event when it is positive, or when HasEpoch is set.
	Epoch    int64
	HasEpoch bool
	// Rank is used for a single trace that does not know its own.
	Rank *int64
	// Host is the host name of traces that carry none. Empty means
	// rank<N>@unknown-host, or unknown-host without a rank.
	Host string
	// Dialect is the one the sink writes, for the host hash. A sink with a
	// Dialect method, as dftracer.Writer has, is asked instead.
	Dialect dftracer.Dialect
	// Memory bounds the bytes held for sorting, 64 MiB when zero. What does
	// not fit goes to a temporary file in TempDir.
	Memory  int64
	TempDir string
	// NoAlignment keeps the clocks of the ranks as they are.
	NoAlignment bool
	// MinSkew is the clock difference below which ranks are taken to share a
	// clock, 50 microseconds when zero.
	MinSkew time.Duration
	// MaxSkew is by how much clocks may differ at most, ten minutes when zero:
	// files whose profiler windows are further apart are not compared.
	MaxSkew time.Duration
	// Spans, when set, also turns the import into OpenTelemetry spans.
	Spans *SpanOptions
}

func (o *Options) resolved() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Memory <= 0 {
		out.Memory = 64 << 20
	}
	if out.MinSkew <= 0 {
		out.MinSkew = 50 * time.Microsecond
	}
	if out.MaxSkew <= 0 {
		out.MaxSkew = 10 * time.Minute
	}
	return out
}
