package telemetry

import (
	"context"
	"slices"
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
		return &spanKind{rec: plan.rec, name: exported, named: named, notes: plan.notes(category, name)}
	}
	if plan.direct != nil {
		return plan.direct.ScopeKind(category, name)
	}
	if plan.all != nil {
		return &spanKind{rec: plan.rec, name: fullName(category, name), named: named, hidden: plan.all, notes: plan.notes(category, name)}
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
	mode := s.export.Mode
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
	rec    *Recorder
	name   string
	named  []attribute.KeyValue
	hidden trace.Tracer // not nil: exporters do not get them
	notes  []spans.ScopeKind
}

// Start implements spans.ScopeKind.
func (k *spanKind) Start(ctx context.Context, args *spans.ScopeArgs, count int64) spans.Scope {
	return k.start(ctx, args, count, time.Time{})
}

// Record implements spans.ScopeKind.
func (k *spanKind) Record(ctx context.Context, args *spans.ScopeArgs, count int64, start time.Time) {
	if s := k.start(ctx, args, count, start); s != nil {
		s.End(nil)
	}
}

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

func (k *spanKind) start(ctx context.Context, args *spans.ScopeArgs, count int64, at time.Time) spans.Scope {
	if ctx == nil {
		ctx = context.Background()
	}
	kvs := k.attributes(args, count)
	if k.hidden == nil {
		inner, s, err := k.rec.begin(ctx, &startParams{
			name: k.name, index: -1, scoped: true, at: at, anyTime: true,
			attrs: k.rec.clean(attributes.From(kvs...)),
		})
		if err != nil {
			return nil
		}
		return &recordedScope{inner, s}
	}
	options := []trace.SpanStartOption{trace.WithAttributes(kvs...)}
	if !at.IsZero() {
		options = append(options, trace.WithTimestamp(at))
	}
	_, s := k.hidden.Start(context.WithValue(k.rec.elsewhere(k.rec.adopt(ctx)), hiddenScope{}, true), k.name, options...)
	if !s.IsRecording() {
		return nil
	}
	return &hiddenSpan{trace.ContextWithSpan(ctx, s), s}
}

func (k *spanKind) attributes(args *spans.ScopeArgs, count int64) []attribute.KeyValue {
	kvs := slices.Clip(k.named)
	var epoch, step int64 = k.rec.progress.Epoch(), k.rec.progress.Step()
	if args != nil {
		epoch, step = args.Epoch.Or(epoch), args.Step.Or(step)
	}
	if epoch >= 0 {
		kvs = append(kvs, attribute.Int64(attributes.Epoch, epoch))
	}
	if step >= 0 {
		kvs = append(kvs, attribute.Int64(attributes.Step, step))
	}
	if count > 0 {
		kvs = append(kvs, attribute.Int64("count", count))
	}
	if args != nil {
		kvs = append(kvs, args.Attrs...)
	}
	return kvs
}

// recordedScope is a scope that is a span of the recorder.
type recordedScope struct {
	ctx context.Context // as spans.Scope wants it
	*Span
}

// Context implements spans.Scope.
func (s *recordedScope) Context() context.Context { return s.ctx }

// Set implements spans.Scope.
func (s *recordedScope) Set(attrs []attribute.KeyValue) { s.SetAttributes(attrs...) }

// End implements spans.Scope.
func (s *recordedScope) End(err error) { s.finish(End{Err: err}) }

// hiddenSpan is a scope that is a span for span processors only.
type hiddenSpan struct {
	ctx  context.Context // as spans.Scope wants it
	span trace.Span
}

// Context implements spans.Scope.
func (s *hiddenSpan) Context() context.Context { return s.ctx }

// Set implements spans.Scope.
func (s *hiddenSpan) Set(attrs []attribute.KeyValue) { s.span.SetAttributes(attrs...) }

// End implements spans.Scope.
func (s *hiddenSpan) End(err error) {
	if err != nil {
		s.span.RecordError(err)
		s.span.SetStatus(codes.Error, errorText(err))
	}
	s.span.End()
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
