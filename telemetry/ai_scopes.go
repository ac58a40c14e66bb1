package telemetry

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/record/direct"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// scopePlan decides how the scopes of package ai are recorded.
type scopePlan struct {
	rec *Recorder
	hub *dispatch.Hub
	at  *outputs.Progress
	now func() int64 // nanoseconds since the Unix epoch
}

// kind decides how scopes of a category and name are recorded, see
// [direct.Source]: as spans if an output gets them that accepts spans or
// records and has no cheaper way.
func (plan *scopePlan) kind(category, name string) direct.ScopeKind {
	asSpans := (plan.hub.Spans() | plan.hub.Records()) &^ plan.hub.Scopes()
	to, as := plan.hub.Filter.Scope(category, name, asSpans)
	kinds := scopeKinds(plan.hub.ScopeKinds(category, name, to))
	switch {
	case to&asSpans != 0:
		return &spanKind{plan: plan, name: as, to: to, notes: kinds, named: []attribute.KeyValue{
			attribute.String(spans.AttrCategory, category), attribute.String(spans.AttrName, name),
		}}
	case len(kinds) == 0:
		return nil
	case len(kinds) == 1:
		return kinds[0]
	}
	return kinds
}

// scopeKinds record a scope in several outputs, each below the previous one.
type scopeKinds []direct.ScopeKind

// Start implements direct.ScopeKind.
func (k scopeKinds) Start(ctx context.Context, args *direct.LiveArgs, o direct.ScopeStart) direct.Scope {
	var all scopeList
	for _, one := range k {
		if s := one.Start(ctx, args, o); s != nil {
			all = append(all, s)
			ctx = s.Context()
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Record implements direct.ScopeKind.
func (k scopeKinds) Record(ctx context.Context, args *direct.LiveArgs, count, start int64) {
	for _, one := range k {
		one.Record(ctx, args, count, start)
	}
}

// Now implements direct.ScopeKind.
func (k scopeKinds) Now() int64 { return k[0].Now() }

// Note implements direct.ScopeKind.
func (k scopeKinds) Note(ctx context.Context, key string) {
	for _, one := range k {
		one.Note(ctx, key)
	}
}

// scopeList is one scope in several outputs.
type scopeList []direct.Scope

// Context implements direct.Scope.
func (l scopeList) Context() context.Context { return l[len(l)-1].Context() }

// Set implements direct.Scope.
func (l scopeList) Set(attrs []attribute.KeyValue) {
	for _, s := range l {
		s.Set(slices.Clone(attrs))
	}
}

// Fail implements direct.Scope.
func (l scopeList) Fail(err error) {
	for _, s := range l {
		s.Fail(err)
	}
}

// End implements direct.Scope.
func (l scopeList) End() {
	for _, s := range slices.Backward(l) {
		s.End()
	}
}

// Abandon implements direct.Scope.
func (l scopeList) Abandon() {
	for _, s := range slices.Backward(l) {
		s.Abandon()
	}
}

// spanKind starts scopes that are OpenTelemetry spans.
type spanKind struct {
	plan  *scopePlan
	name  string
	named []attribute.KeyValue
	to    filter.Set // the outputs that get them
	notes []direct.ScopeKind
}

// Start implements direct.ScopeKind.
func (k *spanKind) Start(ctx context.Context, args *direct.LiveArgs, o direct.ScopeStart) direct.Scope {
	if s := k.start(ctx, args, o, k.plan.now()); s != nil {
		return s
	}
	return nil
}

// Record implements direct.ScopeKind.
func (k *spanKind) Record(ctx context.Context, args *direct.LiveArgs, count, start int64) {
	if s := k.start(ctx, args, direct.ScopeStart{Count: count}, start); s != nil {
		s.End()
	}
}

// Now implements direct.ScopeKind.
func (k *spanKind) Now() int64 { return k.plan.now() }

// Note implements direct.ScopeKind. Without a trace file it records an event of
// the enclosing span.
func (k *spanKind) Note(ctx context.Context, key string) {
	for _, n := range k.notes {
		n.Note(ctx, key)
	}
	if len(k.notes) > 0 {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	rec := k.plan.rec
	trace.SpanFromContext(rec.otel.adopt(ctx, rec.Current())).AddEvent(key)
}

func (k *spanKind) start(ctx context.Context, args *direct.LiveArgs, o direct.ScopeStart, at int64) *spanScope {
	if ctx == nil {
		ctx = context.Background()
	}
	s := &spanScope{kind: k, args: args, count: o.Count}
	kvs := s.current()
	inner, span, _ := k.plan.rec.begin(ctx, &startParams{
		name: k.name, index: -1, scoped: true, at: time.Unix(0, at), anyTime: true, hook: o.Ambient, chosen: true, to: k.to,
		attrs: k.plan.rec.repairs.cleanCopy(attributes.From(slices.Concat(k.named, kvs)...)),
	})
	if span == nil {
		return nil
	}
	s.ctx, s.span = inner, span
	return s
}

// spanScope is a scope that is a span of the recorder.
type spanScope struct {
	ctx   context.Context // as direct.Scope requires
	span  *Span
	kind  *spanKind
	args  *direct.LiveArgs
	count int64

	mu      sync.Mutex
	before  []attribute.KeyValue       // the last result of current
	own     map[attribute.Key]struct{} // keys that Set was called with
	failure error
}

// Context implements direct.Scope.
func (s *spanScope) Context() context.Context { return s.ctx }

// maxOwn bounds the keys that a scope remembers, like the attributes of a span.
const maxOwn = 512

// Set implements direct.Scope.
func (s *spanScope) Set(attrs []attribute.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range attrs {
		if s.own == nil {
			s.own = make(map[attribute.Key]struct{})
		}
		if len(s.own) < maxOwn {
			s.own[attrs[i].Key] = struct{}{}
		}
	}
	s.set(attrs)
}

func (s *spanScope) set(attrs []attribute.KeyValue) {
	s.span.SetAttributes(attrs...)
}

// Fail implements direct.Scope.
func (s *spanScope) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

// End implements direct.Scope.
func (s *spanScope) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.before
	s.set(slices.DeleteFunc(s.current(), func(kv attribute.KeyValue) bool {
		_, own := s.own[kv.Key]
		return own || slices.Contains(before, kv)
	}))
	s.span.EndWith(End{Err: s.failure})
}

// Abandon implements direct.Scope.
func (s *spanScope) Abandon() {
	s.Set([]attribute.KeyValue{attribute.Int(attributes.Truncated, 1)})
	s.End()
}

// current returns the current arguments of the scope.
func (s *spanScope) current() []attribute.KeyValue {
	var kvs []attribute.KeyValue
	var epoch, step int64 = s.kind.plan.at.Epoch(), s.kind.plan.at.Step()
	var shared []attribute.KeyValue
	if s.args != nil {
		if args := s.args.Load(); args != nil {
			epoch, step = args.Epoch.Or(epoch), args.Step.Or(step)
			shared = args.Attrs
		}
	}
	if epoch >= 0 {
		kvs = append(kvs, attribute.Int64(attributes.Epoch, epoch))
	}
	if step >= 0 {
		kvs = append(kvs, attribute.Int64(attributes.Step, step))
	}
	if s.count > 0 {
		kvs = append(kvs, attribute.Int64("count", s.count))
	}
	kvs = append(kvs, shared...)
	s.before = slices.Clone(kvs)
	return kvs
}
