package direct

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

// Shortcuts are what an output of this module records itself, past OpenTelemetry spans
// and records.
type Shortcuts struct {
	Scopes Scopes  // nil: the output gets selected scopes as spans
	Files  FileLog // nil: it records no calls on files
}

// shortcutsKey is the key of the Shortcuts that an output fills in.
type shortcutsKey struct{}

// AskShortcuts returns the context in which an output is attached, for
// [OfferShortcuts].
func AskShortcuts(ctx context.Context, to *Shortcuts) context.Context {
	return context.WithValue(ctx, shortcutsKey{}, to)
}

// OfferShortcuts is called by an output that is attached with ctx. The context reaches an
// output behind decorators too.
func OfferShortcuts(ctx context.Context, own Shortcuts) {
	if to, ok := ctx.Value(shortcutsKey{}).(*Shortcuts); ok {
		*to = own
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
