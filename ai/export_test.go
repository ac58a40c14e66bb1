package ai_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// kept is a native exporter that keeps the names of stopped spans.
type kept struct {
	outputs.None
	mu    sync.Mutex
	names []string
}

func (k *kept) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Ordered: true, Inline: true}, nil
}
func (k *kept) Write(records []outputs.Record) error {
	r := &records[0]
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Kind == outputs.KindStop {
		k.names = append(k.names, r.Span.Name)
	}
	return nil
}

// backend is an OpenTelemetry exporter that keeps spans beyond its shutdown.
type backend struct {
	mu    sync.Mutex
	spans tracetest.SpanStubs
}

func (b *backend) Shutdown(context.Context) error { return nil }
func (b *backend) ExportSpans(_ context.Context, batch []sdktrace.ReadOnlySpan) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spans = append(b.spans, tracetest.SpanStubsFromReadOnlySpans(batch)...)
	return nil
}

func (b *backend) names() []string {
	list := []string{}
	for _, s := range b.spans {
		list = append(list, s.Name)
	}
	slices.Sort(list)
	return list
}

// Which scopes exporters get. The trace file has every one under the same names
// in any case.
func TestExportCustomization(t *testing.T) {
	const (
		all   = "ai_root compute compute.forward custom dataloader.fetch.iter pipeline.epoch.block"
		plain = "custom"
	)
	for name, c := range map[string]struct {
		export *config.Export
		want   string
		native string // if it differs
	}{
		"default":          {nil, plain, ""},
		"all":              {&config.Export{Mode: config.ExportAll}, all, ""},
		"full name":        {&config.Export{Mode: config.Whitelist, SpanNames: []string{"compute.forward"}}, "compute.forward", ""},
		"name":             {&config.Export{Mode: config.Whitelist, SpanNames: []string{"forward", "custom"}}, "custom forward", ""},
		"standard name":    {&config.Export{Mode: config.Whitelist, SpanNames: []string{"model_forward", "epoch"}}, "epoch model_forward", "-"},
		"other name":       {&config.Export{Mode: config.Whitelist, SpanNames: []string{"application"}}, "application", "-"},
		"list of unwanted": {&config.Export{Mode: config.Blacklist, SpanNames: []string{"forward", "ai_root", "data_loading"}}, "compute custom pipeline.epoch.block", ""},
	} {
		t.Run(name, func(t *testing.T) {
			otlp, native := &backend{}, &kept{}
			tree, tel, path := newTree(t, "trace.pfw", &pfw.Options{NoBegin: true}, func(b *telemetry.TrainingTelemetryBuilder) {
				b.WithSpanExporter(otlp).WithExporter(native)
				if c.export != nil {
					b.WithExportCustomization(*c.export)
				}
			})
			ctx, root := tree.Root.StartContext(context.Background())
			for ctx := range tree.Pipeline.Epoch.RangeContext(ctx, 1, &ai.IterOptions{NoIter: true}) {
				for range ai.Iter(ctx, tree.DataLoader.Fetch, func(yield func(int) bool) { yield(0) }, &ai.IterOptions{NoBlock: true}) {
				}
				_ = tree.Compute.Do(ctx, func(ctx context.Context) error {
					_, s := tel.StartSpan(ctx, "custom")
					s.End()
					tree.Compute.Forward.Start(ctx, attribute.Int("n", 1)).EndErr(ptr(errors.New("bad")))
					return nil
				})
			}
			root.End()
			got := finish(t, tel, path)

			if have := strings.Join(otlp.names(), " "); have != c.want {
				t.Errorf("the backend got %s, want %s", have, c.want)
			}
			if c.native != "-" {
				have := slices.Clone(native.names)
				slices.Sort(have)
				if h := strings.Join(have, " "); h != c.want {
					t.Errorf("the native exporter got %s, want %s", h, c.want)
				}
			}
			have := names(got)
			slices.Sort(have)
			if want := []string{"ai_root", "compute", "custom", "epoch.block", "fetch.iter", "forward"}; !slices.Equal(have, want) {
				t.Errorf("the trace has %v, want %v", have, want)
			}
			fw := find(t, got, "forward")
			if fw.Cat != "compute" || arg(fw, "n") != "1" || arg(fw, "otel.status_code") != "ERROR" || fw.Level != 4 {
				t.Errorf("forward is %+v, want a compute event on level 4 with n 1 and an error", fw)
			}
			if arg(find(t, got, "epoch.block"), "count") != "1" {
				t.Error("count is missing")
			}
		})
	}
}

func TestExportedScopeHasAttributes(t *testing.T) {
	otlp := &backend{}
	tree, tel, path := newTree(t, "trace.pfw", nil, func(b *telemetry.TrainingTelemetryBuilder) {
		b.WithSpanExporter(otlp).WithExportCustomization(config.Export{Mode: config.ExportAll})
	})
	tree.Compute.Update(ai.Step(9), attribute.String("model", "m"))
	tree.Compute.Forward.Start(context.Background()).EndErr(ptr(errors.New("bad")))
	finish(t, tel, path)
	if len(otlp.spans) != 1 {
		t.Fatalf("spans are %v, want one", otlp.names())
	}
	s := otlp.spans[0]
	set := attribute.NewSet(s.Attributes...)
	if v, _ := set.Value("step"); v.AsInt64() != 9 {
		t.Errorf("attributes %v, want step 9", s.Attributes)
	}
	if v, _ := set.Value("model"); v.AsString() != "m" || s.Status.Code != codes.Error {
		t.Errorf("attributes %v, status %v; want model m and an error", s.Attributes, s.Status)
	}
}

