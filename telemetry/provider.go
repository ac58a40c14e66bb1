package telemetry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/active"
	"github.com/trainspan/trainspan/internal/record/direct"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Provider is configured telemetry: it owns the recorder, the OpenTelemetry
// tracer provider and the outputs. A nil Provider does nothing, and so does
// one that is disabled for this rank. All methods are safe for concurrent use.
type Provider struct {
	rec      *Recorder
	hub      *dispatch.Hub
	sdk      *sdktrace.TracerProvider // nil when disabled
	progress *outputs.Progress
	unused   []Output // of a rank that is off
	scopes   *scopePlan
	losses   *losses
	closers  []func() error // what ends when everything else has
	timeout  time.Duration
	life     lifetime
	down     lifetime
}

// Start starts a standard span, a name of package spans, and gives the context
// that carries it. What some spans need to know is an option of a type of its
// own: [LoopStart] for spans.TrainingLoop, [Epoch] for spans.Epoch,
// [SaveStart] for spans.CheckpointSave, [Finalization] for
// spans.CheckpointSaveFinalization; a [Start] gives any span a time and
// attributes. What is wrong with a start is in [Span.Err], in the log and in
// the outputs; the program goes on.
//
// The end of spans.Application ends the recording: what is still open is
// stopped, and the outputs are closed or, where something is sent over a
// network, flushed.
func (p *Provider) Start(ctx context.Context, span string, options ...StartOption) (context.Context, *Span) {
	if p == nil {
		return ctx, nil
	}
	return p.rec.scope(ctx, span, options)
}

// Run runs fn inside a standard span and returns its error unchanged. An error
// or a panic is recorded.
func (p *Provider) Run(ctx context.Context, span string, fn func(context.Context) error, options ...StartOption) error {
	ctx, s := p.Start(ctx, span, options...)
	return runIn(ctx, s, fn)
}

// StartSpan starts a span of any name, any number of times at once. A standard
// name keeps its meaning in the trace file, but moves no training state.
func (p *Provider) StartSpan(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, *Span) {
	if p == nil {
		return ctx, nil
	}
	return p.rec.span(ctx, name, SpanStart{Attributes: attributes.From(attrs...)}, false)
}

// StartSpanWith is StartSpan with everything that can be said of a start. A
// parent that is given wins over the context.
func (p *Provider) StartSpanWith(ctx context.Context, name string, start SpanStart) (context.Context, *Span) {
	if p == nil {
		return ctx, nil
	}
	return p.rec.span(ctx, name, start, false)
}

// TimedSpan runs fn inside a span of any name and returns its error unchanged.
func (p *Provider) TimedSpan(ctx context.Context, name string, fn func(context.Context) error, attrs ...attribute.KeyValue) error {
	ctx, s := p.StartSpan(ctx, name, attrs...)
	return runIn(ctx, s, fn)
}

// Recorder returns what package callbacks and the replay of Python processes record
// with, nil for a nil provider. Its type is no part of the API.
func (p *Provider) Recorder() *Recorder {
	if p == nil {
		return nil
	}
	return p.rec
}

// Enabled reports whether telemetry is recorded: the provider is configured, on
// for this rank, not shut down and not disabled.
func (p *Provider) Enabled() bool { return p != nil && p.rec.why() == nil }

// TracerProvider returns the OpenTelemetry tracer provider of this telemetry.
// Spans that are made with it reach every output, and nest under the spans
// of callbacks and scopes: under the span of their context, and without one
// under the span that a callback opened last. Use it with otel.SetTracerProvider
// or give it to instrumentation libraries.
func (p *Provider) TracerProvider() trace.TracerProvider {
	if p == nil {
		return noop.NewTracerProvider()
	}
	return p.rec.otel.tracers
}

// Tracer is TracerProvider().Tracer(name, options...).
func (p *Provider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return p.TracerProvider().Tracer(name, options...)
}

// Progress is where the training stands. Setting it sets what events report.
func (p *Provider) Progress() *outputs.Progress {
	if p == nil {
		return nil
	}
	return p.progress
}

// Config returns a copy of the configuration in force. Its Training is nil while
// the training configuration is not known.
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

// ForceDisable switches telemetry off for the rest of the process's life. What
// was recorded is written and every output is closed.
func (p *Provider) ForceDisable() {
	if p != nil {
		p.rec.disable()
	}
}

// ForceFlush writes and sends what the outputs hold back, until ctx is done.
func (p *Provider) ForceFlush(ctx context.Context) error {
	if p == nil || p.sdk == nil {
		return nil
	}
	return p.hub.ForceFlush(ctx)
}

// Shutdown stops the spans that are still open, writes and sends everything,
// and closes every output. It returns by the deadline of ctx, and after the
// shutdown timeout at the latest, whatever stalls. A context that is done
// already says nothing of the time that is left, as in a program that was
// interrupted: Shutdown then has the whole timeout. Later and concurrent calls
// give the same result; callbacks after it do nothing.
func (p *Provider) Shutdown(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.life.end(func() error {
		ctx, cancel := p.deadline(ctx)
		defer cancel()
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

// Stats returns the counts of this moment.
func (p *Provider) Stats() Stats {
	if p == nil {
		return Stats{}
	}
	return statsOf(p.rec, p.hub)
}

// ScopeKind prepares scopes of a DFTracer category and name, as this provider
// records them: as OpenTelemetry spans that exporters get too when the filter
// of one asks for them, otherwise by the cheapest way that reaches every local
// output. It is nil when nobody wants them.
//
// Each output gets the scopes that its own filter asks for. The default
// customization asks for none; ExportAll asks for all; a list asks by
// "category.name", by the name alone, or by the standard span that has this
// category and name in the table of package spans.
func (p *Provider) ScopeKind(category, name string) direct.ScopeKind {
	if p == nil || p.scopes == nil {
		return nil
	}
	return p.scopes.kind(category, name)
}

// deadline returns a context with the time that Shutdown has.
func (p *Provider) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	at := time.Now().Add(p.timeout)
	if end, ok := ctx.Deadline(); ok && ctx.Err() == nil && end.Before(at) {
		at = end
	}
	return context.WithDeadline(context.WithoutCancel(ctx), at)
}

// finish ends, once, all outputs.
func (p *Provider) finish(ctx context.Context) error {
	return p.down.end(func() error {
		ctx, cancel := context.WithTimeout(ctx, p.timeout)
		defer cancel()
		if p.sdk == nil {
			return dispatch.Discard(ctx, p.unused)
		}
		return errors.Join(p.hub.End(ctx, p.losses.report), p.sdk.Shutdown(ctx))
	})
}

// endScopes ends the scopes that are no spans of the recorder, while the spans
// around them are open.
func (p *Provider) endScopes() {
	p.scopes.abandon()
	p.hub.EndScopes()
}

// closing is called by the recorder at the end of the application: outputs are
// closed as the reference does, unless something is sent over a network; then
// they stay open to be told what got lost, and are flushed.
func (p *Provider) closing(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if p.hub.Networked() {
		ctx, cancel := context.WithTimeout(ctx, p.timeout/10) // Shutdown, which follows, has all of it
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

// SetDefault makes p the provider of the process, which package callbacks
// uses, and returns a function that restores the one before.
func SetDefault(p *Provider) (undo func()) {
	before := defaultProvider.Swap(p)
	return func() { defaultProvider.CompareAndSwap(p, before) }
}
