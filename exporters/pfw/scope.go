package pfw

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/direct"
)

// kind is a category and name of scopes that go straight to the file.
type kind struct {
	d    *desk
	key  dftracer.Key
	long bool
}

// caller names the embedded context, so that a scope can have a method Context.
type caller = context.Context

// scope is a scope that is no OpenTelemetry span. It is the context that
// carries it, which saves an allocation.
type scope struct {
	scopeEntry
	caller // the context it was started with
	d      *desk
}

// Start implements direct.ScopeKind.
func (k *kind) Start(ctx context.Context, args *direct.LiveArgs, o direct.ScopeStart) direct.Scope {
	d := k.d
	if d.cut.Load() {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	s := &scope{scopeEntry: scopeEntry{key: &k.key, args: args, count: o.Count}, caller: ctx, d: d}
	long := k.long && !d.opts.NoBegin
	s.begun = long
	s.place(d.enclosing(ctx, &s.outer), d.clock.now(), o.Ambient)
	if d.cut.Load() { // Shutdown may have missed it
		if s.finish(&d.beginning) {
			s.revoke(long)
		}
		return nil
	}
	if long {
		d.whileOpen(&s.open, func() { d.beginScope(&s.scopeEntry) })
	}
	return s
}

// revoke makes a scope one that was not started, unless the watcher wrote its
// begin already.
func (s *scope) revoke(long bool) {
	d := s.d
	if s.begun && !long {
		d.writeScope(&s.scopeEntry, d.clock.now(), true)
		return
	}
	d.roots.end(&s.open, s.start)
	d.open.removeScope(&s.scopeEntry)
}

// place gives the scope its id, parent and lane, and registers it.
func (s *scope) place(carried *open, start int64, ambient bool) {
	d := s.d
	parent := d.ambient.innermost(carried, start)
	s.id = d.w.NextID()
	s.beginBelow(parent, start)
	tid := d.roots.begin(&s.open, parent)
	if ambient {
		d.ambient.enter(&s.open, parent)
	}
	if !d.direct.Load() {
		d.direct.Store(true)
	}
	d.open.addScope(&s.scopeEntry, tid)
}

// Record implements direct.ScopeKind.
func (k *kind) Record(ctx context.Context, args *direct.LiveArgs, count, start int64) {
	d := k.d
	if d.cut.Load() {
		return
	}
	at := d.leaf(ctx, start/1000, d.clock.now())
	s := scopeEntry{args: args, count: count} // for its arguments only
	var text [stackText]byte
	if text, ok := s.appendText(d, text[:0]); ok {
		d.w.WriteEncoded(&k.key, at, text)
		return
	}
	var stack [stackArgs]dftracer.Arg
	d.w.WriteComplete(&k.key, at, s.appendArgs(d, stack[:0])...)
}

// Now implements direct.ScopeKind.
func (k *kind) Now() int64 { return k.d.clock.nanoseconds() }

// enclosing finds the open span or scope that the context of a new scope leads
// to, nil for none, and notes which span the context has.
func (d *desk) enclosing(ctx context.Context, outer *trace.SpanID) *open {
	if sc, ok := ctx.(*scope); ok && sc.d == d {
		*outer = sc.outer
		if o := sc.alive(); o != nil {
			return o
		}
	} else if span := trace.SpanContextFromContext(ctx); span.HasSpanID() {
		*outer = span.SpanID()
		if span.IsRemote() {
			return nil
		}
		if o := d.parentOf(ctx, span); o != nil {
			return o
		}
	} else if d.direct.Load() {
		// A scope may lie below values of the user.
		if sc, _ := ctx.Value(d).(*scopeEntry); sc != nil {
			*outer = sc.outer
			if o := sc.alive(); o != nil {
				return o
			}
		}
	}
	return d.current(outer)
}

// leaf is the place of something that has ended, below which nothing can have
// been started: it is in the registry at no time.
func (d *desk) leaf(ctx context.Context, start, end int64) dftracer.Span {
	var outer trace.SpanID
	var parent *open
	if ctx == nil {
		parent = d.current(&outer)
	} else {
		parent = d.enclosing(ctx, &outer)
	}
	parent = d.ambient.innermost(parent, start)
	for parent != nil && parent.start > start+crossing { // it began meanwhile, elsewhere
		parent = parent.above()
	}
	if parent != nil {
		start = max(start, parent.start)
	}
	end = max(end, start)
	at := dftracer.Span{ID: d.w.NextID(), TS: start, Dur: end - start}
	at.TID = d.roots.leaf(parent, start, end)
	at.Level, at.Parent = under(parent, end)
	return at
}

// Note implements direct.ScopeKind.
func (k *kind) Note(_ context.Context, key string) {
	d := k.d
	if !d.cut.Load() {
		dft.WriteCustom(d.w, key, strconv.FormatInt(d.clock.now(), 10))
	}
}

// Value implements context.Context: a desk finds its innermost scope.
func (s *scope) Value(key any) any {
	if d, ok := key.(*desk); ok && d == s.d {
		return &s.scopeEntry
	}
	return s.caller.Value(key)
}

// String implements fmt.Stringer for contexts that print their parents.
func (s *scope) String() string { return "pfw.scope(" + dft.KeyName(*s.key) + ")" }
