package ai

import (
	"context"
	"slices"
	"sync"
)

// waiting holds the open scopes of a node without a handle.
type waiting struct {
	mu   sync.Mutex
	open []hooked
}

type hooked struct {
	ctx   context.Context // the caller's
	scope Scope
}

// add keeps a scope. If there are too many, it removes and returns the oldest
// one.
func (w *waiting) add(ctx context.Context, s Scope) (oldest Scope) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) >= maxHooks {
		oldest = w.open[0].scope
		w.open = slices.Delete(w.open, 0, 1)
	}
	w.open = append(w.open, hooked{ctx, s})
	return oldest
}

func (w *waiting) take(ctx context.Context) (Scope, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) == 0 {
		return Scope{}, false
	}
	at := len(w.open) - 1
	for i := at; i >= 0; i-- {
		if sameContext(w.open[i].ctx, ctx) {
			at = i
			break
		}
	}
	s := w.open[at].scope
	w.open = slices.Delete(w.open, at, at+1)
	return s, true
}

// sameContext compares contexts. Contexts of types that cannot be compared
// count as different.
func sameContext(a, b context.Context) (equal bool) {
	defer func() { _ = recover() }()
	return a == b
}
