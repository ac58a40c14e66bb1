package delivery

import (
	"context"
	"errors"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Processor is a span processor for one exporter: a [Queue] of spans. Create it
// with [New]; a nil Processor does nothing. It is safe for concurrent use.
type Processor struct {
	queue *Queue[sdktrace.ReadOnlySpan]
}

var _ sdktrace.SpanProcessor = (*Processor)(nil)

// New returns a processor that feeds e, and starts its goroutines, which
// Shutdown ends. Options are copied; nil means none.
func New(e sdktrace.SpanExporter, options *Options) *Processor {
	var o Options
	if options != nil {
		o = *options
	}
	if t, ok := e.(Tuner); ok {
		o = o.or(t.Delivery())
	} else {
		o = o.or(fromEnv(o.LookupEnv))
	}
	sink := Sink[sdktrace.ReadOnlySpan]{Unit: "spans", Export: e.ExportSpans, Clean: o.Clean, Close: e.Shutdown}
	if spill := o.Spill; spill != nil {
		sink.Keep = spill.Keep
		sink.Close = func(ctx context.Context) error {
			kept := spill.Close() // this does not wait for the backend
			return errors.Join(guard(func() error { return e.Shutdown(ctx) }), kept)
		}
	}
	return &Processor{NewQueue(sink, &o)}
}

// OnStart does nothing.
func (p *Processor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd queues a sampled span, or counts it as dropped. It never waits for the
// exporter.
func (p *Processor) OnEnd(s sdktrace.ReadOnlySpan) {
	if p != nil && s.SpanContext().IsSampled() {
		p.Put(s)
	}
}

// Put is OnEnd for a span that is known to be sampled.
func (p *Processor) Put(s sdktrace.ReadOnlySpan) {
	size, repaired := sizeOf(s), 0
	if size > largeItem {
		if s, repaired = p.queue.clean(s); repaired > 0 {
			size = sizeOf(s)
		}
	}
	p.queue.put(s, size, repaired)
}

// Stats returns the current counts.
func (p *Processor) Stats() Stats {
	if p == nil {
		return Stats{}
	}
	return p.queue.Stats()
}

// ForceFlush sends the waiting spans, and returns when their result is known or
// ctx is done. The error is that of ctx, or reports that spans were lost
// meanwhile.
func (p *Processor) ForceFlush(ctx context.Context) error {
	if p == nil {
		return nil
	}
	before := p.Stats()
	if err := p.queue.Flush(ctx); err != nil {
		return err
	}
	after := p.Stats()
	if lost := after.DroppedTotal() - before.DroppedTotal(); lost > 0 {
		return fmt.Errorf("delivery: %d spans were lost: %w", lost, after.lastError())
	}
	return nil
}

// Shutdown calls [Queue.Shutdown], which also shuts the exporter and the spill
// down.
func (p *Processor) Shutdown(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.queue.Shutdown(ctx)
}
