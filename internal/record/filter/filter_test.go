package filter_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/trace"
)

// TestSpan checks that the name of a span and the filter of each output decide,
// independent of the order in which the outputs are added.
func TestSpan(t *testing.T) {
	filters := map[string]config.Export{
		"default":   {},
		"all":       {Mode: config.ExportAll, SpanNames: []string{"tokenize"}},
		"whitelist": {Mode: config.Whitelist, SpanNames: []string{"tokenize", spans.Epoch}},
		"blacklist": {Mode: config.Blacklist, SpanNames: []string{"tokenize", "shuffle", spans.Epoch}},
		"nothing":   {Mode: config.Whitelist},
		"no list":   {Mode: config.Blacklist, SpanNames: []string{}},
	}
	want := map[string]string{
		"tokenize":              "all default no list whitelist",
		"shuffle":               "all default no list",
		"pack":                  "all blacklist default no list",
		spans.Epoch:             "all default no list whitelist",
		spans.TrainingIteration: "all blacklist no list",
		spans.Application:       "all blacklist default no list",
		"":                      "all blacklist default no list",
	}
	names := []string{"all", "blacklist", "default", "no list", "nothing", "whitelist"}
	for _, reversed := range []bool{false, true} {
		var table filter.Table
		number := map[string]int{}
		for i := range names {
			if reversed {
				i = len(names) - 1 - i
			}
			number[names[i]] = table.Len()
			table.Add(filters[names[i]])
		}
		for span, outputs := range want {
			for _, index := range []int{-1, spans.Index(span)} {
				got := ""
				for _, name := range names {
					if table.Span(index, span).Has(number[name]) {
						got += " " + name
					}
				}
				if got != " "+outputs {
					t.Errorf("reversed %v: Span(%d, %q) has%s, want %s", reversed, index, span, got, outputs)
				}
			}
		}
	}
}

// TestScope checks that filters select scopes by category and name, by the name alone,
// or by the standard span that they represent, and that the default selects none.
func TestScope(t *testing.T) {
	for _, c := range []struct {
		filter config.Export
		as     string
		ok     bool
	}{
		{config.Export{}, "", false},
		{config.Export{Mode: config.ExportAll}, "compute.forward", true},
		{config.Export{Mode: config.Whitelist, SpanNames: []string{"compute.forward"}}, "compute.forward", true},
		{config.Export{Mode: config.Whitelist, SpanNames: []string{"forward"}}, "forward", true},
		{config.Export{Mode: config.Whitelist, SpanNames: []string{spans.ModelForward}}, spans.ModelForward, true},
		{config.Export{Mode: config.Whitelist, SpanNames: []string{"compute.backward"}}, "compute.forward", false},
		{config.Export{Mode: config.Blacklist, SpanNames: []string{"forward"}}, "forward", false},
		{config.Export{Mode: config.Blacklist, SpanNames: []string{"compute.backward"}}, "compute.forward", true},
	} {
		var table filter.Table
		table.Add(c.filter)
		if to, as := table.Scope("compute", "forward", filter.Only(0)); c.ok && as != c.as || to.Has(0) != c.ok {
			t.Errorf("Scope() with %+v = %b, %q, want %v, %q", c.filter, to, as, c.ok, c.as)
		}
	}
}

// TestSent checks which outputs get the spans of another program: those in the given set
// whose filter selects the span by its name, that of its standard span, or as a scope.
func TestSent(t *testing.T) {
	var table filter.Table
	for _, e := range []config.Export{
		{},
		{Mode: config.ExportAll},
		{Mode: config.Whitelist, SpanNames: []string{"forward"}},
		{Mode: config.Blacklist, SpanNames: []string{spans.Epoch, "tokenize"}},
	} {
		table.Add(e)
	}
	for _, c := range []struct {
		category, name string
		some, to       filter.Set
		as             string
	}{
		{"telemetry", "tokenize", 0b1111, 0b0011, "tokenize"},
		{"telemetry", "tokenize", 0b1110, 0b0010, "tokenize"},
		{"telemetry", "tokenize", 0b1000, 0, ""},
		{"pipeline", "epoch.block", 0b1111, 0b0011, spans.Epoch},
		{"compute", "forward", 0b0110, 0b0110, spans.ModelForward},
		{"compute", "forward", 0b0001, 0, ""}, // of a single iteration
		{"app", "load", 0b1111, 0b1010, "app.load"},
		{"app", "load", 0b0101, 0, ""},
	} {
		if to, as := table.Sent(c.category, c.name, c.some); to != c.to || as != c.as {
			t.Errorf("Sent(%q, %q, %04b) = %04b, %q, want %04b, %q", c.category, c.name, c.some, to, as, c.to, c.as)
		}
	}
}

// node is a span of a tree that is built from the root.
type node struct {
	trace.Span
	to    filter.Set
	above *node
	id    byte
}

func (n *node) Outputs() filter.Set           { return n.to }
func (n *node) Ambient() bool                 { return false }
func (n *node) Telemetry() *outputs.Telemetry { return nil }
func (n *node) Above() filter.Span {
	if n.above == nil {
		return nil
	}
	return n.above
}
func (n *node) Outside() trace.SpanContext     { return contextOf(99) }
func (n *node) SpanContext() trace.SpanContext { return contextOf(n.id) }

func contextOf(id byte) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{id}})
}

// TestParent checks that the parent in an output is the nearest ancestor that the output
// gets, or else the parent outside the recorder.
func TestParent(t *testing.T) {
	for _, c := range []struct {
		path   []filter.Set // the outputs of each span, from the root
		moved  filter.Set
		parent string // of the last span, in outputs 0 and 1
	}{
		{[]filter.Set{0b11}, 0, "99 99"},
		{[]filter.Set{0b11, 0b11}, 0, "1 1"},
		{[]filter.Set{0b11, 0b01, 0b11}, 0b10, "2 1"},
		{[]filter.Set{0b11, 0b10, 0b01, 0b11}, 0b10, "3 2"},
		{[]filter.Set{0b00, 0b00, 0b11}, 0b11, "99 99"},
		{[]filter.Set{0b11, 0b00, 0b00, 0b01}, 0b01, "1 1"},
	} {
		var last *node
		for i, to := range c.path {
			last = &node{to: to, above: last, id: byte(i + 1)}
		}
		got := fmt.Sprint(filter.Parent(last, 0).SpanID()[0], " ", filter.Parent(last, 1).SpanID()[0])
		if moved := filter.Moved(last); moved != c.moved || got != c.parent {
			t.Errorf("%02b: moved in %02b, below %s, want %02b, %s", c.path, moved, got, c.moved, c.parent)
		}
	}
}

// TestStarted checks that the context of a start holds the starting span, and that
// Around returns its parent.
func TestStarted(t *testing.T) {
	outer := &node{id: 1}
	inner := &node{id: 2, above: outer}
	ctx := trace.ContextWithSpan(context.Background(), outer)
	if s := filter.Started(ctx); s != nil {
		t.Errorf("Started() = %v, want none", s)
	}
	if s := filter.Around(ctx); s != filter.Span(outer) {
		t.Errorf("Around() = %v, want the span of the context", s)
	}
	ctx = context.WithValue(ctx, filter.StartedKey{}, inner)
	if s := filter.Started(ctx); s != filter.Span(inner) {
		t.Errorf("Started() = %v, want the span that starts", s)
	}
	if s := filter.Around(ctx); s != filter.Span(outer) {
		t.Errorf("Around() = %v, want the span above", s)
	}
}
