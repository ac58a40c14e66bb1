package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/internal/segment"
	"github.com/trainspan/trainspan/telemetry/recorder"
)

// scopePlan decides in what form the scopes of package ai are recorded.
type scopePlan struct {
	control *recorder.Control
	at      *spans.Progress
	direct  []Output        // that record scopes which are not OpenTelemetry spans
	all     trace.Tracer    // not nil: some local output takes spans only
	exports []config.Export // of the outputs that get selected spans
	run     *segment.Run
}

// placed is the context for a span that the recorder does not keep.
func (s *scopePlan) placed(ctx context.Context, name string) context.Context {
	return s.run.Place(ctx, -1, name, false)
}

// planScopes looks at what the outputs want.
func (p *Provider) planScopes(customization config.Export, filters []*config.Export, run *segment.Run) {
	plan := &scopePlan{control: p.control, at: p.progress, run: run}
	spansOnly := false
	i := 0
	for out, wants := range p.hub.Outputs {
		switch filter := filters[i]; {
		case wants.Scopes:
			plan.direct = append(plan.direct, out)
		case !wants.Network && wants.Spans:
			spansOnly = true
		case wants.Spans || wants.Records:
			e := customization
			if filter != nil {
				e = *filter
			} else if wants.All {
				e = config.Export{Mode: config.ExportAll}
			}
			plan.exports = append(plan.exports, e)
		}
		i++
	}
	if spansOnly {
		plan.all = p.sdk.Tracer(recorder.ScopeName, trace.WithInstrumentationVersion(Version))
	}
	p.scopes = plan
}

// ScopeKind prepares scopes of a DFTracer category and name, as this provider
// records them: as OpenTelemetry spans that exporters get too when the filter
// of one asks for them, otherwise by the cheapest way that reaches every local
// output. It is nil when nobody wants them.
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
		return &spanKind{plan: plan, name: exported, named: named, notes: plan.kinds(category, name)}
	}
	kinds := plan.kinds(category, name)
	switch {
	case plan.all != nil:
		return &spanKind{plan: plan, name: fullName(category, name), named: named, hidden: plan.all, notes: kinds}
	case len(kinds) == 0:
		return nil
	case len(kinds) == 1:
		return kinds[0]
	}
	return kinds
}

// kinds are those of the outputs that record scopes themselves.
func (s *scopePlan) kinds(category, name string) (all scopeKinds) {
	for _, d := range s.direct {
		if k := d.ScopeKind(category, name); k != nil {
			all = append(all, k)
		}
	}
	return all
}

// scopeKinds record a scope in several outputs, each below the one before.
type scopeKinds []spans.ScopeKind

// Start implements spans.ScopeKind.
func (k scopeKinds) Start(ctx context.Context, args *spans.ScopeArgs, count int64) spans.Scope {
	var all scopeList
	for _, one := range k {
		if s := one.Start(ctx, args, count); s != nil {
			all = append(all, s)
			ctx = s.Context()
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Record implements spans.ScopeKind.
func (k scopeKinds) Record(ctx context.Context, args *spans.ScopeArgs, count int64, start time.Time) {
	for _, one := range k {
		one.Record(ctx, args, count, start)
	}
}

// Note implements spans.ScopeKind.
func (k scopeKinds) Note(ctx context.Context, key string) {
	for _, one := range k {
		one.Note(ctx, key)
	}
}

// scopeList is one scope in several outputs.
type scopeList []spans.Scope

// Context implements spans.Scope.
func (l scopeList) Context() context.Context { return l[len(l)-1].Context() }

// Set implements spans.Scope.
func (l scopeList) Set(attrs []attribute.KeyValue) {
	for _, s := range l {
		s.Set(slices.Clone(attrs))
	}
}

// End implements spans.Scope.
func (l scopeList) End(err error) {
	for _, s := range l {
		s.End(err)
	}
}

// exportName is the name under which exporters get such scopes, if one does.
func (s *scopePlan) exportName(category, name string) (string, bool) {
	for i := range s.exports {
		if exported, ok := exportName(&s.exports[i], category, name); ok {
			return exported, true
		}
	}
	return "", false
}

func exportName(e *config.Export, category, name string) (string, bool) {
	full := fullName(category, name)
	mode := e.EffectiveMode()
	switch {
	case e.UsesDefaultNames():
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
		if slices.Contains(e.SpanNames, c) {
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
	trace.SpanFromContext(k.plan.control.Adopt(ctx)).AddEvent(key)
}

func (k *spanKind) start(ctx context.Context, args *spans.ScopeArgs, count int64, at time.Time) spans.Scope {
	if ctx == nil {
		ctx = context.Background()
	}
	kvs := k.attributes(args, count)
	if k.hidden == nil {
		inner, s := k.plan.control.Span(ctx, k.name, SpanStart{Time: at, Attributes: attributes.From(kvs...)}, true)
		if s == nil {
			return nil
		}
		return &recordedScope{inner, s}
	}
	options := []trace.SpanStartOption{trace.WithAttributes(kvs...)}
	if !at.IsZero() {
		options = append(options, trace.WithTimestamp(at))
	}
	_, s := k.hidden.Start(k.plan.placed(segment.Hidden(k.plan.control.Adopt(ctx)), k.name), k.name, options...)
	if !s.IsRecording() {
		return nil
	}
	return &hiddenSpan{trace.ContextWithSpan(ctx, s), s}
}

func (k *spanKind) attributes(args *spans.ScopeArgs, count int64) []attribute.KeyValue {
	kvs := slices.Clip(k.named)
	var epoch, step int64 = k.plan.at.Epoch(), k.plan.at.Step()
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
func (s *recordedScope) End(err error) { s.EndWith(End{Err: err}) }

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
		s.span.SetStatus(codes.Error, recorder.ErrorText(err))
	}
	s.span.End()
}
