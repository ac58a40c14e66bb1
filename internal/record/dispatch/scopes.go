package dispatch

import (
	"context"
	"sync/atomic"

	"github.com/trainspan/trainspan/attributes"
	"go.opentelemetry.io/otel/attribute"
)

// ScopeArgs are arguments that scopes of one kind share. They must not change once they
// are in a [LiveArgs].
type ScopeArgs struct {
	// Epoch and Step take precedence over those of the training.
	Epoch, Step attributes.Opt[int64]
	// Attrs are written in this order. Keys must not repeat.
	Attrs []attribute.KeyValue
}

// LiveArgs holds the current arguments of a kind of scopes; nil means no arguments. A
// scope is written with the arguments at its end.
type LiveArgs = atomic.Pointer[ScopeArgs]

// ScopeStart holds the options of ScopeKind.Start. The zero value is the default.
type ScopeStart struct {
	// Count is written as the argument "count" if it is positive.
	Count int64
	// Ambient makes the scope, until it ends, the parent of what is started later with
	// the context it was started with. It is for code that cannot pass on the scope's
	// own context. Ambient scopes from one context must nest. If two of them overlap
	// without nesting, as those of goroutines that share a context do, the context does
	// not identify a parent: from then on no scope is ambient there.
	Ambient bool
}

// Scopes is implemented by an output that records scopes itself. Its methods are called
// concurrently.
type Scopes interface {
	// ScopeKind returns the kind for scopes of a DFTracer category and name. Nil means
	// that the output does not want these.
	ScopeKind(category, name string) ScopeKind
	// EndScopes ends the open scopes. It is called before their parent spans are ended
	// and the output is shut down.
	EndScopes()
}

// ScopeKind starts scopes of one category and name. Its methods are called
// concurrently.
type ScopeKind interface {
	// Start starts a scope as a child of ctx. args may be nil. The result is nil after
	// the end of recording.
	Start(ctx context.Context, args *LiveArgs, o ScopeStart) Scope
	// Record records a scope that began at start, a time from Now, and ends now. The
	// scope must have no children.
	Record(ctx context.Context, args *LiveArgs, count, start int64)
	// Now returns the time of the clock for scopes, in nanoseconds since the Unix epoch.
	Now() int64
	// Note writes one metadata entry at once: a key and the current time in microseconds
	// since the Unix epoch.
	Note(ctx context.Context, key string)
}

// Scope is a running scope. Its methods are called concurrently. After End or
// Abandon they do nothing.
type Scope interface {
	// Context returns the context the scope was started with, extended by the scope:
	// scopes and spans started with it are its children.
	Context() context.Context
	// Set adds or replaces arguments. They take precedence over those of the kind. The
	// scope may keep the slice.
	Set(attrs []attribute.KeyValue)
	// Fail sets the status of the scope to an error and does not end it. err must not be
	// nil. The last call counts.
	Fail(err error)
	// End ends the scope.
	End()
	// Abandon ends a scope whose end was not reported, and marks it as truncated.
	Abandon()
}
