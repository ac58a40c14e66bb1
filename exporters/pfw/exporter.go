package pfw

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Exporter writes a trace file. Pass it to a telemetry builder with WithExporter,
// WithSpanExporter or WithSpanProcessor; it then receives everything that the program
// records, as it happens:
//
//	builder.WithExporter(pfw.New("trace.pfw.gz", nil))
//
// It is also a span exporter, and a span processor, for any OpenTelemetry program:
//
//	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(pfw.New("trace.pfw.gz", nil)))
//
// As an exporter, it writes each span when it arrives, as a [Processor] writes a span whose
// start it has not seen.
//
// The methods are safe for concurrent use. A processor records more of a program that is
// killed, and loses no spans under load.
type Exporter struct {
	*live // nil before the file is open

	path string
	opts Options

	opening sync.Mutex // protects live; methods that need no open file call opened
	mu      sync.Mutex
	closed  bool
	started bool // without telemetry: the trace starts with its first span and ends with Shutdown
	err     error
	records []outputs.Record // reused buffer of one batch
}

// live is the Processor of an Exporter.
type live = Processor

var (
	_ sdktrace.SpanExporter  = (*Exporter)(nil)
	_ sdktrace.SpanProcessor = (*Exporter)(nil)
	_ outputs.Output         = (*Exporter)(nil)
)

// New returns an exporter that creates the file at path, which may contain {rank}, {pid}
// and {host}, when the first spans arrive. If that fails, every ExportSpans returns the
// error. If the options have a writer, New ignores path. Add the exporter to one builder,
// once.
func New(path string, o *Options) *Exporter {
	e := &Exporter{path: path, opts: o.withDefaults()}
	if e.opts.Writer != nil {
		e.path = ""
	} else {
		e.opts.OwnWriter = true
	}
	return e
}

// open creates the file, unless the options have a writer, and the processor that writes
// to it. Without telemetry the trace starts with the earliest span of batch, which
// started before the file was created.
func (e *Exporter) open(t *outputs.Telemetry, batch []sdktrace.ReadOnlySpan) (err error) {
	opts := e.opts
	e.started = false
	if opts.Writer == nil {
		trace := opts.traceFor(cmp.Or(t, &outputs.Telemetry{}))
		if t == nil && trace.Start.IsZero() {
			e.started = true
			for _, s := range batch {
				if at := s.StartTime(); trace.Start.IsZero() || at.Before(trace.Start) {
					trace.Start = at
				}
			}
			trace.Heartbeat = cmp.Or(trace.Heartbeat, tracefile.DefaultHeartbeat) // shows readers that the process is alive
		}
		if opts.Writer, err = dftracer.Create(e.path, trace); err != nil {
			return err
		}
		if len(opts.Cores) > 0 {
			tracefile.WriteCores(opts.Writer, opts.Cores)
		}
		tracefile.WriteCustom(opts.Writer, tracefile.KeyFlushInterval, strconv.FormatInt(cmp.Or(trace.FlushInterval, dftracer.DefaultFlushInterval).Microseconds(), 10))
	}
	p := newProcessor(opts)
	e.opening.Lock()
	defer e.opening.Unlock()
	e.live = p
	return nil
}

// opened returns the processor that writes the file, or nil before the file is open.
func (e *Exporter) opened() *Processor {
	if e == nil {
		return nil
	}
	e.opening.Lock()
	defer e.opening.Unlock()
	return e.live
}

// Stats implements outputs.Output.
func (e *Exporter) Stats() outputs.Stats { return e.opened().Stats() }

// ExportSpans implements sdktrace.SpanExporter. It waits for the disk only if the disk
// is slower than the program. All spans of batch are written when it returns, so batches
// of one span work as well as large ones.
func (e *Exporter) ExportSpans(_ context.Context, batch []sdktrace.ReadOnlySpan) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.err != nil || len(batch) == 0 {
		return e.err
	}
	if e.live == nil {
		if e.err = e.open(nil, batch); e.err != nil {
			return e.err
		}
		e.live.ended.first = int64(os.Getpid()) // only ended spans arrive
	}
	for _, s := range batch {
		e.records = append(e.records, outputs.Record{Kind: outputs.KindStop, Snapshot: s})
	}
	err := e.Write(e.records)
	clear(e.records) // do not keep written spans alive
	e.records = e.records[:0]
	return err
}

// OnStart implements sdktrace.SpanProcessor.
func (e *Exporter) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	e.processor(ctx, s).OnStart(ctx, s)
}

// OnEnd implements sdktrace.SpanProcessor.
func (e *Exporter) OnEnd(s sdktrace.ReadOnlySpan) { e.processor(context.Background(), s).OnEnd(s) }

// processor returns the processor that writes the file, which it opens for the first span.
// It returns nil if that failed; Shutdown returns the error.
func (e *Exporter) processor(ctx context.Context, first sdktrace.ReadOnlySpan) *Processor {
	if p := e.opened(); p != nil || e == nil {
		return p
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live != nil || e.closed || e.err != nil {
		return e.live
	}
	var t *outputs.Telemetry
	if started := filter.Started(ctx); started != nil { // attached to telemetry through a decorator
		t = started.Telemetry()
	}
	if e.err = e.open(t, []sdktrace.ReadOnlySpan{first}); e.err != nil {
		e.opts.traceFor(&outputs.Telemetry{}).OnError(e.err)
	}
	return e.live
}

// Shutdown implements sdktrace.SpanExporter. It completes the file, and closes it unless
// the program owns the writer. An exporter that got no spans creates no file.
func (e *Exporter) Shutdown(ctx context.Context) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.live == nil {
		e.closed = true
		return e.err
	}
	e.closed = true
	if e.started {
		e.live.Writer().SetEnd(time.Now())
	}
	e.err = errors.Join(e.err, e.live.Shutdown(ctx))
	return e.err
}
