package ai

import (
	"context"

	"github.com/trainspan/trainspan/internal/record/dispatch"
)

// Begin starts a scope that [Node.Stop] ends, for hooks of a framework that
// cannot keep a handle. What starts with ctx, or with a context that leads to
// the same enclosing span, nests below the scope until then, so that hooks that
// are called one after the other nest, on one goroutine or on several.
// Goroutines that use hooks concurrently need contexts with separate scopes
// ([Node.StartContext]): if scopes of one context overlap, they no longer nest.
//
// A node keeps 1024 scopes that wait for their Stop. Above that, the oldest is
// written with the argument truncated, and one warning is logged.
func (n *Node) Begin(ctx context.Context) {
	if n == nil || n.off.Load() {
		return
	}
	kind := n.kind(n.tree)
	if kind == nil {
		return
	}
	if s := (Scope{kind.Start(ctx, &n.args, dispatch.ScopeStart{Ambient: true})}); s.inner != nil {
		if oldest := n.begun.add(ctx, s); oldest.inner != nil {
			oldest.inner.Abandon()
			warnHooks(n)
		}
	}
}

// Stop ends the scope that [Node.Begin] started last with the same context or, without
// such a scope, the one that it started last.
func (n *Node) Stop(ctx context.Context) { n.StopErr(ctx, nil) }

// StopErr is [Node.Stop] that also records the error that err points to, like
// [Scope.EndErr].
func (n *Node) StopErr(ctx context.Context, err *error) {
	if n == nil {
		return
	}
	if s, ok := n.begun.take(ctx); ok {
		s.EndErr(err)
	}
}

// NoteStart writes the metadata record "<name>.start" with the current time in
// microseconds, at once: for intervals that should not be an event.
func (n *Node) NoteStart(ctx context.Context) { n.note(ctx, ".start") }

// NoteEnd writes the metadata record "<name>.end" with the current time in microseconds.
func (n *Node) NoteEnd(ctx context.Context) { n.note(ctx, ".end") }

func (n *Node) note(ctx context.Context, suffix string) {
	if n == nil || n.off.Load() {
		return
	}
	if kind := n.kind(n.tree); kind != nil {
		kind.Note(ctx, n.name+suffix)
	}
}
