package telemetry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/active"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Provider is configured telemetry. Start its spans with [Provider.Start], and
// call [Provider.Shutdown] once at the end of the program.
//
// A nil Provider does nothing, and neither does one that is disabled for this
// rank. All methods are safe for concurrent use.
type Provider struct {
	rec      *Recorder
	hub      *dispatch.Hub
	sdk      *sdktrace.TracerProvider // nil if disabled
	apart    *sdktrace.TracerProvider // for spans that the recorder does not have; nil if disabled
	progress *outputs.Progress
	unused   []Output // of a rank that is off
	scopes   *scopePlan
	losses   *losses
	closers  []func() error // called after everything else has ended
	timeout  time.Duration
	life     lifetime
	down     lifetime
}

// Start starts a standard span, one of the names in package spans, and returns
// the context that carries it: the usual way to record a part of the training.
// What starts with that context nests below. End the span with [Span.End] or
// [Span.EndErr].
//
// Spans that need more than a name take an option: [LoopStart] for
// spans.TrainingLoop, [Epoch] for spans.Epoch, [SaveStart] for
// spans.CheckpointSave, [Finalization] for spans.CheckpointSaveFinalization. A
// [Start] gives any span a time and attributes.
//
// Start returns no error, so that training continues: a refused start is
// reported by [Span.Err], in the log and to the outputs.
//
// The end of spans.Application ends the recording: spans that are still open
// are stopped, and the outputs are closed or, if one sends over a network,
// flushed.
func (p *Provider) Start(ctx context.Context, span string, options ...StartOption) (context.Context, *Span) {
	if p == nil {
		return ctx, nil
	}
	return p.rec.scope(ctx, span, options)
}

// Run is [Provider.Start] around a function: it runs fn inside a standard span and
// returns its error unchanged. An error or a panic of fn is recorded.
func (p *Provider) Run(ctx context.Context, span string, fn func(context.Context) error, options ...StartOption) error {
	ctx, s := p.Start(ctx, span, options...)
	return runIn(ctx, s, fn)
}

// StartSpan is [Provider.Start] for a name of your own, such as "tokenize". Any number
// of spans of one name may be open. A span with a standard name keeps its meaning in the
// trace file and changes no training state: it counts no iteration and starts no epoch.
func (p *Provider) StartSpan(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, *Span) {
	if p == nil || p.rec.idle(name) {
		return ctx, nil
	}
	return p.rec.span(ctx, name, SpanStart{Attributes: attributes.From(attrs...)}, false)
}

// StartSpanWith is [Provider.StartSpan] with a time, a parent and attributes of
// the start event. A parent in start takes precedence over the span in ctx.
func (p *Provider) StartSpanWith(ctx context.Context, name string, start SpanStart) (context.Context, *Span) {
	if p == nil {
		return ctx, nil
	}
	return p.rec.span(ctx, name, start, false)
}

// TimedSpan is [Provider.StartSpan] around a function: it runs fn inside a span of a
// name of your own and returns its error unchanged. An error or a panic of fn is
// recorded.
func (p *Provider) TimedSpan(ctx context.Context, name string, fn func(context.Context) error, attrs ...attribute.KeyValue) error {
	ctx, s := p.StartSpan(ctx, name, attrs...)
	return runIn(ctx, s, fn)
}

// Enabled reports whether telemetry is recorded: p is not nil, is on for this rank, and
// was neither shut down nor disabled.
func (p *Provider) Enabled() bool { return p != nil && p.rec.why() == nil }

// TracerProvider returns a tracer provider for otel.SetTracerProvider and for
// instrumentation libraries. Its spans reach every output. They nest below the
// span of their context or, without one, below the span that a callback opened
// last.
func (p *Provider) TracerProvider() trace.TracerProvider {
	if p == nil {
		return noop.NewTracerProvider()
	}
	return p.rec.otel.tracers
}

// Tracer returns TracerProvider().Tracer(name, options...).
func (p *Provider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return p.TracerProvider().Tracer(name, options...)
}

// Config returns a copy of the configuration in force. Its Training is nil as long as
// the training configuration is unknown. It is zero for a nil Provider.
func (p *Provider) Config() config.Base {
	if p == nil {
		return config.Base{}
	}
	c := config.Clone(&p.rec.base)
	if t := p.rec.training.Load(); t != nil {
		own := config.Clone(t)
		c.Training = &own
	}
	return c
}

