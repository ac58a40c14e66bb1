package pfw

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Exporter is a trace file. A telemetry builder is given one with any of
// WithExporter, WithSpanExporter and WithSpanProcessor; it gets everything that
// the program records, the moment it happens:
//
//	builder.WithExporter(pfw.New("trace.pfw.gz", nil))
//
// It is a span exporter for any OpenTelemetry program too:
//
//	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(pfw.New("trace.pfw.gz", nil)))
//
// There, spans are written as they come. A child that comes before its parent names
// it by an id that is given out there and then and kept for the parent. A
// child that ended after its parent becomes a child of the nearest ancestor that
// contains it. A parent that never comes, because it is open at the end or was
// dropped on the way, is written as the event "unfinished" around its
// children, with the argument truncated. Events have no level: it is not known
// before the parents are.
//
// It has to remember spans for that, see Options.MaxParents; a child that
// comes after its parent was forgotten gets an "unfinished" parent of its own.
// A span that is exported twice is written once.
//
// The methods are safe for concurrent use. A [Processor] shows more of a
// program that is killed and does not lose spans when it is busy.
type Exporter struct {
	*live // once it is attached to telemetry: all but what is done here is done there

	path string
	opts Options

	mu      sync.Mutex
	w       *dftracer.Writer // nil until there is something to write
	asm     *place.Assembler
	keys    keyTable
	closed  bool
	started bool // the trace begins with its first span and ends with Shutdown
	err     error

	// Memory of one batch, used again.
	spans  []place.Span
	args   []dftracer.Arg
	events []place.Event
}

// live is a Processor that is part of an Exporter.
type live = Processor

var (
	_ sdktrace.SpanExporter = (*Exporter)(nil)
	_ outputs.Output        = (*Exporter)(nil)
)

// New makes an exporter that creates the file at path, which may contain
// {rank}, {pid} and {host}, when the first spans come. An error in doing so is
// that of every ExportSpans. Where the options have a writer, that is used and the
// path is not.
func New(path string, o *Options) *Exporter {
	e := &Exporter{path: path, opts: o.withDefaults()}
	e.keys.standard = standardKeys()
	if e.opts.Writer != nil {
		e.path = ""
		e.use(e.opts.Writer)
	} else {
		e.opts.OwnWriter = true
	}
	return e
}

func (e *Exporter) use(w *dftracer.Writer) {
	e.w = w
	e.asm = place.New(w, place.Options{
		TID: int64(os.Getpid()), MaxWaiting: maxBatch, MaxParents: e.opts.MaxParents,
		TraceIDs: e.opts.TraceIDs, NoBegin: e.opts.NoBegin,
	})
}

// create makes the file. Its first spans have begun before that, and the trace
// begins with the earliest.
func (e *Exporter) create(batch []sdktrace.ReadOnlySpan) error {
	o := e.opts.trace()
	e.started = o.Start.IsZero()
	if e.started {
		o.Start = batch[0].StartTime()
		for _, s := range batch {
			if s.StartTime().Before(o.Start) {
				o.Start = s.StartTime()
			}
		}
		if o.Heartbeat == 0 {
			o.Heartbeat = tracefile.DefaultHeartbeat // the process is alive
		}
	}
	w, err := dftracer.Create(e.path, o)
	if err == nil {
		e.use(w)
	}
	return err
}

// maxBatch is how many spans are put together at once.
const maxBatch = 4096

// ExportSpans implements sdktrace.SpanExporter. It waits for the disk only if
// that is slower than the program. All spans are written when it returns, so
// it may be called with one span as well as with many.
func (e *Exporter) ExportSpans(_ context.Context, batch []sdktrace.ReadOnlySpan) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.err != nil || len(batch) == 0 {
		return e.err
	}
	if e.w == nil {
		if e.err = e.create(batch); e.err != nil {
			return e.err
		}
	}
	for len(batch) > 0 {
		n := min(len(batch), maxBatch)
		e.write(batch[:n])
		batch = batch[n:]
	}
	return nil
}

// write writes spans, which hang together or not.
func (e *Exporter) write(batch []sdktrace.ReadOnlySpan) {
	if cap(e.spans) < len(batch) {
		e.spans = make([]place.Span, len(batch))
	}
	e.args, e.events = e.args[:0], e.events[:0]
	spans := e.spans[:len(batch)]
	for i, s := range batch {
		e.convert(&spans[i], s)
		if len(batch) == 1 {
			e.asm.Write(&spans[i])
		} else {
			e.asm.Add(&spans[i], time.Time{})
		}
	}
	e.asm.WriteAll()
	// What was written must not be kept alive.
	clear(e.args)
	clear(e.events)
}

// convert makes dst what s is.
func (e *Exporter) convert(dst *place.Span, s sdktrace.ReadOnlySpan) {
	sc, parent := s.SpanContext(), s.Parent()
	dst.Key = place.Key{Trace: sc.TraceID(), Span: sc.SpanID()}
	dst.Parent = place.Key{}
	if parent.HasSpanID() && !parent.IsRemote() {
		dst.Parent = place.Key{Trace: parent.TraceID(), Span: parent.SpanID()}
	}
	dst.Start, dst.End = s.StartTime().UnixMicro(), s.EndTime().UnixMicro()

	from := len(e.args)
	args, cat, event := appendSpan(e.args, s, s.Attributes())
	if n := s.DroppedEvents(); n > 0 {
		args = append(args, dftracer.Int(place.ArgDroppedEvents, int64(n)))
	}
	if e.opts.TraceIDs {
		args = appendIDs(args, s)
	}
	e.args, dst.Args = args, args[from:len(args):len(args)]
	dst.Name = e.keys.find(s.InstrumentationScope().Name, s.Name(), cat, event)

	events := s.Events()
	from = len(e.events)
	for i := range events {
		ev := &events[i]
		first := len(e.args)
		for j := range ev.Attributes {
			e.args = appendArg(e.args, &ev.Attributes[j])
		}
		e.events = append(e.events, place.Event{Name: ev.Name, Time: ev.Time.UnixNano(), Args: e.args[first:len(e.args):len(e.args)]})
	}
	dst.Events = e.events[from:len(e.events):len(e.events)]
}

// Shutdown implements sdktrace.SpanExporter. It completes the file, and closes
// it unless it belongs to somebody else. An exporter that got no spans made no
// file.
func (e *Exporter) Shutdown(ctx context.Context) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live != nil {
		e.closed = true
		return e.live.Shutdown(ctx)
	}
	if e.closed || e.w == nil {
		e.closed = true
		return e.err
	}
	e.closed = true
	e.asm.Finish()
	if n := e.asm.Counts().Unfinished; n > 0 {
		e.w.SetEnd(time.Time{}, dftracer.Int("spans_unfinished", n))
	}
	if e.started {
		e.w.SetEnd(time.Now())
	}
	last := e.w.FlushContext
	if e.opts.OwnWriter {
		last = e.w.CloseContext
	}
	e.err = errors.Join(e.err, last(ctx))
	return e.err
}
