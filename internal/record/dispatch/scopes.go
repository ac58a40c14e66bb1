package dispatch

import (
	"context"
	"sync/atomic"

	"github.com/trainspan/trainspan/attributes"
	"go.opentelemetry.io/otel/attribute"
)

// ScopeArgs are arguments that scopes of one kind share. They are not changed
// once they are in a [LiveArgs].
type ScopeArgs struct {
	// Epoch and Step win over those of the training.
	Epoch, Step attributes.Opt[int64]
	// Attrs follow in the order given. Keys do not repeat.
	Attrs []attribute.KeyValue
}

// LiveArgs holds the current arguments of a kind of scopes; nil means there
// are none. A scope is written with those of the moment it ends.
type LiveArgs = atomic.Pointer[ScopeArgs]

// ScopeStart says more about a scope that starts. The zero value says nothing.
type ScopeStart struct {
	// Count is written as the argument "count" when it is positive.
	Count int64
	// Ambient makes the scope the parent of what is started later with the
	// context it was started with, until it ends: for code that cannot hand on
	// the scope's own context. Ambient scopes that are started so lie in each
	// other. Two that overlap without lying in each other, as those of
	// goroutines that share a context do, show that the context says nothing:
	// from then on no scope is ambient there.
	Ambient bool
}

// Scopes are the scopes of an output. Its methods are called concurrently.
type Scopes interface {
	// ScopeKind prepares scopes of a DFTracer category and name. Nil means that the
	// output does not want these.
	ScopeKind(category, name string) ScopeKind
	// EndScopes ends the scopes that are open, before the spans around them are
	// ended and the output is shut down.
	EndScopes()
}

// ScopeKind starts scopes of one category and name. Its methods are called
// concurrently.
type ScopeKind interface {
	// Start starts a scope below ctx. args may be nil. The result is nil when
	// nothing is recorded any more.
	Start(ctx context.Context, args *LiveArgs, o ScopeStart) Scope
	// Record records a scope that began at start, a time that Now gave, and
	// ends now. Nothing can have been started below it.
	Record(ctx context.Context, args *LiveArgs, count, start int64)
	// Now is the time of the clock that scopes are recorded with, in
	// nanoseconds since the Unix epoch.
	Now() int64
	// Note writes a piece of metadata at once: a key and the current time in
	// microseconds since the Unix epoch.
	Note(ctx context.Context, key string)
}

// Scope is a running scope. Its methods are called concurrently. After End or
// Abandon they do nothing.
type Scope interface {
	// Context is the context the scope was started with, carrying the scope:
	// what is started with it nests below.
	Context() context.Context
	// Set adds arguments; a known key gets the new value. They win over those
	// of the kind. The scope may keep the slice.
	Set(attrs []attribute.KeyValue)
	// Fail gives the scope the status of an error and does not end it. err is
	// not nil. The last call counts.
	Fail(err error)
	// End ends the scope.
	End()
	// Abandon ends a scope whose end nobody reported: it is marked truncated.
	Abandon()
}
