package ai

import (
	"context"

	"github.com/trainspan/trainspan/internal/record/direct"
)

// Begin starts a scope that Stop ends: for hooks of a framework that cannot keep
// a handle. What is started with ctx, or with a context that leads to the same
// enclosing span, lies below the scope until then, so that hooks that are called
// one after the other nest, on one goroutine or on several. Goroutines that use
// hooks at the same time need contexts with scopes of their own (StartContext):
// with a shared one their scopes lie beside each other once they overlapped.
//
// A node keeps 1024 scopes that wait for their Stop. Beyond that the oldest is
// written with the argument truncated, and a warning is logged once.
func (n *Node) Begin(ctx context.Context) {
	if n == nil || n.off.Load() {
		return
	}
	kind := n.kind(n.tree)
	if kind == nil {
		return
	}
	if s := (Scope{kind.Start(ctx, &n.args, direct.ScopeStart{Ambient: true})}); s.inner != nil {
		if oldest := n.begun.add(ctx, s); oldest.inner != nil {
			oldest.inner.Abandon()
			warnHooks(n)
		}
	}
}

// Stop ends the scope that Begin started last with the same context, or, if
// there is none, the one it started last.
func (n *Node) Stop(ctx context.Context) { n.StopErr(ctx, nil) }

// StopErr is Stop that notes on the scope the error that err points to, if there
// is one, as [Scope.EndErr] does.
func (n *Node) StopErr(ctx context.Context, err *error) {
	if n == nil {
		return
	}
	if s, ok := n.begun.take(ctx); ok {
		s.EndErr(err)
	}
}

// NoteStart writes the metadata record "<name>.start" with the time at present, at
// once: for spans of time that are not to be an event.
func (n *Node) NoteStart(ctx context.Context) { n.note(ctx, ".start") }

// NoteEnd writes the metadata record "<name>.end" with the time at present.
func (n *Node) NoteEnd(ctx context.Context) { n.note(ctx, ".end") }

func (n *Node) note(ctx context.Context, suffix string) {
	if n == nil || n.off.Load() {
		return
	}
	if kind := n.kind(n.tree); kind != nil {
		kind.Note(ctx, n.name+suffix)
	}
}
