package telemetry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/direct"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/record/segment"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/record/spancontext"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scopePlan decides in what form the scopes of package ai are recorded.
type scopePlan struct {
	rec     *Recorder
	hub     *dispatch.Hub
	at      *outputs.Progress
	plain   trace.Tracer // of spans that the recorder does not keep
	outputs []scopeOutput
	run     *segment.Run
	now     func() int64 // nanoseconds since the Unix epoch

	mu   sync.Mutex
	last uint64
	open map[*spanScope]uint64 // the hidden scopes, by the order of their starts
}

// started keeps a hidden scope until it ends.
func (s *scopePlan) started(scope *spanScope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	if s.open == nil {
		s.open = make(map[*spanScope]uint64)
	}
	s.open[scope] = s.last
}

func (s *scopePlan) ended(scope *spanScope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, scope)
}

// abandon ends the hidden scopes that are open, the latest first.
func (s *scopePlan) abandon() {
	if s == nil {
		return
	}
	s.mu.Lock()
	open := maps.Clone(s.open)
	s.mu.Unlock()
	for _, scope := range slices.SortedFunc(maps.Keys(open), func(a, b *spanScope) int { return cmp.Compare(open[b], open[a]) }) {
		scope.Abandon()
	}
}

// placed is the context for a span that the recorder does not keep.
func (s *scopePlan) placed(ctx context.Context, name string) context.Context {
	return s.run.Place(ctx, -1, name, false)
}

// adopt returns a context without a span the latest span of a callback.
func (s *scopePlan) adopt(ctx context.Context) context.Context {
	return s.rec.otel.adopt(ctx, s.rec.Current())
}

// scopeOutput is an output and the scopes that it gets.
type scopeOutput struct {
	dispatch.Attached
	export config.Export
}

// add adds an output with what the program or, without one, the customization
// filters for it.
func (s *scopePlan) add(a dispatch.Attached, filter *config.Export, customization config.Export) {
	o := scopeOutput{a, customization}
	if filter != nil {
		o.export = *filter
	} else if a.All {
		o.export = config.Export{Mode: config.ExportAll}
	}
	s.outputs = append(s.outputs, o)
}

// kind decides how scopes of a category and name are recorded, see
// [Provider.ScopeKind].
func (plan *scopePlan) kind(category, name string) direct.ScopeKind {
	full := vocab.ScopeName(category, name)
	known, route := full, spancontext.Route{}
	recorded, spansOnly := false, false
	for i := range plan.outputs {
		o := &plan.outputs[i]
		exported, ok := settings.ExportName(&o.export, category, name)
		route[o.Selection] = ok
		switch {
		case !ok || o.Scopes != nil:
		case !o.Network && o.Spans:
			spansOnly = true
		case o.Spans || o.Records:
			if recorded = true; exported != full {
				known = exported
			}
		}
	}
	kinds := scopeKinds(plan.hub.ScopeKinds(category, name, route))
	named := []attribute.KeyValue{
		attribute.String(spans.AttrCategory, category), attribute.String(spans.AttrName, name),
	}
	switch {
	case recorded:
		return &spanKind{plan: plan, name: known, named: named, route: route, notes: kinds}
	case spansOnly:
		route[nil] = false
		return &spanKind{plan: plan, name: full, named: named, route: route, hidden: true, notes: kinds}
	case len(kinds) == 0:
		return nil
	case len(kinds) == 1:
		return kinds[0]
	}
	return kinds
}

// scopeKinds record a scope in several outputs, each below the one before.
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
	plan   *scopePlan
	name   string
	named  []attribute.KeyValue
	route  spancontext.Route // the outputs that get them
	hidden bool              // the recorder and exporters do not get them
	notes  []direct.ScopeKind
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

// Note implements direct.ScopeKind. Without a trace file it is an event of the
// enclosing span.
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
	trace.SpanFromContext(k.plan.adopt(ctx)).AddEvent(key)
}

func (k *spanKind) start(ctx context.Context, args *direct.LiveArgs, o direct.ScopeStart, at int64) (scope *spanScope) {
	defer func() { // a sampler or generator of ids of the program panicked
		if recover() != nil {
			scope = nil
		}
	}()
	if ctx == nil {
		ctx = context.Background()
	}
	s := &spanScope{kind: k, args: args, count: o.Count}
	kvs := s.current()
	started := spancontext.WithRoute(ctx, k.route)
	if o.Ambient {
		started = spancontext.WithAmbient(started)
	}
	if !k.hidden {
		inner, span := k.plan.rec.span(started, k.name, SpanStart{
			Time: time.Unix(0, at), Attributes: attributes.From(slices.Concat(k.named, kvs)...),
		}, true)
		if span == nil {
			return nil
		}
		s.ctx, s.recorded = trace.ContextWithSpan(ctx, trace.SpanFromContext(inner)), span // without the marks
		return s
	}
	_, span := k.plan.plain.Start(k.plan.placed(k.plan.adopt(started), k.name), k.name,
		trace.WithAttributes(slices.Concat(k.named, kvs)...), trace.WithTimestamp(time.Unix(0, at)))
	if !span.IsRecording() {
		return nil
	}
	s.ctx, s.plain = trace.ContextWithSpan(ctx, span), span
	k.plan.started(s)
	return s
}

// spanScope is a scope that is a span: one of the recorder, or one for span
// processors only.
type spanScope struct {
	ctx      context.Context // as direct.Scope wants it
	kind     *spanKind
	args     *direct.LiveArgs
	count    int64
	recorded *Span
	plain    trace.Span // if recorded is nil

	mu      sync.Mutex
	before  []attribute.KeyValue       // what current gave before
	own     map[attribute.Key]struct{} // that Set was given
	failure error
}

// Context implements direct.Scope.
func (s *spanScope) Context() context.Context { return s.ctx }

// maxOwn bounds the keys that a scope remembers: as many as a span keeps.
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
	switch {
	case len(attrs) == 0:
	case s.recorded != nil:
		s.recorded.SetAttributes(attrs...)
	default:
		s.plain.SetAttributes(attrs...)
	}
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
	if s.recorded != nil {
		s.recorded.EndWith(End{Err: s.failure})
		return
	}
	s.kind.plan.ended(s)
	now := time.Unix(0, s.kind.plan.now())
	if s.failure != nil {
		s.plain.RecordError(s.failure, trace.WithTimestamp(now))
		s.plain.SetStatus(codes.Error, failure.Text(s.failure))
		s.failure = nil
	}
	s.plain.End(trace.WithTimestamp(now))
}

// Abandon implements direct.Scope.
func (s *spanScope) Abandon() {
	s.Set([]attribute.KeyValue{attribute.Int(attributes.Truncated, 1)})
	s.End()
}

// current are the arguments of the scope as things stand.
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
