package pfw

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
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
	w     *dftracer.Writer
	opts  Options
	lanes *dftracer.Lanes
	roots *roots
	keys  keyTable
	open  registry
	clock clock

	progress atomic.Pointer[spans.Progress]
	ambient  atomic.Pointer[func() trace.SpanContext]
	direct   atomic.Bool // a scope was started

	stop      chan struct{} // nil when nobody watches
	watcher   sync.WaitGroup
	beginning sync.Mutex // held by the watcher while it writes a begin

	closed    atomic.Bool
	down      sync.Once
	downErr   error
	truncated atomic.Int64
	orphans   atomic.Int64 // ends of spans whose start was not seen
	dropped   atomic.Pointer[map[string]int64]
}

var _ sdktrace.SpanProcessor = (*Processor)(nil)

// spanEntry is an open span.
type spanEntry struct {
	open
	spanID trace.SpanID
	span   sdktrace.ReadWriteSpan // nil once it has ended
}

// NewProcessor makes a processor that writes to w. Shutdown flushes w, and
// closes it only if the options say so. Unless they say NoBegin, it starts a
// goroutine that Shutdown ends.
func NewProcessor(w *dftracer.Writer, o *Options) *Processor {
	p := &Processor{w: w, opts: o.withDefaults(), clock: newClock()}
	p.keys.standard = standardKeys()
	p.lanes = dftracer.NewLanes(int64(os.Getpid()))
	p.roots = newRoots(p.lanes)
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

// FileStats gives the counts of the writer. Package telemetry reports them as
// metrics.
func (p *Processor) FileStats() spans.FileStats {
	s := p.Writer().Stats()
	return spans.FileStats{
		Output: "trace", Records: int64(s.Lines), Bytes: int64(s.DiskBytes), Lost: int64(s.Lost + s.Late),
		Errors: int64(s.Errors), Blocked: s.Blocked,
	}
}

// BindProgress makes the processor write the epoch and step of progress into
// events. Package telemetry calls it.
func (p *Processor) BindProgress(progress *spans.Progress) {
	if p != nil {
		p.progress.Store(progress)
	}
}

// BindAmbient gives the processor the function that finds the parent of scopes
// whose context carries none. Package telemetry calls it.
func (p *Processor) BindAmbient(current func() trace.SpanContext) {
	if p != nil {
		p.ambient.Store(&current)
	}
}

// OnStart implements sdktrace.SpanProcessor.
func (p *Processor) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	if p == nil || p.closed.Load() {
		return
	}
	e := &spanEntry{span: s, spanID: s.SpanContext().SpanID()}
	e.id = p.w.NextID()
	at := p.progress.Load()
	e.epoch, e.step = at.Epoch(), at.Step()
	parent := p.parentOf(ctx, s.Parent())
	e.beginBelow(parent, s.StartTime().UnixMicro())
	tid := p.roots.begin(&e.open, parent)
	if p.opts.NoBegin {
		p.open.add(e)
		return
	}
	i := spans.Index(s.Name())
	long := i >= 0 && spans.At(i).Long
	e.begun = long
	p.open.add(e)
	if long {
		p.begin(&e.open, &p.keys.standard[i], tid, s.Attributes())
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
	e := p.open.remove(s.SpanContext().SpanID())
	if e == nil {
		if !p.closed.Load() {
			p.orphans.Add(1)
		}
		return
	}
	if e.finish(&p.beginning) {
		e.span = nil // the registry may keep e for a while
		p.write(e, s, s.EndTime().UnixMicro(), false)
	}
}

// write writes an ended span. The SDK gives either a snapshot or, at
// Shutdown, the span itself.
func (p *Processor) write(e *spanEntry, s sdktrace.ReadOnlySpan, end int64, truncated bool) {
	var stack [stackArgs]dftracer.Arg
	end, level, parent := e.settle(end, p.latest)
	tid := p.roots.end(&e.open, end)

	attrs := s.Attributes()
	args := appendProgress(stack[:0], e.epoch, e.step, attrs)
	args, cat, event := appendSpan(args, s, attrs)
	if truncated {
		args = append(args, dftracer.Int(argTruncated, 1))
	}
	if p.opts.TraceIDs {
		args = appendIDs(args, s)
	}
	key := p.keys.find(s.InstrumentationScope().Name, s.Name(), cat, event)
	p.w.WriteComplete(key, dftracer.Span{
		ID: e.id, TID: tid, TS: e.start, Dur: end - e.start, Level: level, Parent: parent,
	}, args...)
	p.remainingEvents(e, s, tid, level)
}

// ForceFlush implements sdktrace.SpanProcessor: what was written so far is in
// the file when it returns.
func (p *Processor) ForceFlush(ctx context.Context) error {
	if p == nil || p.closed.Load() {
		return nil
	}
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
		p.unwatch()
		p.truncate()
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

// truncate writes what is still open, children first.
func (p *Processor) truncate() {
	type left struct {
		*open
		write func(end int64)
		depth int
	}
	var all []left
	for _, e := range p.open.allSpans() {
		all = append(all, left{&e.open, func(end int64) {
			p.open.remove(e.spanID)
			p.write(e, e.span, end, true)
		}, e.level()})
	}
	for _, sc := range p.open.allScopes() {
		all = append(all, left{&sc.open, func(end int64) { sc.write(end, nil, true) }, sc.level()})
	}
	slices.SortFunc(all, func(a, b left) int {
		return cmp.Or(cmp.Compare(b.depth, a.depth), cmp.Compare(b.id, a.id))
	})
	now := p.clock.now()
	for _, l := range all {
		if l.finish(&p.beginning) {
			l.write(now)
			p.truncated.Add(1)
		}
	}
}

// latest is the latest end of a child that is believed.
func (p *Processor) latest() int64 { return p.clock.now() + slack }

// clock tells wall-clock microseconds by the monotonic clock, so that time
// never goes back.
type clock struct {
	base time.Time
	wall int64 // nanoseconds
}

// newClock takes the best of some readings: Go reads the wall clock before the
// monotonic one, and a pause between the two would shift every time.
func newClock() clock {
	first := time.Now()
	best, ahead := first, time.Duration(0)
	for range 8 {
		t := time.Now()
		if d := t.Round(0).Sub(first.Round(0)) - t.Sub(first); d > ahead {
			best, ahead = t, d
		}
	}
	return clock{base: best, wall: best.UnixNano()}
}

func (c *clock) now() int64 { return (c.wall + int64(time.Since(c.base))) / 1000 }

// at is the time of t, which time.Now gave.
func (c *clock) at(t time.Time) int64 { return (c.wall + int64(t.Sub(c.base))) / 1000 }
