// Package filter decides which outputs get a span, and under which parent each output
// gets it. The [Table] of a provider combines the export customization, the filters of
// outputs and the names of scopes. The decision is made once, when a span starts, and
// stays with the span as a [Set].
package filter

import (
	"context"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/trace"
)

// Set is a set of outputs. Bit n represents the output with index n in the table.
type Set uint64

// MaxOutputs is the maximum number of outputs in a Set.
const MaxOutputs = 64

// Only returns the set of one output.
func Only(output int) Set { return 1 << output }

// Has reports whether the output is in the set.
func (s Set) Has(output int) bool { return s&Only(output) != 0 }

// with returns the set with member, or without it if in is false.
func (s Set) with(member Set, in bool) Set {
	if in {
		return s | member
	}
	return s &^ member
}

// Table holds the filter of every output. Outputs are added before the first span is
// looked up; after that the table does not change. The zero Table has no outputs.
type Table struct {
	filters  []config.Export
	standard [spans.Count]Set // by index in the table of package spans
	custom   map[string]Set   // names in filters that are not in the table of package spans
	other    Set              // every other name
}

// Len returns the number of outputs.
func (t *Table) Len() int { return len(t.filters) }

// Add adds an output with its filter.
func (t *Table) Add(e config.Export) {
	member := Only(len(t.filters))
	t.filters = append(t.filters, e)
	names, rest := e.SpanNames, true
	switch {
	case e.Mode == config.ExportAll:
		names = nil
	case e.Mode == config.Whitelist:
		rest = false
	case e.UsesDefaultNames():
		names = spans.DefaultBlacklist()
	}
	for i := range t.standard {
		t.standard[i] = t.standard[i].with(member, rest)
	}
	for name, set := range t.custom {
		t.custom[name] = set.with(member, rest)
	}
	for _, name := range names {
		if i := spans.Index(name); i >= 0 {
			t.standard[i] = t.standard[i].with(member, !rest)
			continue
		}
		set, known := t.custom[name]
		if !known {
			set = t.other
		}
		if t.custom == nil {
			t.custom = make(map[string]Set)
		}
		t.custom[name] = set.with(member, !rest)
	}
	t.other = t.other.with(member, rest)
}

// Span returns the outputs that get a span with the given name. Only the name matters,
// not how the span was started; index is spans.Index(name) if the caller knows it, or
// -1.
func (t *Table) Span(index int, name string) Set {
	if index < 0 {
		index = spans.Index(name)
	}
	if index >= 0 {
		return t.standard[index]
	}
	if len(t.custom) > 0 {
		if set, ok := t.custom[name]; ok {
			return set
		}
	}
	return t.other
}

// Scope returns the outputs that get the scopes of package ai with a DFTracer category
// and name. as is the name by which filters of outputs in some select them.
func (t *Table) Scope(category, name string, some Set) (to Set, as string) {
	as = vocab.ScopeName(category, name)
	for i := range t.filters {
		own, ok := settings.ExportName(&t.filters[i], category, name)
		if to = to.with(Only(i), ok); ok && some.Has(i) && own != vocab.ScopeName(category, name) {
			as = own
		}
	}
	return to, as
}

// Sent returns the outputs in some that get the spans of a DFTracer category and name
// that another program has recorded, and the name under which they are sent.
func (t *Table) Sent(category, name string, some Set) (to Set, as string) {
	for i := range t.filters {
		if own, ok := settings.SentName(&t.filters[i], category, name); ok && some.Has(i) {
			to, as = to|Only(i), own
		}
	}
	return to, as
}

// Span is a span of the recorder, as contexts carry it. The results of its methods do
// not change.
type Span interface {
	trace.Span
	// Outputs returns the outputs that get the span.
	Outputs() Set
	// Above returns the parent span, or nil if the recorder has no parent. The parent
	// was started before this span, so following Above terminates.
	Above() Span
	// Outside returns the parent of a span whose Above is nil: a span of another process
	// or another tracer provider, or an invalid one.
	Outside() trace.SpanContext
	// Ambient reports whether the span represents a scope of package ai that is the
	// parent of spans started later with the same context.
	Ambient() bool
	// Telemetry returns what the provider passes to an output that gets every span.
	Telemetry() *outputs.Telemetry
}

// Moved returns the outputs that get a span but not its parent, so that the span has
// another parent there: see [Parent].
func Moved(s Span) Set {
	if above := s.Above(); above != nil {
		return s.Outputs() &^ above.Outputs()
	}
	return 0
}

// Parent returns the parent of a span in an output: the nearest ancestor that the output
// gets.
func Parent(s Span, output int) trace.SpanContext {
	for {
		above := s.Above()
		if above == nil {
			return s.Outside()
		}
		if above.Outputs().Has(output) {
			return above.SpanContext()
		}
		s = above
	}
}

// StartedKey is the context key of the [Span] that is being started, in the context that
// the recorder passes to OpenTelemetry.
type StartedKey struct{}

// Started returns the span of the recorder that is being started with ctx, or nil. Span
// processors receive such a context.
func Started(ctx context.Context) Span {
	s, _ := ctx.Value(StartedKey{}).(Span)
	return s
}

// Around returns the nearest span of the recorder around a span that starts with ctx, or
// nil.
func Around(ctx context.Context) Span {
	if s := Started(ctx); s != nil {
		return s.Above()
	}
	s, _ := trace.SpanFromContext(ctx).(Span)
	return s
}
