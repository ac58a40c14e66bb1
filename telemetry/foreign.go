package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/record/spancontext"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// The log handler and the clock are the program's. A panic of theirs must not
// reach the training loop, and must not end what telemetry is doing.

// calmHandler is a handler whose panics lose a message and nothing else.
type calmHandler struct{ slog.Handler }

func calm(l *slog.Logger) *slog.Logger {
	if _, ok := l.Handler().(calmHandler); ok {
		return l
	}
	return slog.New(calmHandler{l.Handler()})
}

func (h calmHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

func (h calmHandler) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return h.Handler.Handle(ctx, r)
}

func (h calmHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return calmHandler{h.Handler.WithAttrs(attrs)}
}

func (h calmHandler) WithGroup(name string) slog.Handler {
	return calmHandler{h.Handler.WithGroup(name)}
}

// levelHandler hides messages below a level.
type levelHandler struct {
	slog.Handler
	level slog.Level
}

func (h *levelHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

func (h *levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &levelHandler{h.Handler.WithAttrs(attrs), h.level}
}

func (h *levelHandler) WithGroup(name string) slog.Handler {
	return &levelHandler{h.Handler.WithGroup(name), h.level}
}

// Elsewhere returns what starts spans of a DFTracer category and name that another
// program has recorded and that are in its files already: of the outputs only those
// on a network get them, each what its filter asks for. It is nil where none wants
// them.
//
// A span starts at a time, below the span of ctx or, without one, below what
// callbacks have open. The context that is returned carries it. A span is nil where
// nothing is recorded any more; its end is given a time too.
func (p *Provider) Elsewhere(category, name string) func(ctx context.Context, at time.Time, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	if p == nil || p.scopes == nil {
		return nil
	}
	plan, route := p.scopes, spancontext.Route{}
	wanted, as := false, ""
	for i := range plan.outputs {
		o := &plan.outputs[i]
		own, ok := settings.SentName(&o.export, category, name)
		ok = ok && o.Network
		as, wanted, route[o.Selection] = own, wanted || ok, ok
	}
	if !wanted {
		return nil
	}
	p.hub.SendOnly()
	var named []attribute.KeyValue
	if as == vocab.ScopeName(category, name) {
		named = []attribute.KeyValue{attribute.String(spans.AttrCategory, category), attribute.String(spans.AttrName, name)}
	}
	return func(ctx context.Context, at time.Time, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
		inner, s := plan.rec.span(spancontext.SentOnly(spancontext.WithRoute(ctx, route)), as, SpanStart{
			Time: at, Attributes: attributes.From(slices.Concat(named, attrs)...),
		}, true)
		if s == nil {
			return ctx, nil
		}
		span := trace.SpanFromContext(inner)
		return trace.ContextWithSpan(ctx, span), span
	}
}
