package pfw

import (
	"context"
	"strconv"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// kind is a category and name of scopes that go straight to the file.
type kind struct {
	p    *Processor
	key  dftracer.Key
	long bool
}

// caller names the embedded context, so that a scope can have a method Context.
type caller = context.Context

// scope is a scope that is no OpenTelemetry span. It is the context that
// carries it, which saves an allocation.
type scope struct {
	open
	caller     // the context it was started with
	kind       *kind
	args       *outputs.LiveArgs
	count      int64
	outer      trace.SpanID // the innermost span of the context
	prev, next *scope       // in the registry
	extra      atomic.Pointer[[]attribute.KeyValue]
	over       atomic.Int32 // arguments that were left out of extra
}

// ScopeKind prepares scopes of a category and a name that are written without
// being OpenTelemetry spans. Telemetry calls it when no other output
// wants them as spans.
func (p *Processor) ScopeKind(category, name string) outputs.ScopeKind {
	if p == nil {
		return nil
	}
	p.scoped.Store(true)
	info, _ := spans.ByEvent(category, name)
	return &kind{p: p, key: dftracer.NewKey(spans.SafeCategory(category), name), long: info.Long}
}

// Start implements outputs.ScopeKind.
func (k *kind) Start(ctx context.Context, args *outputs.LiveArgs, o outputs.ScopeStart) outputs.Scope {
	p := k.p
	if p.cut.Load() {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	s := &scope{caller: ctx, kind: k, args: args, count: o.Count}
	long := k.long && !p.opts.NoBegin
	s.begun = long
	s.place(p.enclosing(ctx, &s.outer), p.clock.now(), o.Ambient)
	if p.cut.Load() { // Shutdown may have missed it
		if s.finish(&p.beginning) {
			s.revoke(long)
		}
		return nil
	}
	if long {
		p.whileOpen(&s.open, s.writeBegin)
	}
	return s
}

// revoke makes a scope one that was not started, unless the watcher wrote its
// begin already.
func (s *scope) revoke(long bool) {
	p := s.kind.p
	if s.begun && !long {
		s.write(p.clock.now(), true)
		return
	}
	p.roots.end(&s.open, s.start)
	p.open.removeScope(s)
}

// place gives the scope its id, parent and lane, and registers it.
func (s *scope) place(carried *open, start int64, ambient bool) {
	p := s.kind.p
	parent := p.innermost(carried, start)
	s.id = p.w.NextID()
	s.beginBelow(parent, start)
	tid := p.roots.begin(&s.open, parent)
	if ambient {
		p.enter(&s.open, parent)
	}
	if !p.direct.Load() {
		p.direct.Store(true)
	}
	p.open.addScope(s, tid)
}

// writeBegin writes that the scope has begun.
func (s *scope) writeBegin() {
	p := s.kind.p
	args := s.current()
	var shared []attribute.KeyValue
	if args != nil {
		shared = args.Attrs
	}
	epoch, step := p.standing(args)
	p.begin(&s.open, &s.kind.key, p.roots.tid(&s.open), epoch, step, shared)
}

// current are the arguments that the scope shares with others of its kind.
func (s *scope) current() *outputs.ScopeArgs {
	if s.args == nil {
		return nil
	}
	return s.args.Load()
}

// Record implements outputs.ScopeKind.
func (k *kind) Record(ctx context.Context, args *outputs.LiveArgs, count, start int64) {
	p := k.p
	if p.cut.Load() {
		return
	}
	at := p.leaf(ctx, start/1000, p.clock.now())
	s := scope{kind: k, args: args, count: count} // for its arguments only
	var text [stackText]byte
	if text, ok := s.appendText(text[:0]); ok {
		p.w.WriteEncoded(&k.key, at, text)
		return
	}
	var stack [stackArgs]dftracer.Arg
	p.w.WriteComplete(&k.key, at, s.appendArgs(stack[:0])...)
}

// Now implements outputs.ScopeKind.
func (k *kind) Now() int64 { return k.p.clock.nanoseconds() }

// standing is the epoch and step that hold now.
func (p *Processor) standing(args *outputs.ScopeArgs) (epoch, step int64) {
	at := p.progress()
	if args == nil {
		return at.Epoch(), at.Step()
	}
	return args.Epoch.Or(at.Epoch()), args.Step.Or(at.Step())
}

// enclosing finds the open span or scope that the context of a new scope leads
// to, nil for none, and notes which span the context has.
func (p *Processor) enclosing(ctx context.Context, outer *trace.SpanID) *open {
	if sc, ok := ctx.(*scope); ok && sc.kind.p == p {
		*outer = sc.outer
		if o := sc.alive(); o != nil {
			return o
		}
	} else if span := trace.SpanContextFromContext(ctx); span.HasSpanID() {
		*outer = span.SpanID()
		if span.IsRemote() {
			return nil
		}
		if o := p.parentOf(ctx, span); o != nil {
			return o
		}
	} else if p.direct.Load() {
		// A scope may lie below values of the user.
		if sc, _ := ctx.Value(p).(*scope); sc != nil {
			*outer = sc.outer
			if o := sc.alive(); o != nil {
				return o
			}
		}
	}
	return p.current(outer)
}

// current is the span under which callbacks would start theirs.
func (p *Processor) current(outer *trace.SpanID) *open {
	t := p.offer.Load()
	if t == nil || t.Current == nil {
		return nil
	}
	span := t.Current()
	if !span.HasSpanID() {
		return nil
	}
	e := p.open.find(span.SpanID())
	if e == nil {
		return nil
	}
	if !outer.IsValid() {
		*outer = span.SpanID()
	}
	return e.alive()
}

// Note implements outputs.ScopeKind.
func (k *kind) Note(_ context.Context, key string) {
	p := k.p
	if !p.cut.Load() {
		p.w.CM(key, strconv.FormatInt(p.clock.now(), 10))
	}
}

// Value implements context.Context: a processor finds its innermost scope.
func (s *scope) Value(key any) any {
	if p, ok := key.(*Processor); ok && p == s.kind.p {
		return s
	}
	return s.caller.Value(key)
}

// String implements fmt.Stringer for contexts that print their parents.
func (s *scope) String() string { return "pfw.scope(" + s.kind.key.Name() + ")" }
