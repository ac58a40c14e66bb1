package telemetry_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

var (
	everything = config.Export{Mode: config.ExportAll}
	onlyLoop   = config.Export{Mode: config.Whitelist, SpanNames: []string{"training_loop", "compute.forward"}}
	noForward  = config.Export{Mode: config.Blacklist, SpanNames: []string{"model_forward", "compute.forward", "compute.step", "pipeline.epoch.block"}}
)

// Every output has its own filter, and none gets what another one asked for.
// Without a filter a trace file gets everything, and JSON lines and a backend
// get what the provider's customization selects.
func TestFilterOfEachOutput(t *testing.T) {
	dir := t.TempDir()
	trace := func(name string) string { return filepath.Join(dir, name+".pfw") }
	lines := func(name string) string { return filepath.Join(dir, name+".jsonl") }
	backends := map[string]*tracetest.InMemoryExporter{}
	backend := func(name string) kept {
		backends[name] = tracetest.NewInMemoryExporter()
		return kept{backends[name]}
	}
	o := &pfw.Options{NoBegin: true}
	decorated(t, func(b *telemetry.TrainingTelemetryBuilder) {
		b.WithExporter(pfw.New(trace("none"), o)).
			WithExporter(pfw.New(trace("all"), o), everything).
			WithSpanExporter(pfw.New(trace("only"), o), onlyLoop).
			WithExporter(pfw.New(trace("without"), o), noForward).
			WithExporter(file.New(lines("none"), nil)).
			WithExporter(file.New(lines("all"), nil), everything).
			WithExporter(file.New(lines("only"), nil), onlyLoop).
			WithExporter(file.New(lines("without"), nil), noForward).
			WithSpanExporter(backend("none")).
			WithSpanExporter(backend("all"), everything).
			WithSpanExporter(backend("only"), onlyLoop).
			WithSpanExporter(backend("without"), noForward)
	})
	const (
		standard   = "application training_loop epoch training_single_iteration model_forward"
		scopes     = "compute.forward compute.step pipeline.epoch.block pipeline.epoch.iter"
		own        = "all_reduce flaky"
		byDefault  = "application training_loop epoch all_reduce flaky"
		filtered   = "application training_loop epoch training_single_iteration all_reduce flaky pipeline.epoch.iter"
		inTrace    = "ai_root all_reduce epoch.block epoch.iter flaky forward step train train.iteration"
		listed     = "training_loop compute.forward"
		tracedList = "train forward"
		tracedRest = "ai_root all_reduce epoch.block epoch.iter flaky train train.iteration"
	)
	for name, want := range map[string]string{"none": byDefault, "all": standard + " " + scopes + " " + own, "only": listed, "without": filtered} {
		var got []string
		for _, s := range backends[name].GetSpans() {
			got = append(got, s.Name)
		}
		compareNames(t, "backend "+name, got, want)

		data, err := os.ReadFile(lines(name))
		check(t, err)
		got = nil
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, `{"type":"stop"`); ok {
				_, rest, _ = strings.Cut(rest, `"name":"`)
				n, _, _ := strings.Cut(rest, `"`)
				got = append(got, n)
			}
		}
		compareNames(t, "JSON lines "+name, got, want)
	}
	for name, want := range map[string]string{"none": inTrace, "all": inTrace, "only": tracedList, "without": tracedRest} {
		dftest.Check(t, trace(name))
		var got []string
		for _, e := range dftest.Events(t, trace(name)) {
			if e.Phase == dftracer.PhaseComplete && e.Cat != dftracer.CatDFTracer {
				got = append(got, e.Name)
			}
		}
		compareNames(t, "trace "+name, got, want)
	}
}

func compareNames(t *testing.T, what string, got []string, want string) {
	t.Helper()
	wanted := strings.Fields(want)
	slices.Sort(wanted)
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, slices.Compact(wanted)) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, wanted)
	}
}

// A whitelist names scopes by their standard name, whatever another output
// asked for.
func TestFiltersThatNameAScopeDifferently(t *testing.T) {
	for _, first := range []bool{true, false} {
		all, some := tracetest.NewInMemoryExporter(), tracetest.NewInMemoryExporter()
		decorated(t, func(b *telemetry.TrainingTelemetryBuilder) {
			list := config.Export{Mode: config.Whitelist, SpanNames: []string{"optimizer_update"}}
			if first {
				b.WithSpanExporter(kept{some}, list)
			}
			b.WithSpanExporter(kept{all}, everything)
			if !first {
				b.WithSpanExporter(kept{some}, list)
			}
		})
		if n := len(some.GetSpans()); n != 4 {
			t.Errorf("first is the whitelist %v: it got %d spans of steps, want 4", first, n)
		}
		if len(all.GetSpans()) <= 4 {
			t.Errorf("first is the whitelist %v: the other exporter got %d spans, want more than 4", first, len(all.GetSpans()))
		}
	}
}

