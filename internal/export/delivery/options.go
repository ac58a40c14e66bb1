package delivery

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Defaults of [Options]. Queue, batch and delay are those of the OpenTelemetry
// specification.
const (
	DefaultMaxQueue        = 2048
	DefaultMaxQueueBytes   = 64 << 20
	DefaultMaxBatch        = 512
	DefaultMaxBatchBytes   = 3 << 20 // gRPC servers accept 4 MiB by default
	DefaultDelay           = 5 * time.Second
	DefaultExportTimeout   = 30 * time.Second
	DefaultRetryFor        = time.Minute
	DefaultRetryFirst      = 500 * time.Millisecond
	DefaultRetryMost       = 10 * time.Second
	DefaultShutdownTimeout = 5 * time.Second
)

// Options configures a [Processor]. A zero field takes the exporter's value
// (see [Tuner]), then the environment's, then the default.
type Options struct {
	// MaxQueue is the number of spans that may wait. With a Spill, spans above this
	// number move there; up to 16 times as many may wait for that. It is at most
	// 1<<24.
	MaxQueue int
	// MaxQueueBytes bounds the estimated size of the waiting spans. An empty queue
	// accepts one span of any size.
	MaxQueueBytes int
	// MaxBatch is the maximum number of spans per export, at most MaxQueue.
	MaxBatch int
	// MaxBatchBytes bounds the estimated size of one export; a single span may
	// exceed it.
	MaxBatchBytes int
	// Delay is the longest time that a span waits for its batch to fill.
	Delay time.Duration
	// ExportTimeout bounds one attempt to export a batch.
	ExportTimeout time.Duration
	// RetryFor bounds the time in which one batch is retried. Negative means one
	// attempt only.
	RetryFor time.Duration
	// RetryFirst and RetryMost are the first and the longest pause between two
	// attempts. A pause that the backend asks for replaces them.
	RetryFirst, RetryMost time.Duration
	// ShutdownTimeout bounds Shutdown and ForceFlush if their context has no
	// deadline.
	ShutdownTimeout time.Duration

	// Clean repairs a span that the exporter could not accept, and returns how many
	// values it repaired. It is called once for each span, not on the goroutine of
	// the span except for spans of more than 64 KiB, which are cut before they fill
	// the queue. Nil repairs nothing.
	Clean func(sdktrace.ReadOnlySpan) (sdktrace.ReadOnlySpan, int)
	// Spill, if not nil, keeps what cannot be delivered; otherwise it is dropped.
	Spill Spill
	// OnLoss is called for dropped items with the cause, how many since the last
	// call for this cause, and the latest error, nil for a full queue. It is never
	// called on the goroutine of a span, nor twice at a time; every drop up to the
	// end of Shutdown has been reported when Shutdown returns.
	OnLoss func(cause Cause, spans int64, err error)
	// LookupEnv looks up the OTEL_BSP_* variables, which are read for exporters
	// that are not a [Tuner]. Nil reads none.
	LookupEnv func(name string) (string, bool)
}

// Tuner is a SpanExporter with its own options. [New] calls Delivery once.
type Tuner interface {
	sdktrace.SpanExporter
	Delivery() Options
}

// Spill keeps spans that could not be delivered. Keep may be called by several
// goroutines; it returns the number of spans kept, the first ones of batch, and
// why others were not. Once ctx is done it keeps nothing, because then the
// spans count as lost. It must not call the processor. Close is called once,
// after the last Keep. An error of either that matches [SpillLost] is about
// spans that were kept before.
type Spill interface {
	Keep(ctx context.Context, batch []sdktrace.ReadOnlySpan) (kept int, err error)
	Close() error
}

// SpillLost is an error about lost spans that a [Spill] had kept.
type SpillLost struct {
	Spans int
	Err   error
}

// Error returns the text of Err, with the number.
func (e *SpillLost) Error() string { return fmt.Sprintf("%v: %d spans are lost", e.Err, e.Spans) }

// Unwrap returns Err.
func (e *SpillLost) Unwrap() error { return e.Err }

// or fills the zero fields of o from weaker options.
func (o Options) or(weaker Options) Options {
	fill(&o.MaxQueue, weaker.MaxQueue)
	fill(&o.MaxQueueBytes, weaker.MaxQueueBytes)
	fill(&o.MaxBatch, weaker.MaxBatch)
	fill(&o.MaxBatchBytes, weaker.MaxBatchBytes)
	fill(&o.Delay, weaker.Delay)
	fill(&o.ExportTimeout, weaker.ExportTimeout)
	fill(&o.RetryFor, weaker.RetryFor)
	fill(&o.RetryFirst, weaker.RetryFirst)
	fill(&o.RetryMost, weaker.RetryMost)
	fill(&o.ShutdownTimeout, weaker.ShutdownTimeout)
	if o.Clean == nil {
		o.Clean = weaker.Clean
	}
	if o.Spill == nil {
		o.Spill = weaker.Spill
	}
	if o.OnLoss == nil {
		o.OnLoss = weaker.OnLoss
	}
	return o
}

func fill[T int | time.Duration](field *T, weaker T) {
	if *field == 0 {
		*field = weaker
	}
}

// withDefaults sets the remaining zero fields to their defaults.
func (o Options) withDefaults() Options {
	o = o.or(Options{
		MaxQueue: DefaultMaxQueue, MaxQueueBytes: DefaultMaxQueueBytes,
		MaxBatch: DefaultMaxBatch, MaxBatchBytes: DefaultMaxBatchBytes,
		Delay: DefaultDelay, ExportTimeout: DefaultExportTimeout,
		RetryFor: DefaultRetryFor, RetryFirst: DefaultRetryFirst, RetryMost: DefaultRetryMost,
		ShutdownTimeout: DefaultShutdownTimeout,
	})
	o.MaxQueue = min(max(1, o.MaxQueue), 1<<24)
	o.MaxBatch = min(max(1, o.MaxBatch), o.MaxQueue)
	o.MaxBatchBytes = min(o.MaxBatchBytes, max(1, o.MaxQueueBytes/2)) // a full queue holds a batch
	o.RetryFirst = min(o.RetryFirst, o.RetryMost)
	return o
}

// fromEnv reads the OTEL_BSP_* variables. As the specification requires, an
// invalid value counts as not set.
func fromEnv(lookup func(string) (string, bool)) (o Options) {
	if lookup == nil {
		return o
	}
	number := func(name string) int {
		text, _ := lookup("OTEL_BSP_" + name)
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 0 || n > math.MaxInt32 {
			return 0
		}
		return n
	}
	o.MaxQueue = number("MAX_QUEUE_SIZE")
	o.MaxBatch = number("MAX_EXPORT_BATCH_SIZE")
	o.Delay = time.Duration(number("SCHEDULE_DELAY")) * time.Millisecond
	o.ExportTimeout = time.Duration(number("EXPORT_TIMEOUT")) * time.Millisecond
	return o
}
