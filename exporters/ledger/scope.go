package ledger

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/internal/direct"
)

// scopeKind counts scopes of a category and name.
type scopeKind struct {
	b         *books
	cat, name string
}

// ScopeKind implements direct.Scopes.
func (b *books) ScopeKind(category, name string) direct.ScopeKind {
	b.scoped.Store(true)
	return &scopeKind{b, category, name}
}

// EndScopes implements direct.Scopes. The end of the ledger ends what is open.
func (b *books) EndScopes() {}

// Start implements direct.ScopeKind.
func (k *scopeKind) Start(ctx context.Context, _ *direct.LiveArgs, o direct.ScopeStart) direct.Scope {
	s := &scope{b: k.b}
	s.handle = k.start(ctx, s, k.Now(), o.Ambient)
	s.ctx = context.WithValue(ctx, k.b, s)
	return s
}

// start begins a scope below what its context or, without one, the callbacks
// have open.
func (k *scopeKind) start(ctx context.Context, s *scope, at int64, ambient bool) goodput.Handle {
	b := k.b
	start := goodput.LiveSpan{Name: k.name, Cat: k.cat, Time: at, Step: -1, First: -1}
	s.outer = trace.SpanContextFromContext(ctx).SpanID()
	if !s.outer.IsValid() && b.telemetry.Current != nil {
		s.outer = b.telemetry.Current().SpanID()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	start.Parent = b.open[keyOf(s.outer)]
	if in, _ := ctx.Value(b).(*scope); in != nil && in.outer == s.outer {
		start.Parent = in.handle
	}
	start.Parent = b.inside(start.Parent, at)
	h := b.live.Start(&start)
	if ambient {
		b.enter(h, start.Parent, at)
	}
	return h
}

// Record implements direct.ScopeKind.
func (k *scopeKind) Record(ctx context.Context, _ *direct.LiveArgs, _, start int64) {
	var s scope
	k.b.live.End(k.start(ctx, &s, start, false), k.Now())
}

// Now implements direct.ScopeKind.
func (k *scopeKind) Now() int64 { return k.b.telemetry.Now() }

// Note implements direct.ScopeKind.
func (*scopeKind) Note(context.Context, string) {}

func (s *scope) Context() context.Context { return s.ctx }
func (s *scope) Set([]attribute.KeyValue) {}
func (s *scope) Fail(error)               {}
func (s *scope) End()                     { s.b.end(s.handle, s.b.telemetry.Now(), false) }
func (s *scope) Abandon()                 { s.b.end(s.handle, s.b.telemetry.Now(), true) }
