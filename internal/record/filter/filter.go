// Package filter decides which outputs get a span, and below which span each of them
// gets it. The [Table] of a provider is the one place where the export customization,
// the filters of outputs and the names of scopes meet. The decision is made once, when
// a span starts, and travels with the span as a [Set].
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

// Set is a set of outputs. Bit n stands for the output that was added to the table
// after n others.
type Set uint64

// MaxOutputs is how many outputs a Set has room for.
const MaxOutputs = 64

// Only returns the set of one output.
func Only(output int) Set { return 1 << output }

// Has reports whether the output is in the set.
func (s Set) Has(output int) bool { return s&Only(output) != 0 }

// with returns the set with a member, or without it.
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
	standard [spans.Count]Set // by the index of a standard span
	custom   map[string]Set   // names outside of the table of package spans that a filter lists
	other    Set              // every other name
}

// Len returns how many outputs were added.
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

// Span returns the outputs that get a span of a name. The name decides, however the
// span was started; index is spans.Index(name) if the caller knows it, or -1.
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

// Scope returns the outputs that get the scopes of package ai that have a DFTracer
// category and name. as is the name by which the filters of some outputs ask for them.
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

// Sent returns those of some outputs that get the spans of a DFTracer category and name
// that another program has recorded, and the name under which they are sent.
func (t *Table) Sent(category, name string, some Set) (to Set, as string) {
	for i := range t.filters {
		if own, ok := settings.SentName(&t.filters[i], category, name); ok && some.Has(i) {
			to, as = to|Only(i), own
		}
	}
	return to, as
}

// Span is a span of the recorder, as contexts carry it. What it returns does not change.
type Span interface {
	trace.Span
	// Outputs returns the outputs that get the span.
	Outputs() Set
	// Above returns the span above, or nil if the recorder has none there. It was
	// started before this one, so that following Above ends.
	Above() Span
	// Outside returns the parent of a span without a span above: a span of another
	// process or another tracer provider, or an invalid one.
	Outside() trace.SpanContext
	// Ambient reports whether the span stands for a scope of package ai that is the
	// parent of what starts later with the same context.
	Ambient() bool
	// Telemetry returns what the provider offers to an output that gets every span.
	Telemetry() *outputs.Telemetry
}

// Moved returns those outputs of a span that do not get the span above, so that the
// span hangs below another one there: see [Parent].
func Moved(s Span) Set {
	if above := s.Above(); above != nil {
		return s.Outputs() &^ above.Outputs()
	}
	return 0
}

// Parent returns the parent of a span in an output: the nearest span above that the
// output gets.
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

// StartedKey is the key under which the context that OpenTelemetry starts a span of the
// recorder with has that Span.
type StartedKey struct{}

// Started returns the span of the recorder that is started with ctx, or nil. Span
// processors are given such a context.
func Started(ctx context.Context) Span {
	s, _ := ctx.Value(StartedKey{}).(Span)
	return s
}

// Around returns the nearest span of the recorder around what starts with ctx, or nil.
func Around(ctx context.Context) Span {
	if s := Started(ctx); s != nil {
		return s.Above()
	}
	s, _ := trace.SpanFromContext(ctx).(Span)
	return s
}
