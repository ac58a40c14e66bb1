package pfw

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Processor is a span processor that writes every span to a trace file when it ends. It
// loses nothing: if the disk is slower than the program, ending a span waits. It reads
// the attributes, status and links of an ended span on the writer's goroutine, within
// half a second, see dftracer.Options.FlushInterval: a span that another processor of
// the program passes on must not change after its end. All methods are safe for concurrent use; a nil Processor does
// nothing.
//
// A span is written under the nearest enclosing span or scope that is still open when it
// ends, so that an event never exceeds its parent. A span whose parent is in another
// process, or was not recorded, is a root.
//
// Shutdown writes the spans that are still open, with the argument truncated set to 1.
//
// The Processor also writes spans whose start it has not seen, because they began before
// the Processor was registered or come from a span exporter. Such spans may arrive in
// any order. A child that arrives before its parent refers to it by an id that is
// assigned then and reserved for the parent. A child that ended after its parent becomes
// a child of the nearest ancestor that contains it. A parent that never arrives, because
// it is open at the end or was dropped on the way, is written as the event "unfinished"
// around its children, with the argument truncated. These events have no level, because
// it is unknown until the parents arrive. The Processor remembers a bounded number of
// spans, see Options.MaxParents; a child that arrives after its parent was forgotten
// gets an "unfinished" parent of its own. A span that arrives twice is written once.
type Processor struct {
	outputs.None

	traces  *traceWriter
	ended   endedSpans
	files   *fileLog // nil if file calls are not recorded
	watcher watcher

	scoped  atomic.Bool // ScopeKind was called
	closed  atomic.Bool
	down    sync.Once
	downErr error
	losses  atomic.Pointer[[]attributes.Attr] // losses of other outputs
}

var (
	_ sdktrace.SpanProcessor = (*Processor)(nil)
	_ outputs.Output         = (*Processor)(nil)
)

// Create creates the trace file at path, which may contain {rank}, {pid} and {host}, and
// returns a processor that writes to it. Shutdown closes the file. If the options have a
// writer, Create uses it and ignores path. Unless NoBegin is set, the processor has a
// goroutine that Shutdown ends.
func Create(path string, o *Options) (*Processor, error) {
	opts := o.withDefaults()
	if opts.Writer == nil {
		w, err := dftracer.Create(path, opts.traceFor(&outputs.Telemetry{}))
		if err != nil {
			return nil, err
		}
		opts.Writer, opts.OwnWriter = w, true
	}
	return newProcessor(opts), nil
}

// newProcessor returns a processor that writes to the writer of the options.
func newProcessor(o Options) *Processor {
	p := &Processor{traces: newTraceWriter(o)}
	p.ended.first = int64(os.Getpid()) + tracefile.LaneDistance
	p.files = newFileLog(p.traces, o.Files)
	if !o.NoBegin {
		p.watcher.start(p.traces, p.files)
	}
	return p
}

// Writer returns the underlying writer.
func (p *Processor) Writer() *dftracer.Writer {
	if p == nil {
		return nil
	}
	return p.traces.w
}

// OnStart implements sdktrace.SpanProcessor.
func (p *Processor) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	if p != nil {
		p.start(ctx, s)
	}
}

func (p *Processor) start(ctx context.Context, s sdktrace.ReadOnlySpan) {
	if p.closed.Load() {
		return
	}
	d := p.traces
	if d.offer.Load() == nil {
		// The processor was attached through a decorator that exposes only the span
		// processor.
		if started := filter.Started(ctx); started != nil {
			d.attach(started.Telemetry())
			p.scoped.Store(true) // ScopeKind is never called then
		}
	}
	e := &spanEntry{d: d, span: s, spanID: s.SpanContext().SpanID()}
	e.id = d.w.NextID()
	at := d.progress()
	e.epoch, e.step = at.Epoch(), at.Step()
	start := s.StartTime().UnixMicro()
	above := s.Parent()
	parent := d.parentOf(ctx, above)
	if parent != nil || !above.IsRemote() {
		parent = d.ambient.innermost(parent, start)
	}
	e.beginBelow(parent, start)
	tid := d.roots.begin(&e.open, parent)
	i := -1
	if !d.opts.NoBegin {
		i = spans.Index(s.Name())
	}
	long := i >= 0 && spans.At(i).Long
	e.begun = long
	if p.scoped.Load() {
		if started := filter.Started(ctx); started != nil && started.Ambient() {
			d.ambient.enter(&e.open, parent)
		}
	}
	d.open.add(e)
	if p.closed.Load() { // Shutdown may have missed the span
		if !e.finish(&d.beginning) {
			return
		}
		if e.begun && !long { // the watcher wrote its begin
			d.write(e, s, d.clock.now(), true)
			return
		}
		d.roots.end(&e.open, e.start)
		d.open.remove(e)
		return
	}
	if long {
		d.whileOpen(&e.open, func() {
			d.begin(&e.open, &d.keys.standard[i], tid, e.epoch, e.step, s.Attributes())
		})
	}
}

// OnEnd implements sdktrace.SpanProcessor.
func (p *Processor) OnEnd(s sdktrace.ReadOnlySpan) {
	if p == nil {
		return
	}
	if !p.traces.endSpan(s) {
		p.writeEnded([]outputs.Record{{Kind: outputs.KindStop, Snapshot: s}})
	}
}

// ForceFlush implements sdktrace.SpanProcessor. When it returns, everything written
// before is in the file.
func (p *Processor) ForceFlush(ctx context.Context) error {
	if p == nil || p.closed.Load() {
		return nil
	}
	p.files.flush(0)
	return p.traces.w.FlushContext(ctx)
}

// Shutdown implements sdktrace.SpanProcessor. It writes the open spans, flushes the
// writer, and closes it if the processor owns it. Later calls return the same result.
func (p *Processor) Shutdown(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.down.Do(func() {
		p.closed.Store(true)
		d := p.traces
		if d.opts.OwnWriter { // waits for the disk below end with ctx too
			defer context.AfterFunc(ctx, func() { _ = d.w.CloseContext(ctx) })()
		}
		p.endScopes()
		p.watcher.end()
		d.truncate()
		d.settled(ctx)
		unfinished := p.finishEnded()
		if args := p.endArgs(unfinished); len(args) > 0 {
			d.w.SetEnd(time.Time{}, args...)
		}
		last := d.w.FlushContext
		if d.opts.OwnWriter {
			last = d.w.CloseContext
		}
		p.downErr = last(ctx)
	})
	return p.downErr
}

// endArgs returns the arguments of the trace's end record: the numbers of truncated and
// unfinished spans, and what was lost on the way to a backend, as otlp_dropped_<key>.
func (p *Processor) endArgs(unfinished int64) (args []dftracer.Arg) {
	if n := p.traces.truncated.Load(); n > 0 {
		args = append(args, dftracer.Int("spans_truncated", n))
	}
	if unfinished > 0 {
		args = append(args, dftracer.Int("spans_unfinished", unfinished))
	}
	if lost := p.losses.Load(); lost != nil {
		for _, a := range *lost {
			args = append(args, dftracer.Int("otlp_dropped_"+strings.ReplaceAll(string(a.Key), " ", "_"), a.Value.AsInt64()))
		}
	}
	return args
}