// An invalid filter is refused, and so are two filters.
func TestInvalidFilters(t *testing.T) {
	b := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
		WithExporter(&memory{}, everything, onlyLoop).WithExporter(&memory{}, config.Export{Mode: "some"})
	if _, err := b.ConfigureProvider(context.Background()); err == nil || !strings.Contains(err.Error(), "one filter") || !strings.Contains(err.Error(), "some") {
		t.Errorf(`ConfigureProvider: %v, want an error that names the exporter and "one filter"`, err)
	}
}

// parents collects the spans it gets, by their names and their parents' names.
type parents struct {
	outputs.None
	mu     sync.Mutex
	names  map[trace.SpanID]string
	starts map[string]string
	ends   map[string]string
}

func (p *parents) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	p.names, p.starts, p.ends = map[trace.SpanID]string{}, map[string]string{}, map[string]string{}
	return outputs.Traits{Snapshots: true}, nil
}

func (p *parents) Write(records []outputs.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range records {
		s, parents := records[i].Snapshot, p.starts
		switch records[i].Kind {
		case outputs.KindStart:
			p.names[s.SpanContext().SpanID()] = s.Name()
		case outputs.KindStop:
			parents = p.ends
		default:
			continue
		}
		parents[s.Name()] = p.nameOf(s.Parent().SpanID())
	}
	return nil
}

func (p *parents) nameOf(id trace.SpanID) string {
	if name := p.names[id]; name != "" || !id.IsValid() {
		return name
	}
	return "a span that this output does not get"
}

// The children of a span that an output does not get are below its nearest
// ancestor that the output gets, in every output that accepts spans.
func TestChildrenOfSpansThatAreLeftOut(t *testing.T) {
	const (
		application = "application"
		loop        = "training_loop"
		epoch       = "epoch"
		iteration   = "training_single_iteration"
		forward     = "compute.forward"
	)
	for name, c := range map[string]struct {
		filter config.Export
		want   map[string]string // the expected parent of each span
	}{
		"all":                 {everything, map[string]string{"all_reduce": forward, "flaky": iteration, forward: iteration, iteration: epoch, epoch: loop, loop: application, application: ""}},
		"without iterations":  {without(iteration), map[string]string{"all_reduce": forward, "flaky": epoch, forward: epoch, epoch: loop}},
		"without scopes":      {without(forward), map[string]string{"all_reduce": iteration, "flaky": iteration}},
		"without several":     {without(iteration, epoch, forward), map[string]string{"all_reduce": loop, "flaky": loop}},
		"without a root":      {without(application, loop), map[string]string{epoch: ""}},
		"of all, two":         {config.Export{Mode: config.Whitelist, SpanNames: []string{loop, "all_reduce"}}, map[string]string{"all_reduce": loop, loop: ""}},
		"the default of Base": {config.Export{}, map[string]string{"all_reduce": epoch, "flaky": epoch, epoch: loop}},
	} {
		tracePath := filepath.Join(t.TempDir(), "trace.pfw")
		backend, live := tracetest.NewInMemoryExporter(), &parents{}
		decorated(t, func(b *telemetry.TrainingTelemetryBuilder) {
			b.WithExporter(pfw.New(tracePath, &pfw.Options{NoBegin: true}), c.filter).
				WithExporter(live, c.filter).
				WithSpanExporter(kept{backend}, c.filter)
		})
		compareParents(t, name+", at the start", live.starts, c.want)
		compareParents(t, name+", at the end", live.ends, c.want)

		got, names := map[string]string{}, map[string]string{}
		for _, s := range backend.GetSpans() {
			names[s.SpanContext.SpanID().String()] = s.Name
		}
		for _, s := range backend.GetSpans() {
			got[s.Name] = nameOf(names, s.Parent.SpanID().String(), "0000000000000000")
		}
		compareParents(t, name+", backend", got, c.want)

		inTrace := map[string]string{iteration: "train.iteration", loop: "train", application: "ai_root", epoch: "epoch.block", forward: "forward", "all_reduce": "all_reduce", "flaky": "flaky", "": ""}
		dftest.Check(t, tracePath)
		got, names = map[string]string{}, map[string]string{"-1": ""}
		events := dftest.Events(t, tracePath)
		for _, e := range events {
			if e.Phase == dftracer.PhaseComplete {
				names[fmt.Sprint(e.ID)] = e.Name
			}
		}
		for _, e := range events {
			for own, is := range inTrace {
				if e.Phase == dftracer.PhaseComplete && e.Name == is {
					got[own] = nameOf(names, fmt.Sprint(e.Parent), "-1")
				}
			}
		}
		want := map[string]string{}
		for own, parent := range c.want {
			want[own] = inTrace[parent]
		}
		compareParents(t, name+", trace", got, want)
	}
}

func without(names ...string) config.Export {
	return config.Export{Mode: config.Blacklist, SpanNames: names}
}

func nameOf(names map[string]string, id, none string) string {
	if name, ok := names[id]; ok || id == none {
		return name
	}
	return "a span that this output does not get"
}

func compareParents(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for span, parent := range want {
		if p, ok := got[span]; !ok || p != parent {
			t.Errorf("%s: %s is below %q (there: %v), want %q", what, span, p, ok, parent)
		}
	}
}
