package dispatch

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Source records what the OpenTelemetry API has no word for, for the packages of this
// module. The tracer provider of a telemetry.Provider is one; [SourceOf] finds it. Its
// methods are called concurrently.
type Source interface {
	// ScopeKind prepares scopes of a DFTracer category and name: as OpenTelemetry spans
	// if the filter of an exporter asks for them, otherwise by the cheapest way that
	// reaches every local output. It is nil if no output asks for them.
	//
	// Each output gets the scopes that its own filter asks for. The default
	// customization asks for none; ExportAll asks for all; a list asks by
	// "category.name", by the name alone, or by the standard span that has this
	// category and name in the table of package spans.
	ScopeKind(category, name string) ScopeKind

	// FileLog returns what records calls on files. It is nil if no output asks for
	// them; a trace file does unless its options switch them off.
	FileLog() FileLog

	// Sender returns what starts spans of a DFTracer category and name that another
	// program has recorded and that are in its files already: only outputs on a network
	// get them, each what its filter asks for. It is nil if none asks for them.
	Sender(category, name string) Sender
}

// Sender starts a span at a time, below the span of ctx or, without one, below what
// callbacks have open. The context that it returns carries the span. The span is nil if
// nothing is recorded any more; its end is given a time too.
type Sender func(ctx context.Context, at time.Time, attrs ...attribute.KeyValue) (context.Context, trace.Span)

// SourceOf returns the source behind a tracer provider. If there is none, as for a
// provider that is nil or off, it returns one that records nothing.
func SourceOf(tp trace.TracerProvider) Source {
	if s, ok := tp.(Source); ok {
		return s
	}
	return nothing{}
}

// attachedKey is the key of the output that is attached, in the context of its Open.
type attachedKey struct{}

// OfferScopes is called by an output in its Open, with the context of that, if it records
// scopes and calls on files itself; a nil interface stands for neither. The context
// reaches an output behind decorators too. An output that does not offer it gets the
// scopes that its filter asks for as spans.
func OfferScopes(ctx context.Context, scopes Scopes, files FileLog) {
	if a, ok := ctx.Value(attachedKey{}).(*attached); ok {
		a.scopes, a.files = scopes, files
	}
}

// nothing is the source of a provider that is off.
type nothing struct{}

// ScopeKind implements [Source].
func (nothing) ScopeKind(string, string) ScopeKind { return nil }

// FileLog implements [Source].
func (nothing) FileLog() FileLog { return nil }

// Sender implements [Source].
func (nothing) Sender(string, string) Sender { return nil }