// ForceDisable switches telemetry off for the rest of the process's life. Recorded data
// is written and every output is closed, in the background if one sends over a network.
func (p *Provider) ForceDisable() {
	if p != nil {
		p.rec.disable()
	}
}

// ForceFlush writes and sends what the outputs hold in memory, until ctx is done.
func (p *Provider) ForceFlush(ctx context.Context) error {
	if p == nil || p.sdk == nil {
		return nil
	}
	return p.hub.ForceFlush(orBackground(ctx))
}

// Shutdown stops the spans that are still open, writes and sends everything, and closes
// every output. The error joins the errors of the outputs.
//
// It returns by the deadline of ctx, and after the shutdown timeout (5 s unless
// WithShutdownTimeout sets it) at the latest, even if an output stalls. If ctx is
// already done, as in a program that was interrupted, Shutdown has the whole timeout.
// Later and concurrent calls return the same result, or an error if their time ends
// first; what starts afterwards is not recorded.
func (p *Provider) Shutdown(ctx context.Context) error {
	if p == nil {
		return nil
	}
	ctx, cancel := p.deadline(orBackground(ctx))
	defer cancel()
	return p.life.end(ctx, func() error {
		if p.sdk != nil {
			active.Leave()
		}
		err := errors.Join(dispatch.StopAll(ctx, func() { p.rec.stopAll(ErrClosed) }), p.finish(ctx))
		for _, closer := range p.closers {
			err = errors.Join(err, closer())
		}
		return err
	})
}

// Stats returns the counts so far, zero for a nil Provider.
func (p *Provider) Stats() Stats {
	if p == nil {
		return Stats{}
	}
	return statsOf(p.rec, p.hub)
}

// Progress returns the current epoch and step, which new events get. The starts
// of epochs and iterations set it. A program sets it if an event belongs to
// another step, such as the wait for the next batch. It is nil for a nil
// Provider, and a nil Progress does nothing.
func (p *Provider) Progress() *outputs.Progress {
	if p == nil {
		return nil
	}
	return p.progress
}

// Recorder returns the recorder that package callbacks uses, for integrations
// that replay what another process has recorded. It is nil for a nil Provider.
// Programs that train use [Provider.Start] or package callbacks.
func (p *Provider) Recorder() *Recorder {
	if p == nil {
		return nil
	}
	return p.rec
}

// orBackground returns ctx, or the background in place of nil.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// deadline returns a context with the time for Shutdown.
func (p *Provider) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	at := time.Now().Add(p.timeout)
	if end, ok := ctx.Deadline(); ok && ctx.Err() == nil && end.Before(at) {
		at = end
	}
	return context.WithDeadline(context.WithoutCancel(ctx), at)
}

// finish ends all outputs, once.
func (p *Provider) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.down.end(ctx, func() error {
		if p.sdk == nil {
			return dispatch.Discard(ctx, p.unused)
		}
		return errors.Join(p.hub.End(ctx, p.losses.report), p.sdk.Shutdown(ctx), p.apart.Shutdown(ctx))
	})
}

// endScopes ends the scopes that are not spans of the recorder, while the spans
// around them are open.
func (p *Provider) endScopes() {
	p.hub.EndScopes()
}

// closing is called by the recorder at the end of the application: outputs are
// closed, as in one-logger, unless something is sent over a network; then they
// are flushed and stay open for the report of losses.
func (p *Provider) closing(ctx context.Context) error {
	ctx = context.WithoutCancel(orBackground(ctx))
	if p.hub.Network() != 0 {
		ctx, cancel := context.WithTimeout(ctx, p.timeout/10) // Shutdown, which follows, has the whole timeout
		defer cancel()
		return p.hub.Flush(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.finish(ctx)
}

var defaultProvider atomic.Pointer[Provider]

// Default returns the provider of the process, nil before SetDefault.
func Default() *Provider { return defaultProvider.Load() }

// SetDefault makes p the provider of the process, which callbacks.Default and the nodes
// of package ai use, and returns a function that restores the previous one.
// trainspan.Start calls it.
func SetDefault(p *Provider) (undo func()) {
	before := defaultProvider.Swap(p)
	return func() { defaultProvider.CompareAndSwap(p, before) }
}
