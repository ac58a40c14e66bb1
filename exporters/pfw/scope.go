package pfw

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
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
	args       *spans.ScopeArgs
	count      int64
	outer      trace.SpanID // the innermost span of the context
	prev, next *scope       // in the registry
	slotted    int16        // in the registry: a slot, counted from 1, or the negative shard

	mu    sync.Mutex
	extra []attribute.KeyValue
}

// ScopeKind prepares scopes of a category and a name that are written without
// being OpenTelemetry spans. Package telemetry calls it when nobody but the
// trace file wants them.
func (p *Processor) ScopeKind(category, name string) spans.ScopeKind {
	if p == nil {
		return nil
	}
	return &kind{p: p, key: dftracer.NewKey(safeCategory(category), name), long: isLong(category, name)}
}

// isLong tells whether a standard span of that category and name is a long one.
func isLong(category, name string) bool {
	for i := range spans.Count {
		if info := spans.At(i); info.Category == category && info.Event == name {
			return info.Long
		}
	}
	return false
}

// Start implements spans.ScopeKind.
func (k *kind) Start(ctx context.Context, args *spans.ScopeArgs, count int64) spans.Scope {
	if k.p.closed.Load() {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	s := &scope{caller: ctx, kind: k, args: args, count: count}
	long := k.long && !k.p.opts.NoBegin
	s.begun = long
	if tid := s.begin(k.p.clock.now()); long {
		k.p.begin(&s.open, &k.key, tid, s.shared())
	}
	return s
}

// shared are the arguments that the scope shares with others of its kind.
func (s *scope) shared() []attribute.KeyValue {
	if s.args == nil {
		return nil
	}
	return s.args.Attrs
}

// Record implements spans.ScopeKind.
func (k *kind) Record(ctx context.Context, args *spans.ScopeArgs, count int64, start time.Time) {
	if k.p.closed.Load() {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	s := &scope{caller: ctx, kind: k, args: args, count: count}
	s.begin(k.p.clock.at(start))
	s.End(nil)
}

// begin gives the scope its place: id, parent and lane.
func (s *scope) begin(start int64) (tid int64) {
	p := s.kind.p
	parent := p.enclosing(s.caller, s)
	s.id = p.w.NextID()
	s.epoch, s.step = p.standing(s.args)
	s.beginBelow(parent, start)
	tid = p.roots.begin(&s.open, parent)
	if !p.direct.Load() {
		p.direct.Store(true)
	}
	p.open.addScope(s, tid)
	return tid
}

// standing is the epoch and step of what starts now.
func (p *Processor) standing(args *spans.ScopeArgs) (epoch, step int64) {
	at := p.progress.Load()
	if args == nil {
		return at.Epoch(), at.Step()
	}
	return args.Epoch.Or(at.Epoch()), args.Step.Or(at.Step())
}

// enclosing finds the open span or scope that a new scope lies in, and notes
// which span the scope's context has.
func (p *Processor) enclosing(ctx context.Context, s *scope) *open {
	if sc, ok := ctx.(*scope); ok && sc.kind.p == p {
		s.outer = sc.outer
		if o := sc.alive(); o != nil {
			return o
		}
	} else if span := trace.SpanContextFromContext(ctx); span.HasSpanID() {
		s.outer = span.SpanID()
		if span.IsRemote() {
			return nil
		}
		if o := p.parentOf(ctx, span); o != nil {
			return o
		}
	} else if p.direct.Load() {
		// A scope may lie below values of the user.
		if sc, _ := ctx.Value(p).(*scope); sc != nil {
			s.outer = sc.outer
			if o := sc.alive(); o != nil {
				return o
			}
		}
	}
	return p.current(s)
}

// current is the span under which callbacks would start theirs.
func (p *Processor) current(s *scope) *open {
	find := p.ambient.Load()
	if find == nil {
		return nil
	}
	span := (*find)()
	if !span.HasSpanID() {
		return nil
	}
	e := p.open.find(span.SpanID())
	if e == nil {
		return nil
	}
	if !s.outer.IsValid() {
		s.outer = span.SpanID()
	}
	return e.alive()
}

// Note implements spans.ScopeKind.
func (k *kind) Note(_ context.Context, key string) {
	p := k.p
	if !p.closed.Load() {
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
