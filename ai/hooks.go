package ai

import (
	"context"
	"slices"
	"sync"
)

// hooks are the open scopes of a node that nobody has a handle of.
type hooks struct {
	mu   sync.Mutex
	open []hooked
}

type hooked struct {
	ctx   context.Context // as the caller has it
	scope Scope
}

// Begin starts a scope that Stop ends: for hooks that cannot keep a handle.
// Calls may nest and may come from many goroutines; then each goroutine needs
// a context of its own for the pairs to be matched.
func (n *Node) Begin(ctx context.Context) {
	s := n.Start(ctx)
	if !s.Recording() {
		return
	}
	n.hooks.mu.Lock()
	defer n.hooks.mu.Unlock()
	n.hooks.open = append(n.hooks.open, hooked{ctx, s})
}

// Stop ends the scope that Begin started last with the same context, or, if
// there is none, the one it started last.
func (n *Node) Stop(ctx context.Context) { n.StopErr(ctx, nil) }

// StopErr is Stop; an err that is not nil is noted on the scope.
func (n *Node) StopErr(ctx context.Context, err error) {
	if n == nil {
		return
	}
	if s, ok := n.hooks.take(ctx); ok {
		s.EndErr(err)
	}
}

func (h *hooks) take(ctx context.Context) (Scope, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) == 0 {
		return Scope{}, false
	}
	at := len(h.open) - 1
	for i := at; i >= 0; i-- {
		if same(h.open[i].ctx, ctx) {
			at = i
			break
		}
	}
	s := h.open[at].scope
	h.open = slices.Delete(h.open, at, at+1)
	return s, true
}

// same compares contexts. Types that cannot be compared are different.
func same(a, b context.Context) (equal bool) {
	defer func() { _ = recover() }()
	return a == b
}

// NoteStart writes the metadata record "<name>.start" with the time of now, at
// once: for spans of time that are not to be an event.
func (n *Node) NoteStart(ctx context.Context) { n.note(ctx, ".start") }

// NoteEnd writes the metadata record "<name>.end" with the time of now.
func (n *Node) NoteEnd(ctx context.Context) { n.note(ctx, ".end") }

func (n *Node) note(ctx context.Context, suffix string) {
	if n == nil || n.state.Load().off {
		return
	}
	if kind := n.kind(); kind != nil {
		kind.Note(ctx, n.name+suffix)
	}
}
