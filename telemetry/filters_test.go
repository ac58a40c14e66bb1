package telemetry_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

var (
	everything = config.Export{Mode: config.ExportAll}
	onlyLoop   = config.Export{Mode: config.Whitelist, SpanNames: []string{"training_loop", "compute.forward"}}
	noForward  = config.Export{Mode: config.Blacklist, SpanNames: []string{"model_forward", "compute.forward", "compute.step", "pipeline.epoch.block"}}
)

// Every output has a filter of its own, and none gets what another one asked
// for. Without a filter a trace file gets everything, and JSON lines and a
// backend what the customization of the provider lets through.
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
			t.Errorf("the first %v: the whitelist got %d spans of steps", first, n)
		}
		if len(all.GetSpans()) <= 4 {
			t.Errorf("the first %v: the other got %d spans", first, len(all.GetSpans()))
		}
	}
}

// A filter that is none is refused, and so are two.
func TestFilterThatIsNone(t *testing.T) {
	b := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
		WithExporter(&memory{}, everything, onlyLoop).WithExporter(&memory{}, config.Export{Mode: "some"})
	if _, err := b.ConfigureProvider(context.Background()); err == nil || !strings.Contains(err.Error(), "one filter") || !strings.Contains(err.Error(), "some") {
		t.Errorf("got %v", err)
	}
}
