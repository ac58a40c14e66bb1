package torch

import (
	"io"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// Sink accepts the events of an import. *dftracer.Writer is one. Write is
// called from one goroutine at a time; the event and its arguments, which may be
// encoded (see tracefile.Decoded), are reused afterwards. A sink with a method NextID() uint64 assigns the ids of the
// events; otherwise they count from one.
type Sink interface {
	Write(*dftracer.Event)
}

// Source is one file to import: a Kineto trace (plain, gzip, or a tar of ranks)
// or a TORCH_TRACE log; the first bytes decide.
type Source struct {
	// Name is shown in the report and may contain a rank and a time stamp.
	Name string
	// Open returns the bytes as stored. It is called once.
	Open func() (io.ReadCloser, error)
	// ModTime helps to date a trace without a time base. Zero means unknown.
	ModTime time.Time
}

// Options adjust an import. The zero value, and nil, import everything that the
// profiler's own summary would show, and add the AI categories.
type Options struct {
	// Begin, if set, opens the sink after all sources are read, and the one passed
	// to Import is not used. start is the first moment of what will be written,
	// zero if nothing has a time; use it as the start of a trace that is written
	// afterwards.
	Begin func(start time.Time) (Sink, error)
	// Rules is the table of AI categories; nil means the built-in one, an empty
	// slice none.
	Rules []Rule
	// DeviceRules classify kernels. They come before the built-in rules, which
	// stay.
	DeviceRules []DeviceRule
	// PythonStacks also imports python_function rows, which are most of a trace
	// recorded with with_stack.
	PythonStacks bool
	// NoInference leaves out inferred events (argument inferred:1).
	NoInference bool
	// Epoch is added to every event if it is positive, or if HasEpoch is set.
	Epoch    int64
	HasEpoch bool
	// Rank is used for a single trace without a rank.
	Rank *int64
	// Host is the host name of traces without one. Empty means
	// rank<N>@unknown-host, or unknown-host without a rank.
	Host string
	// Dialect is the sink's dialect, for the host hash. If the sink has a Dialect
	// method, like dftracer.Writer, that is used instead.
	Dialect dftracer.Dialect
	// Memory bounds the bytes held for sorting, 64 MiB if zero. The rest goes to a
	// temporary file in TempDir.
	Memory  int64
	TempDir string
	// NoAlignment does not shift the clocks of the ranks.
	NoAlignment bool
	// MaxSkew is the largest possible clock difference, ten minutes if zero: files
	// whose profiler windows are further apart are not compared.
	MaxSkew time.Duration
	// Spans, if set, also exports OpenTelemetry spans.
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
	if out.MaxSkew <= 0 {
		out.MaxSkew = 10 * time.Minute
	}
	return out
}
