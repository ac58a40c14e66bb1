package dispatch

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Source records what the OpenTelemetry API cannot express, for the packages of this
// module. The tracer provider of a telemetry.Provider implements it; [SourceOf] finds
// it. Its methods are called concurrently.
type Source interface {
	// ScopeKind returns the kind for scopes of a DFTracer category and name:
	// OpenTelemetry spans if the filter of an exporter selects them, otherwise the
	// cheapest form that reaches every local output. It is nil if no output wants them.
	//
	// Each output gets the scopes that its own filter selects. The default customization
	// selects none; ExportAll selects all; a list selects by "category.name", by the
	// name alone, or by the standard span that has this category and name in the table
	// of package spans.
	ScopeKind(category, name string) ScopeKind

	// FileLog returns the recorder of file calls. It is nil if no output wants them; a
	// trace file does unless its options disable them.
	FileLog() FileLog

	// Sender returns a function that starts spans of a DFTracer category and name that
	// another program has recorded and already written to its files: only network
	// outputs get them, each what its filter selects. It is nil if no network output
	// wants them.
	Sender(category, name string) Sender
}

// Sender starts a span at the given time. Its parent is the span in ctx or, without one,
// the span that callbacks have open. The returned context carries the span. The span is
// nil after the end of recording. The caller ends it with an explicit time too.
type Sender func(ctx context.Context, at time.Time, attrs ...attribute.KeyValue) (context.Context, trace.Span)

// SourceOf returns the source behind a tracer provider. For a provider without one, such
// as nil or a disabled one, it returns a source that records nothing.
func SourceOf(tp trace.TracerProvider) Source {
	if s, ok := tp.(Source); ok {
		return s
	}
	return nothing{}
}

// attachedKey is the context key of the output that is being opened.
type attachedKey struct{}

// OfferScopes registers the recorders of an output that records scopes or file calls
// itself; either may be nil. The output calls it in Open, with the context of Open,
// which reaches an output behind decorators too. Other outputs get the scopes that their
// filter selects as spans.
func OfferScopes(ctx context.Context, scopes Scopes, files FileLog) {
	if a, ok := ctx.Value(attachedKey{}).(*attached); ok {
		a.scopes, a.files = scopes, files
	}
}

// nothing is the source of a disabled provider.
type nothing struct{}

// ScopeKind implements [Source].
func (nothing) ScopeKind(string, string) ScopeKind { return nil }

// FileLog implements [Source].
func (nothing) FileLog() FileLog { return nil }

// Sender implements [Source].
func (nothing) Sender(string, string) Sender { return nil }
