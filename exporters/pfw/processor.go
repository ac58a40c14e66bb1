package pfw

import (
	"context"
	"os"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Processor is a span processor that writes every span to a trace file the
// moment it ends, on the goroutine that ends it. It loses nothing: when the
// disk is slower than the program, ending a span waits. All methods are safe
// for concurrent use; a nil Processor does nothing.
//
// A span is written under the nearest enclosing span or scope that is still
// open when it ends, so that an event never reaches beyond its parent. A span
// whose parent is in another process, or was not recorded, is a root.
//
// Spans that are still open at Shutdown are written by it, with the argument
// truncated set to 1.
type Processor struct {
	outputs.None

	w     *dftracer.Writer
	opts  Options
	lanes *dftracer.Lanes
	roots *roots
	keys  keyTable
	args  argNames
	open  registry
	files *fileLog // nil when calls on files are not recorded
	clock clock

	offer  atomic.Pointer[outputs.Telemetry] // nil: attached to no telemetry
	direct atomic.Bool                       // a scope was started
	scoped atomic.Bool                       // kinds of scopes were asked for
	top    atomic.Pointer[open]

	stop      chan struct{} // nil when nobody watches
	watcher   sync.WaitGroup
	beginning sync.Mutex // held by the watcher while it writes a begin

	cut       atomic.Bool // no scope starts any more
	closed    atomic.Bool
	down      sync.Once
	downErr   error
	truncated atomic.Int64
	orphans   atomic.Int64 // ends of spans whose start was not seen
	dropped   atomic.Pointer[map[string]int64]
}

var (
	_ sdktrace.SpanProcessor = (*Processor)(nil)
	_ outputs.Output         = (*Processor)(nil)
)

// spanEntry is an open span.
type spanEntry struct {
	open
	epoch, step int64 // -1: unknown
	spanID      trace.SpanID
	span        sdktrace.ReadWriteSpan // nil once it is written
}

// NewProcessor makes a processor that writes to w. Shutdown flushes w, and
// closes it only if the options say so. Unless they say NoBegin, it starts a
// goroutine that Shutdown ends.
func NewProcessor(w *dftracer.Writer, o *Options) *Processor {
	p := &Processor{w: w, opts: o.withDefaults()}
	p.clock.set()
	p.keys.standard = standardKeys()
	p.lanes = dftracer.NewLanes(int64(os.Getpid()))
	p.roots = newRoots(p.lanes)
	p.files = newFileLog(p, p.opts.Files)
	if !p.opts.NoBegin {
		p.watch()
	}
	return p
}

// Create makes the trace file at path, which may contain {rank}, {pid} and
// {host}, and a processor that writes to it. Shutdown closes the file.
func Create(path string, o *Options) (*Processor, error) {
	opts := o.withDefaults()
	w, err := dftracer.Create(path, opts.trace())
	if err != nil {
		return nil, err
	}
	opts.OwnWriter = true
	return NewProcessor(w, &opts), nil
}

// Writer is the writer behind the processor.
func (p *Processor) Writer() *dftracer.Writer {
	if p == nil {
		return nil
	}
	return p.w
}

// Attach implements outputs.Output: events get the epoch and step of the
// training, and scopes whose context carries no parent find theirs.
func (p *Processor) Attach(_ context.Context, t *outputs.Telemetry) (outputs.Wants, error) {
	if p != nil {
		p.attached(t)
	}
	return outputs.Wants{Spans: true, Scopes: true, All: true}, nil
}

func (p *Processor) attached(t *outputs.Telemetry) {
	if t.Now != nil {
		p.clock.bound.Store(&t.Now)
	}
	p.offer.Store(t)
}

// progress is where the training stands, nil if nobody says.
func (p *Processor) progress() *outputs.Progress {
	if t := p.offer.Load(); t != nil {
		return t.Progress
	}
	return nil
}

// Stats implements outputs.Output.
func (p *Processor) Stats() outputs.Stats {
	s := p.Writer().Stats()
	return outputs.Stats{File: outputs.FileStats{
		Output: "trace", Records: int64(s.Lines), Bytes: int64(s.DiskBytes), Lost: int64(s.Lost + s.Late),
		Errors: int64(s.Errors), Blocked: s.Blocked,
	}}
}

// OnStart implements sdktrace.SpanProcessor.
func (p *Processor) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	if p == nil || p.closed.Load() {
		return
	}
	if p.offer.Load() == nil {
		// A decorator that shows only the span processor was attached.
		if t := outputs.FromContext(ctx); t != nil {
			p.attached(t)
			p.scoped.Store(true) // nobody asks it for kinds of scopes
		}
	}
	e := &spanEntry{span: s, spanID: s.SpanContext().SpanID()}
	e.id = p.w.NextID()
	at := p.progress()
	e.epoch, e.step = at.Epoch(), at.Step()
	start := s.StartTime().UnixMicro()
	above := s.Parent()
	parent := p.parentOf(ctx, above)
	if parent != nil || !above.IsRemote() {
		parent = p.innermost(parent, start)
	}
	e.beginBelow(parent, start)
	tid := p.roots.begin(&e.open, parent)
	i := -1
	if !p.opts.NoBegin {
		i = spans.Index(s.Name())
	}
	long := i >= 0 && spans.At(i).Long
	e.begun = long
	if p.scoped.Load() && outputs.IsAmbient(ctx) {
		p.enter(&e.open, parent)
	}
	p.open.add(e)
	if p.closed.Load() { // Shutdown may have missed it
		if !e.finish(&p.beginning) {
			return
		}
		if e.begun && !long { // by the watcher
			p.write(e, s, p.clock.now(), true)
			return
		}
		p.roots.end(&e.open, e.start)
		p.open.remove(e)
		return
	}
	if long {
		p.whileOpen(&e.open, func() {
			p.begin(&e.open, &p.keys.standard[i], tid, e.epoch, e.step, s.Attributes())
		})
	}
}

