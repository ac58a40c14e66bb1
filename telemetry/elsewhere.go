package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/settings"
	"github.com/trainspan/trainspan/internal/spancontext"
	"github.com/trainspan/trainspan/internal/vocab"
	"github.com/trainspan/trainspan/spans"
)

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