// foreign is a third-party span processor.
type foreign struct {
	noop
	mu    sync.Mutex
	names []string
}

func (f *foreign) OnEnd(s sdktrace.ReadOnlySpan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = append(f.names, s.Name())
}

// A processor that is not a trace file gets every scope as a span; exporters
// still get only what they ask for, with parents that they have.
func TestForeignProcessor(t *testing.T) {
	f, otlp, native := &foreign{}, &backend{}, &kept{}
	tree, tel, path := newTree(t, "trace.pfw", nil, func(b *telemetry.TrainingTelemetryBuilder) {
		b.WithSpanProcessor(f).WithSpanExporter(otlp).WithExporter(native)
	})
	ctx, outer := tel.StartSpan(context.Background(), "outer")
	ctx, a := tree.Compute.StartContext(ctx)
	ctx, b := tree.Compute.Forward.StartContext(ctx)
	ctx, inner := tel.Tracer("x").Start(ctx, "inner")
	tree.Compute.Backward.Start(ctx).End()
	inner.End()
	b.End()
	a.EndErr(ptr(errors.New("bad")))
	outer.End()
	got := finish(t, tel, path)
	if want := []string{"outer", "compute", "forward", "inner", "backward"}; !slices.Equal(names(got), want) {
		t.Errorf("the trace has %v, want %v", names(got), want)
	}
	for i, ev := range got {
		if ev.Level != i+1 {
			t.Errorf("%s has level %d, want %d", ev.Name, ev.Level, i+1)
		}
	}
	if want := []string{"compute.backward", "inner", "compute.forward", "compute", "outer"}; !slices.Equal(f.names, want) {
		t.Errorf("processor got %v, want %v", f.names, want)
	}
	if !slices.Equal(otlp.names(), []string{"inner", "outer"}) || len(native.names) != 2 {
		t.Errorf("exporters got %v and %v, want inner, outer and two spans", otlp.names(), native.names)
	}
	for _, s := range otlp.spans {
		if s.Name == "inner" && s.Parent.SpanID() != otlp.spans[1].SpanContext.SpanID() {
			t.Error("the parent of the backend's span was not sent, want a sent parent")
		}
	}
}

func TestTwoTraces(t *testing.T) {
	second, path2 := filepathTrace(t)
	tree, tel, path := newTree(t, "trace.pfw", nil, func(b *telemetry.TrainingTelemetryBuilder) { b.WithSpanProcessor(second) })
	ctx, s := tree.Compute.StartContext(context.Background())
	tree.Compute.Forward.Start(ctx).End()
	s.End()
	for _, events := range [][]dftracer.Event{finish(t, tel, path), finish(t, tel, path2)} {
		if !slices.Equal(names(events), []string{"compute", "forward"}) || events[1].Parent != int64(events[0].ID) {
			t.Errorf("events %+v, want forward below compute", events)
		}
	}
}

func filepathTrace(t *testing.T) (*pfw.Processor, string) {
	t.Helper()
	p, err := pfw.Create(t.TempDir()+"/second.pfw", nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, p.Writer().Path()
}

func TestOnlyExporters(t *testing.T) {
	otlp := &backend{}
	tel := newProvider(t, func(b *telemetry.TrainingTelemetryBuilder) { b.WithSpanExporter(otlp) })
	tree := ai.NewTree(tel)
	if tree.Compute.Start(context.Background()) != (ai.Scope{}) {
		t.Error("an unselected scope was recorded, want none")
	}
	if n := testing.AllocsPerRun(100, func() { tree.Compute.Start(context.Background()).End() }); n != 0 {
		t.Errorf("it allocates %v times, want 0", n)
	}
}

func TestDisabledRank(t *testing.T) {
	tel := newProvider(t, func(b *telemetry.TrainingTelemetryBuilder) {
		b.WithConfigOverride(func(b *config.Base) { b.EnableForCurrentRank = config.Value(false) })
	})
	tree := ai.NewTree(tel)
	if tree.Compute.Start(context.Background()) != (ai.Scope{}) {
		t.Error("a disabled rank recorded spans, want none")
	}
}

func TestForceDisable(t *testing.T) {
	tree, tel, path := newTree(t, "trace.pfw", nil)
	tree.Compute.Start(context.Background()).End()
	tel.ForceDisable()
	got := finish(t, tel, path)
	if tree.Compute.Start(context.Background()) != (ai.Scope{}) || len(got) != 1 {
		t.Errorf("events %v, want one, and no scope after ForceDisable", names(got))
	}
	_ = dftest.Check(t, path)
}
