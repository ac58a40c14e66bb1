package telemetry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
)

// DirectRecorder is a span processor that can record a scope which is not an
// OpenTelemetry span. The provider uses it for the scopes of package ai that
// nobody but this processor wants: they cost a fraction of a span. Its methods
// are called concurrently.
type DirectRecorder interface {
	// ScopeKind prepares scopes of a DFTracer category and name.
	ScopeKind(category, name string) spans.ScopeKind
}

// scopePlan decides in what form the scopes of package ai are recorded.
type scopePlan struct {
	rec     *Recorder
	direct  DirectRecorder   // the one processor there is
	files   []DirectRecorder // all processors that can record scopes
	all     trace.Tracer     // several processors: a span for them, none for exporters
	exports bool             // there are exporters
	export  config.Export

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
	s.mu.Lock()
	open := maps.Clone(s.open)
	s.mu.Unlock()
	for _, scope := range slices.SortedFunc(maps.Keys(open), func(a, b *spanScope) int { return cmp.Compare(open[b], open[a]) }) {
		scope.Abandon()
	}
}

func (p *Provider) planScopes(b *TrainingTelemetryBuilder) {
	plan := &scopePlan{
		rec:     p.rec,
		exports: len(p.rec.sinks)+len(b.spanExporters) > 0,
	}
	if b.export != nil {
		plan.export = *b.export
	}
	for _, sp := range b.processors {
		if d, ok := sp.(DirectRecorder); ok {
			plan.files = append(plan.files, d)
		}
	}
	switch len(b.processors) {
	case 0:
	case 1:
		if plan.direct, _ = b.processors[0].(DirectRecorder); plan.direct != nil {
			break
		}
		fallthrough
	default:
		plan.all = p.sdk.Tracer(scopeName, trace.WithInstrumentationVersion(Version))
	}
	p.scopes = plan
}

// bindScopes tells a processor how to find the parent of scopes without one.
func bindScopes(sp sdktrace.SpanProcessor, r *Recorder) {
	if f, ok := sp.(interface {
		BindAmbient(func() trace.SpanContext)
	}); ok {
		f.BindAmbient(func() trace.SpanContext { return r.Current().SpanContext() })
	}
	if f, ok := sp.(interface{ BindClock(func() int64) }); ok {
		now := r.now
		if c, ok := r.clock.(systemClock); ok {
			now = c.nanoseconds()
		}
		f.BindClock(now)
	}
}

// cutScopes ends the scopes that are open while the spans around them are. Those
// that are spans of the recorder end with these.
func (p *Provider) cutScopes() {
	if p.scopes != nil {
		p.scopes.abandon()
	}
	for _, sp := range p.processors {
		if f, ok := sp.(interface{ Cut() }); ok {
			f.Cut()
		}
	}
}

// ScopeKind prepares scopes of a DFTracer category and name, as this provider
// records them: as OpenTelemetry spans that exporters get too when the export
// customization asks for them, otherwise by the cheapest way that reaches
// every span processor. It is nil when nobody wants them.
//
// The default customization asks for none; ExportAll asks for all; a list asks
// by "category.name", by the name alone, or by the standard span that has this
// category and name in the table of package spans.
func (p *Provider) ScopeKind(category, name string) spans.ScopeKind {
	if p == nil || p.scopes == nil {
		return nil
	}
	plan := p.scopes
	named := []attribute.KeyValue{
		attribute.String(spans.AttrCategory, category), attribute.String(spans.AttrName, name),
	}
	if exported, ok := plan.exportName(category, name); ok {
		return &spanKind{plan: plan, rec: plan.rec, name: exported, named: named, notes: plan.notes(category, name)}
	}
	if plan.direct != nil {
		return plan.direct.ScopeKind(category, name)
	}
	if plan.all != nil {
		return &spanKind{plan: plan, rec: plan.rec, name: fullName(category, name), named: named, hidden: plan.all, notes: plan.notes(category, name)}
	}
	return nil
}

// notes gives those who write the metadata of scopes that are spans.
func (s *scopePlan) notes(category, name string) []spans.ScopeKind {
	var all []spans.ScopeKind
	for _, d := range s.files {
		all = append(all, d.ScopeKind(category, name))
	}
	return all
}

// exportName is the name under which exporters get such scopes, if they do.
func (s *scopePlan) exportName(category, name string) (string, bool) {
	full := fullName(category, name)
	mode := s.export.EffectiveMode()
	switch {
	case !s.exports || s.export.UsesDefaultNames():
		return "", false
	case mode == config.ExportAll:
		return full, true
	}
	candidates := []string{full, name}
	for i := range spans.Count {
		if info := spans.At(i); info.Category == category && info.Event == name {
			candidates = append(candidates, info.Name)
		}
	}
	for _, c := range candidates {
		if slices.Contains(s.export.SpanNames, c) {
			return c, mode == config.Whitelist
		}
	}
	return full, mode != config.Whitelist
}

