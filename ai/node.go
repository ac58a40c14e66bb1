package ai

import (
	"context"

	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// Node is one kind of scope: a category and a name. Nodes form a tree, by
// which they are enabled, disabled and updated together. The methods are safe
// for concurrent use; a nil Node does nothing.
type Node struct {
	tree           *Tree
	category, name string
	parent         *Node // nil for the root and for detached nodes

	state atomic.Pointer[state]
	bound atomic.Pointer[binding]
	hooks hooks

	// Guarded by tree.mu.
	children []*Node
	derived  map[string]*Node
}

// state is what can be changed about a node. A change makes a new state.
type state struct {
	off  bool
	args *spans.ScopeArgs // nil: none
}

// binding is how a provider records the node.
type binding struct {
	tel  *telemetry.Provider
	kind spans.ScopeKind // nil: not at all
}

// newNode makes a node in the state of the one above it. tree.mu is held, or
// the tree is not shared yet.
func newNode(t *Tree, above *Node, category, name string) *Node {
	n := &Node{tree: t, parent: above, category: category, name: name}
	if above == nil {
		n.state.Store(&state{})
		return n
	}
	n.state.Store(above.state.Load())
	above.children = append(above.children, n)
	return n
}

// Category is the DFTracer category of the node's events.
func (n *Node) Category() string {
	if n == nil {
		return ""
	}
	return n.category
}

// Name is the name of the node's events.
func (n *Node) Name() string {
	if n == nil {
		return ""
	}
	return n.name
}

// Start starts a scope of the node, with arguments for this one use. Call End
// on the result. The scope lies below what ctx carries; to have something lie
// below the scope, use StartContext or [Scope.Context].
func (n *Node) Start(ctx context.Context, attrs ...attribute.KeyValue) Scope {
	if n == nil {
		return Scope{}
	}
	st := n.state.Load()
	if st.off {
		return Scope{}
	}
	kind := n.kind()
	if kind == nil {
		return Scope{}
	}
	s := Scope{kind.Start(ctx, st.args, 0)}
	if len(attrs) > 0 {
		s.Set(attrs...)
	}
	return s
}

// StartContext is Start that also gives the context for what nests below. It
// is ctx itself when nothing is recorded.
func (n *Node) StartContext(ctx context.Context, attrs ...attribute.KeyValue) (context.Context, Scope) {
	s := n.Start(ctx, attrs...)
	if s.inner == nil {
		return ctx, s
	}
	return s.inner.Context(), s
}

// Do lasts a scope of the node for fn and returns fn's error unchanged. The
// error, a panic or the end of the goroutine inside fn are noted on the scope.
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
		s.EndErr(err)
	}()
	err = fn(ctx)
	finished = true
	return err
}

// Enabled tells whether the node records scopes.
func (n *Node) Enabled() bool { return n != nil && !n.state.Load().off && n.kind() != nil }

// kind is how the provider of the moment records the node, nil for not at all.
func (n *Node) kind() spans.ScopeKind {
	tel := n.tree.provider()
	if tel == nil {
		return nil
	}
	if b := n.bound.Load(); b != nil && b.tel == tel {
		return b.kind
	}
	b := &binding{tel: tel, kind: tel.ScopeKind(n.category, n.name)}
	n.bound.Store(b)
	return b.kind
}

// args are the arguments of the node's scopes, and whether it is enabled.
func (n *Node) args() (*spans.ScopeArgs, bool) {
	st := n.state.Load()
	return st.args, !st.off
}

// Tree is the tree that the node belongs to.
func (n *Node) Tree() *Tree {
	if n == nil {
		return nil
	}
	return n.tree
}
