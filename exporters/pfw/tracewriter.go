package pfw

import (
	"context"
	"os"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// traceWriter is shared by spans, scopes and file calls. It holds the writer and the
// open spans and scopes.
type traceWriter struct {
	w    *dftracer.Writer
	opts Options

	clock   clock
	roots   *roots
	open    registry
	ambient ambient
	keys    keyTable
	args    argNames

	offer     atomic.Pointer[outputs.Telemetry] // nil if not attached to telemetry
	scoped    atomic.Bool                       // a scope was started
	cut       atomic.Bool                       // no more scopes start
	truncated atomic.Int64
	beginning sync.Mutex // held while a begin record is written
}

// newTraceWriter returns a traceWriter that writes to the writer of the options.
func newTraceWriter(o Options) *traceWriter {
	d := &traceWriter{w: o.Writer, opts: o, roots: newRoots(dftracer.NewLanes(int64(os.Getpid())))}
	d.clock.set()
	d.keys.standard = standardKeys()
	return d
}

func (d *traceWriter) attach(t *outputs.Telemetry) {
	if t.Now != nil {
		d.clock.bound.Store(&t.Now)
	}
	d.offer.Store(t)
}

// progress returns the progress of the training, or nil if it is unknown.
func (d *traceWriter) progress() *outputs.Progress {
	if t := d.offer.Load(); t != nil {
		return t.Progress
	}
	return nil
}

// standing returns the current epoch and step; those of args take precedence.
func (d *traceWriter) standing(args *dispatch.ScopeArgs) (epoch, step int64) {
	at := d.progress()
	if args == nil {
		return at.Epoch(), at.Step()
	}
	return args.Epoch.Or(at.Epoch()), args.Step.Or(at.Step())
}

// parentOf returns the open span or scope around a span that starts with ctx, or nil.
func (d *traceWriter) parentOf(ctx context.Context, parent trace.SpanContext) *open {
	var sc *scopeEntry
	if d.scoped.Load() {
		if sc, _ = ctx.Value(d).(*scopeEntry); sc != nil && (sc.outer == parent.SpanID() || parent.HasSpanID() && sc.outer == trace.SpanContextFromContext(ctx).SpanID()) {
			// No span was started between the scope and here.
			return sc.alive()
		}
	}
	if !parent.HasSpanID() || parent.IsRemote() {
		return nil
	}
	if e := d.open.find(parent.SpanID()); e != nil {
		return e.alive()
	}
	if sc != nil { // the span in between was not recorded
		return sc.alive()
	}
	for s := filter.Around(ctx); s != nil; s = s.Above() { // the parent is not in this file, or has ended
		if e := d.open.find(s.SpanContext().SpanID()); e != nil {
			return e.alive()
		}
	}
	// If the parent is a plain SDK span that has ended, use its parent.
	if ended, ok := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan); ok && ended.SpanContext().SpanID() == parent.SpanID() {
		if above := ended.Parent(); above.HasSpanID() && !above.IsRemote() {
			if e := d.open.find(above.SpanID()); e != nil {
				return e.alive()
			}
		}
	}
	return nil
}

// current returns the open span under which callbacks start their spans, or nil.
func (d *traceWriter) current(outer *trace.SpanID) *open {
	t := d.offer.Load()
	if t == nil || t.Current == nil {
		return nil
	}
	span := t.Current()
	if !span.HasSpanID() {
		return nil
	}
	e := d.open.find(span.SpanID())
	if e == nil {
		return nil
	}
	if !outer.IsValid() {
		*outer = span.SpanID()
	}
	return e.alive()
}
