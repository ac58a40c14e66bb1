package telemetry

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
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

var _ dispatch.Source = (*tracerProvider)(nil)

// ScopeKind implements dispatch.Source.
func (t *tracerProvider) ScopeKind(category, name string) dispatch.ScopeKind {
	return t.scopes.kind(category, name)
}

// Sender implements dispatch.Source.
func (t *tracerProvider) Sender(category, name string) dispatch.Sender {
	plan := t.scopes
	to, as := plan.hub.Filter.Sent(category, name, plan.hub.Network())
	if to == 0 {
		return nil
	}
	var named []attribute.KeyValue
	if as == vocab.ScopeName(category, name) {
		named = []attribute.KeyValue{attribute.String(spans.AttrCategory, category), attribute.String(spans.AttrName, name)}
	}
	return func(ctx context.Context, at time.Time, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
		inner, s, _ := plan.rec.begin(ctx, &startParams{
			name: as, index: -1, scoped: true, at: at, anyTime: true, chosen: true, to: to,
			attrs: plan.rec.repairs.cleanCopy(attributes.From(slices.Concat(named, attrs)...)),
		})
		if !s.started() {
			return ctx, nil
		}
		span := trace.SpanFromContext(inner)
		return trace.ContextWithSpan(ctx, span), span
	}
}

// FileLog implements dispatch.Source.
func (t *tracerProvider) FileLog() dispatch.FileLog {
	switch logs := fileLogs(t.scopes.hub.FileLogs()); len(logs) {
	case 0:
		return nil
	case 1:
		return logs[0]
	default:
		return logs
	}
}

// fileLogs record calls in several outputs.
type fileLogs []dispatch.FileLog

// Now implements dispatch.FileLog.
func (l fileLogs) Now() int64 { return l[0].Now() }

// File implements dispatch.FileLog.
func (l fileLogs) File(path string) dispatch.File {
	var files fileList
	for _, one := range l {
		if f := one.File(path); f != nil {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil
	}
	return files
}

// fileList is one file in several outputs.
type fileList []dispatch.File

// Record implements dispatch.File.
func (l fileList) Record(ctx context.Context, call dispatch.FileCall) {
	for _, f := range l {
		f.Record(ctx, call)
	}
}

// kind decides how scopes of a category and name are recorded, see
// [dispatch.Source]: by the one output that gets them if it records them itself, or else as
// spans.
func (plan *scopePlan) kind(category, name string) dispatch.ScopeKind {
	hub := plan.hub
	spanned := hub.Spans() | hub.Records()
	to, as := hub.Filter.Scope(category, name, spanned&^hub.Scopes())
	kinds := hub.ScopeKinds(category, name, to)
	if to &= spanned; to&^hub.Scopes() == 0 && len(kinds) <= 1 {
		if len(kinds) == 0 {
			return nil
		}
		return kinds[0]
	}
	return &spanKind{plan: plan, name: as, to: to, notes: kinds, named: []attribute.KeyValue{
		attribute.String(spans.AttrCategory, category), attribute.String(spans.AttrName, name),
	}}
}

// spanKind starts scopes that are OpenTelemetry spans.
type spanKind struct {
	plan  *scopePlan
	name  string
	named []attribute.KeyValue
	to    filter.Set // the outputs that get them
	notes []dispatch.ScopeKind
}

// Start implements dispatch.ScopeKind.
func (k *spanKind) Start(ctx context.Context, args *dispatch.LiveArgs, o dispatch.ScopeStart) dispatch.Scope {
	if s := k.start(ctx, args, o, k.plan.now()); s != nil {
		return s
	}
	return nil
}

// Record implements dispatch.ScopeKind.
func (k *spanKind) Record(ctx context.Context, args *dispatch.LiveArgs, count, start int64) {
	if s := k.start(ctx, args, dispatch.ScopeStart{Count: count}, start); s != nil {
		s.End()
	}
}

// Now implements dispatch.ScopeKind.
func (k *spanKind) Now() int64 { return k.plan.now() }

// Note implements dispatch.ScopeKind. Without a trace file it records an event of
// the enclosing span.
func (k *spanKind) Note(ctx context.Context, key string) {
	for _, n := range k.notes {
		n.Note(ctx, key)
	}
	if len(k.notes) > 0 {
		return
	}
	ctx = orBackground(ctx)
	rec := k.plan.rec
	trace.SpanFromContext(rec.otel.adopt(ctx, rec.Current())).AddEvent(key)
}

func (k *spanKind) start(ctx context.Context, args *dispatch.LiveArgs, o dispatch.ScopeStart, at int64) *spanScope {
	ctx = orBackground(ctx)
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
	ctx   context.Context // as dispatch.Scope requires
	span  *Span
	kind  *spanKind
	args  *dispatch.LiveArgs
	count int64

	mu      sync.Mutex
	before  []attribute.KeyValue       // the last result of current
	own     map[attribute.Key]struct{} // keys that Set was called with
	failure error
}

// Context implements dispatch.Scope.
func (s *spanScope) Context() context.Context { return s.ctx }

// maxOwn bounds the keys that a scope remembers, like the attributes of a span.
const maxOwn = 512

// Set implements dispatch.Scope.
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

// Fail implements dispatch.Scope.
func (s *spanScope) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

// End implements dispatch.Scope.
func (s *spanScope) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.before
	s.set(slices.DeleteFunc(s.current(), func(kv attribute.KeyValue) bool {
		_, own := s.own[kv.Key]
		return own || slices.Contains(before, kv)
	}))
	s.span.EndWith(End{Err: s.failure, again: true})
}

// Abandon implements dispatch.Scope.
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
