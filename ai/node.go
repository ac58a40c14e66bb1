package ai

import (
	"context"
	"sync/atomic"

	"github.com/trainspan/trainspan/internal/record/active"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
)

// Node is one kind of scope: a category and a name. Nodes form a tree, in which
// they are enabled, disabled and updated together. The methods are safe for
// concurrent use; a nil Node does nothing.
type Node struct {
	label
	tree *Tree

	off   atomic.Bool
	args  dispatch.LiveArgs
	begun waiting // scopes of Begin

	// Guarded by tree.mu.
	children []*Node
	derived  map[string]*Node
	labels   map[string]*label // of iterators
}

// label is the name of a node's scopes, and how they are recorded.
type label struct {
	category, name string
	bound          atomic.Pointer[binding]
}

// binding is how a provider records the scopes of a label.
type binding struct {
	tel  *telemetry.Provider
	kind dispatch.ScopeKind // nil if they are not recorded
}

// String returns the category and the name of the node's events: compute/forward.
func (n *Node) String() string {
	if n == nil {
		return ""
	}
	return n.category + "/" + n.name
}

// Start starts a scope of the node, with arguments for this scope alone. Call
// [Scope.End] on the result. The scope nests below the span or scope in ctx; to
// nest others below it, use [Node.StartContext] or [Scope.Context].
func (n *Node) Start(ctx context.Context, attrs ...attribute.KeyValue) Scope {
	if n == nil {
		return Scope{}
	}
	if n.off.Load() {
		return Scope{}
	}
	kind := n.kind(n.tree)
	if kind == nil {
		return Scope{}
	}
	s := Scope{kind.Start(ctx, &n.args, dispatch.ScopeStart{})}
	if len(attrs) > 0 {
		s.Set(attrs...)
	}
	return s
}

// StartContext is [Node.Start] that also returns the context with the scope, or
// ctx itself if nothing is recorded.
func (n *Node) StartContext(ctx context.Context, attrs ...attribute.KeyValue) (context.Context, Scope) {
	s := n.Start(ctx, attrs...)
	if s.inner == nil {
		return ctx, s
	}
	return s.inner.Context(), s
}

// Do runs fn in a scope of the node and returns fn's error unchanged. The error, a panic
// or the end of the goroutine inside fn is recorded on the scope.
func (n *Node) Do(ctx context.Context, fn func(context.Context) error) (err error) {
	ctx, s := n.StartContext(ctx)
	if s.inner == nil {
		return fn(ctx)
	}
	finished := false
	defer func() {
		if !finished {
			err = errCut
		}
		s.end(err)
	}()
	err = fn(ctx)
	finished = true
	return err
}

// kind returns how the tree's current provider records such scopes, nil if it
// does not.
func (l *label) kind(t *Tree) dispatch.ScopeKind {
	tel := t.provider()
	if tel == nil {
		if !active.Quiet() {
			warnNoProvider()
		}
		return nil
	}
	if b := l.bound.Load(); b != nil && b.tel == tel {
		return b.kind
	}
	b := &binding{tel: tel, kind: dispatch.SourceOf(tel.TracerProvider()).ScopeKind(l.category, l.name)}
	if b.kind == nil && tel.Enabled() {
		warnUnrecorded()
	}
	l.bound.Store(b)
	return b.kind
}
