package live

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/trace"
)

// liveLedger are the ledger of an attached output.
type liveLedger struct {
	live      *account.Live
	telemetry *outputs.Telemetry

	scoped atomic.Bool // there are kinds of scopes

	mu      sync.Mutex
	open    map[uint64]account.Handle   // by span id: Go's maps are quicker with numbers than with arrays
	inner   map[account.Handle]*ambient // that right below another; nil where there will be none
	ambient map[account.Handle]*ambient // by its own handle
}

func keyOf(id trace.SpanID) uint64 { return binary.LittleEndian.Uint64(id[:]) }

// scope is an open scope.
type scope struct {
	b      *liveLedger
	ctx    context.Context
	outer  trace.SpanID // the span that its context has
	handle account.Handle
}

// ambient is an open scope below which lies what is started with the context that
// it was started with: see direct.ScopeStart. What lies where is decided as by the
// trace, so that the two ledgers are one.
type ambient struct {
	handle, below account.Handle
	above         *ambient // where below is one, too
	start         int64
	ended         bool
}

// innermostAmbient is the innermost ambient scope below something open, or that itself, for
// what starts at a moment: what began later does not contain it. b.mu is held.
func (b *liveLedger) innermostAmbient(h account.Handle, start int64) account.Handle {
	for {
		a := b.inner[h]
		if a == nil || a.start > start {
			return h
		}
		h = a.handle
	}
}

// enter makes a new scope the ambient one of what it is below. b.mu is held.
func (b *liveLedger) enter(h, below account.Handle, start int64) {
	if _, taken := b.inner[below]; taken {
		return
	}
	a := &ambient{handle: h, below: below, above: b.ambient[below], start: start}
	b.inner[below], b.ambient[h] = a, a
}

// end ends a span or a scope. An ambient one whose ambient parent ended first shows
// that the context says nothing, as where goroutines share it.
func (b *liveLedger) end(h account.Handle, at int64, abandoned bool) {
	b.live.End(h, at)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.inner, h)
	a := b.ambient[h]
	if a == nil {
		return
	}
	a.ended = true
	delete(b.ambient, h)
	if b.inner[a.below] == a {
		delete(b.inner, a.below)
	}
	if above := a.above; above != nil && above.ended && !abandoned {
		for above.above != nil {
			above = above.above
		}
		b.inner[above.below] = nil
	}
}