// fullName is the name of a scope as an OpenTelemetry span.
func fullName(category, name string) string {
	if category == name {
		return name
	}
	return category + "." + name
}

// spanKind starts scopes that are OpenTelemetry spans.
type spanKind struct {
	plan   *scopePlan
	rec    *Recorder
	name   string
	named  []attribute.KeyValue
	hidden trace.Tracer // not nil: exporters do not get them
	notes  []spans.ScopeKind
}

// Start implements spans.ScopeKind.
func (k *spanKind) Start(ctx context.Context, args *spans.LiveArgs, o spans.ScopeStart) spans.Scope {
	if s := k.start(ctx, args, o, k.rec.now()); s != nil {
		return s
	}
	return nil
}

// Record implements spans.ScopeKind.
func (k *spanKind) Record(ctx context.Context, args *spans.LiveArgs, count, start int64) {
	if s := k.start(ctx, args, spans.ScopeStart{Count: count}, start); s != nil {
		s.End()
	}
}

// Now implements spans.ScopeKind.
func (k *spanKind) Now() int64 { return k.rec.now() }

// Note implements spans.ScopeKind. Without a trace file it is an event of the
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
	trace.SpanFromContext(k.rec.adopt(ctx)).AddEvent(key)
}

func (k *spanKind) start(ctx context.Context, args *spans.LiveArgs, o spans.ScopeStart, at int64) *spanScope {
	if ctx == nil {
		ctx = context.Background()
	}
	s := &spanScope{kind: k, args: args, count: o.Count}
	kvs := s.current()
	started := ctx
	if o.Ambient {
		started = spans.WithAmbient(ctx, true)
	}
	if k.hidden == nil {
		inner, span, err := k.rec.begin(started, &startParams{
			name: k.name, index: -1, scoped: true, at: time.Unix(0, at), anyTime: true,
			attrs: k.rec.clean(attributes.From(slices.Concat(k.named, kvs)...)),
		})
		if err != nil {
			return nil
		}
		if o.Ambient {
			inner = spans.WithAmbient(inner, false)
		}
		s.ctx, s.recorded = inner, span
		return s
	}
	_, span := k.hidden.Start(context.WithValue(k.rec.elsewhere(k.rec.adopt(started)), hiddenScope{}, true), k.name,
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
	ctx      context.Context // as spans.Scope wants it
	kind     *spanKind
	args     *spans.LiveArgs
	count    int64
	recorded *Span
	plain    trace.Span // if recorded is nil

	mu      sync.Mutex
	before  []attribute.KeyValue // what current gave before
	own     []attribute.Key      // that Set was given
	failure error
}

// Context implements spans.Scope.
func (s *spanScope) Context() context.Context { return s.ctx }

// Set implements spans.Scope.
func (s *spanScope) Set(attrs []attribute.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range attrs {
		s.own = append(s.own, attrs[i].Key)
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

// Fail implements spans.Scope.
func (s *spanScope) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

// End implements spans.Scope.
func (s *spanScope) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.before
	s.set(slices.DeleteFunc(s.current(), func(kv attribute.KeyValue) bool {
		return slices.Contains(before, kv) || slices.Contains(s.own, kv.Key)
	}))
	if s.recorded != nil {
		s.recorded.finish(End{Err: s.failure})
		return
	}
	s.kind.plan.ended(s)
	now := time.Unix(0, s.kind.rec.now())
	if s.failure != nil {
		s.plain.RecordError(s.failure, trace.WithTimestamp(now))
		s.plain.SetStatus(codes.Error, errorText(s.failure))
		s.failure = nil
	}
	s.plain.End(trace.WithTimestamp(now))
}

// Abandon implements spans.Scope.
func (s *spanScope) Abandon() {
	s.Set([]attribute.KeyValue{attribute.Int("truncated", 1)})
	s.End()
}

// current are the arguments of the scope as things stand.
func (s *spanScope) current() []attribute.KeyValue {
	var kvs []attribute.KeyValue
	var epoch, step int64 = s.kind.rec.progress.Epoch(), s.kind.rec.progress.Step()
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

// hiddenScope marks the context in which a hidden span is started.
type hiddenScope struct{}

// hidingProcessor keeps hidden spans from an exporter.
type hidingProcessor struct{ *filterProcessor }

// OnStart implements sdktrace.SpanProcessor.
func (h hidingProcessor) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	if ctx.Value(hiddenScope{}) == nil {
		h.filterProcessor.OnStart(ctx, s)
		return
	}
	h.mu.Lock()
	defer h.unlock()
	h.hidden[s.SpanContext().SpanID()] = h.ancestorOf(ctx, s)
}
