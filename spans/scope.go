package spans

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/attributes"
)

// Attributes by which an OpenTelemetry span says what it is called in a trace
// file. They are no arguments there.
const (
	AttrCategory = "dftracer.cat"
	AttrName     = "dftracer.name"
)

// ScopeArgs are arguments that scopes of one kind share. They are never
// changed once a scope was started with them; nil means there are none.
type ScopeArgs struct {
	// Epoch and Step win over those of [Progress].
	Epoch, Step attributes.Opt[int64]
	// Attrs follow in the order given. Keys do not repeat.
	Attrs []attribute.KeyValue
}

// ScopeKind starts scopes of one category and name: what the two ends of the
// direct way between package ai and a trace writer agree upon.
type ScopeKind interface {
	// Start starts a scope below ctx. count is written as the argument
	// "count" when it is positive. The result is nil when nothing is recorded
	// any more. It is called concurrently.
	Start(ctx context.Context, args *ScopeArgs, count int64) Scope
	// Record records a scope that began at start and ends now. Nothing can have
	// been started below it.
	Record(ctx context.Context, args *ScopeArgs, count int64, start time.Time)
	// Note writes a piece of metadata at once: a key and the time of now in
	// microseconds since the Unix epoch.
	Note(ctx context.Context, key string)
}

// Scope is a running scope.
type Scope interface {
	// Context is the context the scope was started with, carrying the scope:
	// what is started with it nests below.
	Context() context.Context
	// Set adds arguments; a known key gets the new value. The scope may keep
	// the slice.
	Set(attrs []attribute.KeyValue)
	// End ends the scope; err is why it failed, if it did. A second call does
	// nothing.
	End(err error)
}
