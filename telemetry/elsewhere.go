package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/vocab"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Elsewhere starts spans of one category and name that another program has
// recorded, see [Provider.Elsewhere].
type Elsewhere struct {
	plan  *scopePlan
	name  string
	named []attribute.KeyValue
	route outputs.Route
}

// Elsewhere prepares spans of a DFTracer category and name that another program
// has recorded and that are in its files already: of the outputs only those on a
// network get them, each what its filter asks for, see [SentName]. It is nil where
// none wants them.
func (p *Provider) Elsewhere(category, name string) *Elsewhere {
	if p == nil || p.scopes == nil {
		return nil
	}
	e := &Elsewhere{plan: p.scopes, route: outputs.Route{}}
	wanted := false
	for i := range e.plan.outputs {
		o := &e.plan.outputs[i]
		own, ok := SentName(&o.export, category, name)
		ok = ok && o.Network
		e.name, wanted, e.route[o.Selection] = own, wanted || ok, ok
	}
	if !wanted {
		return nil
	}
	p.hub.SendOnly()
	if e.name == vocab.ScopeName(category, name) {
		e.named = []attribute.KeyValue{attribute.String(spans.AttrCategory, category), attribute.String(spans.AttrName, name)}
	}
	return e
}

// Start starts a span at a time, below the span of ctx or, without one, below
// what callbacks have open. The context that is returned carries it. A span is nil
// where nothing is recorded any more; its end is given a time too.
func (k *Elsewhere) Start(ctx context.Context, at time.Time, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	inner, s := k.plan.rec.span(outputs.SentOnly(outputs.WithRoute(ctx, k.route)), k.name, SpanStart{
		Time: at, Attributes: attributes.From(slices.Concat(k.named, attrs)...),
	}, true)
	if s == nil {
		return ctx, nil
	}
	span := trace.SpanFromContext(inner)
	return trace.ContextWithSpan(ctx, span), span
}

// SentName is the name under which a span of a DFTracer category and name is sent,
// and whether an export customization lets it through: the standard span's name, that
// of a span of the program's own for what is in [customCategory], and for any other
// the one that scopes of package ai have. The default customization lets through what
// it does of a Go program: standard spans but those of single iterations, the
// program's own, and no scopes. A list names spans as for [Provider.ScopeKind].
func SentName(e *config.Export, category, name string) (string, bool) {
	own, plain := vocab.ScopeName(category, name), true
	if info, ok := vocab.ByEvent(category, name); ok {
		own = info.Name
	} else if category == customCategory {
		own = name
	} else {
		plain = false
	}
	if e.UsesDefaultNames() {
		return own, plain && !slices.Contains(spans.DefaultBlacklist(), own)
	}
	_, ok := exportName(e, category, name)
	return own, ok
}

// customCategory is the category in trace files of spans that a program starts by
// [Provider.StartSpan] under a name of its own.
const customCategory = "telemetry"