// parentOf finds the open span or scope that encloses what starts with ctx.
func (p *Processor) parentOf(ctx context.Context, parent trace.SpanContext) *open {
	var sc *scope
	if p.direct.Load() {
		if sc, _ = ctx.Value(p).(*scope); sc != nil && sc.outer == parent.SpanID() {
			// No span was started between the scope and here.
			return sc.alive()
		}
	}
	if !parent.HasSpanID() || parent.IsRemote() {
		return nil
	}
	if e := p.open.find(parent.SpanID()); e != nil {
		return e.alive()
	}
	if sc != nil { // the span between was not recorded
		return sc.alive()
	}
	return nil
}

// OnEnd implements sdktrace.SpanProcessor.
func (p *Processor) OnEnd(s sdktrace.ReadOnlySpan) {
	if p == nil {
		return
	}
	e := p.open.find(s.SpanContext().SpanID())
	if e == nil {
		if !p.closed.Load() {
			p.orphans.Add(1)
		}
		return
	}
	if e.finish(&p.beginning) {
		p.write(e, s, s.EndTime().UnixMicro(), p.cut.Load() && has(s.Attributes(), argTruncated))
	}
}

// write writes an ended span. The SDK gives either a snapshot or, at
// Shutdown, the span itself.
func (p *Processor) write(e *spanEntry, s sdktrace.ReadOnlySpan, end int64, truncated bool) {
	if e.ambient {
		p.leave(&e.open, truncated)
	}
	end, level, parent := e.settle(end, p.latest)
	at := dftracer.Span{ID: e.id, TID: p.roots.end(&e.open, end), TS: e.start, Dur: end - e.start, Level: level, Parent: parent}
	if truncated {
		p.truncated.Add(1)
	}
	if !p.writeText(e, s, &at, truncated) {
		p.writeArgs(e, s, &at, truncated)
	}
	p.remainingEvents(e, s, at.TID, level)
	p.open.remove(e)
}

// writeText writes a span whose attributes can be encoded one by one, as those
// of nearly all spans can. It writes nothing where it returns false.
func (p *Processor) writeText(e *spanEntry, s sdktrace.ReadOnlySpan, at *dftracer.Span, truncated bool) bool {
	if s.Status().Code != codes.Unset || s.DroppedAttributes() > 0 || len(s.Links()) > 0 {
		return false
	}
	attrs := s.Attributes()
	var stack [stackText]byte
	epoch, step := missingProgress(e.epoch, e.step, attrs)
	text, cat, event, ok := p.args.appendText(appendProgressText(stack[:0], epoch, step), attrs)
	if !ok {
		return false
	}
	if truncated {
		text = appendInt(text, argTruncated, 1)
	}
	if p.opts.TraceIDs {
		sc := s.SpanContext()
		text = appendString(text, argTraceID, sc.TraceID().String())
		text = appendString(text, argSpanID, sc.SpanID().String())
	}
	p.w.WriteEncoded(p.keys.find(s.InstrumentationScope().Name, s.Name(), cat, event), *at, text)
	return true
}

// writeArgs writes any span.
func (p *Processor) writeArgs(e *spanEntry, s sdktrace.ReadOnlySpan, at *dftracer.Span, truncated bool) {
	var stack [stackArgs]dftracer.Arg
	attrs := s.Attributes()
	args := appendProgress(stack[:0], e.epoch, e.step, attrs)
	from := len(args)
	args, cat, event := appendSpan(args, s, attrs)
	if truncated && !has(attrs, argTruncated) {
		args = append(args, dftracer.Int(argTruncated, 1))
	}
	if p.opts.TraceIDs {
		args = appendIDs(args, s)
	}
	distinct(args, from, attrs)
	p.w.WriteComplete(p.keys.find(s.InstrumentationScope().Name, s.Name(), cat, event), *at, args...)
}

// ForceFlush implements sdktrace.SpanProcessor: what was written so far is in
// the file when it returns.
func (p *Processor) ForceFlush(ctx context.Context) error {
	if p == nil || p.closed.Load() {
		return nil
	}
	p.files.flush(0)
	return p.w.FlushContext(ctx)
}

// Shutdown implements sdktrace.SpanProcessor. It writes the spans that are
// still open, flushes the writer and closes it if it is the processor's own.
// Later calls return the same.
func (p *Processor) Shutdown(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.down.Do(func() {
		p.closed.Store(true)
		if p.opts.OwnWriter { // what waits for the disk below ends with ctx too
			defer context.AfterFunc(ctx, func() { _ = p.w.CloseContext(ctx) })()
		}
		p.EndScopes()
		p.unwatch()
		p.truncate()
		p.settled(ctx)
		var args []dftracer.Arg
		if n := p.truncated.Load(); n > 0 {
			args = append(args, dftracer.Int("spans_truncated", n))
		}
		if n := p.orphans.Load(); n > 0 {
			args = append(args, dftracer.Int("spans_lost", n))
		}
		args = append(args, p.drops()...)
		if len(args) > 0 {
			p.w.SetEndArgs(args...)
		}
		last := p.w.FlushContext
		if p.opts.OwnWriter {
			last = p.w.CloseContext
		}
		p.downErr = last(ctx)
	})
	return p.downErr
}
