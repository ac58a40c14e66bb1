package ai_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/trace"
)

// A chain of every kind of span and scope, each started with the context of the
// previous one.
func TestChainsOfAllKinds(t *testing.T) {
	type world struct {
		tree   *ai.Tree
		tel    *telemetry.Provider
		tracer trace.Tracer
	}
	kinds := map[string]func(w world, ctx context.Context) (context.Context, func()){
		"telemetry": func(w world, ctx context.Context) (context.Context, func()) {
			ctx, s := w.tel.StartSpan(ctx, "telemetry")
			return ctx, func() { s.End() }
		},
		"plain": func(w world, ctx context.Context) (context.Context, func()) {
			ctx, s := w.tracer.Start(ctx, "plain")
			return ctx, func() { s.End() }
		},
		"ai": func(w world, ctx context.Context) (context.Context, func()) {
			ctx, s := w.tree.Compute.StartContext(ctx)
			return ctx, s.End
		},
		"iterator": func(w world, ctx context.Context) (context.Context, func()) {
			for ctx := range ai.IterContext(ctx, w.tree.DataLoader.Fetch, three) {
				_, s := w.tree.Data.Item.StartContext(ctx)
				s.End()
			}
			ctx, s := w.tree.Data.StartContext(ctx)
			return ctx, s.End
		},
	}
	chains := [][]string{
		{"telemetry", "ai", "plain", "ai", "telemetry", "ai"},
		{"ai", "telemetry", "ai", "ai", "plain", "plain", "ai"},
		{"plain", "ai", "telemetry", "plain", "ai", "iterator", "plain"},
		{"iterator", "iterator", "telemetry", "ai"},
	}
	for mode, export := range map[string]string{"direct": "", "as spans": config.ExportAll} {
		for _, chain := range chains {
			t.Run(mode, func(t *testing.T) {
				tree, tel, path := newTree(t, "trace.pfw", nil, func(b *telemetry.TrainingTelemetryBuilder) {
					b.WithExporter(&kept{}).WithExportCustomization(config.Export{Mode: export})
				})
				w := world{tree, tel, tel.Tracer("example.com/plain")}
				// The links run on separate goroutines, each below the previous one.
				var wg sync.WaitGroup
				var down func(ctx context.Context, rest []string)
				down = func(ctx context.Context, rest []string) {
					if len(rest) == 0 {
						return
					}
					ctx, end := kinds[rest[0]](w, ctx)
					done := make(chan struct{})
					wg.Go(func() {
						down(ctx, rest[1:])
						close(done)
					})
					<-done
					end()
				}
				down(context.Background(), chain)
				wg.Wait()
				got := slices.DeleteFunc(finish(t, tel, path), func(ev dftracer.Event) bool {
					return ev.Cat == "dataloader" || ev.Name == "item"
				})
				if len(got) != len(chain) {
					t.Fatalf("%v gives %v, want an event for each link", chain, names(got))
				}
				for i, ev := range got {
					if ev.Level != i+1 || i > 0 && ev.Parent != int64(got[i-1].ID) || ev.TID != got[0].TID {
						t.Errorf("%v: link %d is %+v, want it below the one before, on its lane", chain, i, ev)
					}
				}
			})
		}
	}
}

// A scope without a span in its context is a child of the span of the latest
// callback, even if the callback's own context was dropped.
func TestAmbientParent(t *testing.T) {
	tree, tel, path := newTree(t, "trace.pfw", nil)
	ctx, r := context.Background(), tel.Recorder()
	must := func(_ context.Context, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.StartPhase(ctx, spans.Application, telemetry.Start{}))
	tree.Checkpoint.Init().Start(ctx).End()
	must(r.StartPhase(ctx, spans.TrainingLoop))
	below, s := tree.Data.StartContext(ctx)
	_, plain := tel.Tracer("x").Start(below, "plain")
	plain.End()
	must(r.StartPhase(below, spans.ValidationLoop, telemetry.Start{}))
	tree.Compute.Forward.Start(ctx).End()
	if err := r.EndPhase(spans.ValidationLoop, telemetry.End{}); err != nil {
		t.Fatal(err)
	}
	s.End()
	if err := r.EndPhase(spans.TrainingLoop, telemetry.End{}); err != nil {
		t.Fatal(err)
	}
	got := finish(t, tel, path)
	for child, parent := range map[string]string{
		"checkpoint.init": "ai_root", "train": "ai_root", "data": "train", "plain": "data", "evaluate": "data", "forward": "evaluate",
	} {
		if c, p := find(t, got, child), find(t, got, parent); c.Parent != int64(p.ID) {
			t.Errorf("%s has parent %d, want %s", child, c.Parent, parent)
		}
	}
}

func TestManyGoroutines(t *testing.T) {
	for name, export := range map[string]string{"direct": "", "as spans": config.ExportAll} {
		t.Run(name, func(t *testing.T) {
			tree, tel, path := newTree(t, "trace.pfw.gz", &pfw.Options{Trace: &dftracer.Options{MemberSize: 1 << 14}}, func(b *telemetry.TrainingTelemetryBuilder) {
				b.WithExporter(&kept{}).WithExportCustomization(config.Export{Mode: export})
			})
			tracer := tel.Tracer("example.com/plain")
			if _, err := tel.Recorder().StartPhase(context.Background(), spans.Application, telemetry.Start{}); err != nil {
				t.Fatal(err)
			}
			counts := make([]int, 24)
			var wg sync.WaitGroup
			for g := range counts {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(g), 2))
					var grow func(ctx context.Context, depth int)
					grow = func(ctx context.Context, depth int) {
						if depth >= 6 {
							return
						}
						for range r.IntN(4) {
							counts[g]++
							switch r.IntN(6) {
							case 0:
								ctx, s := tel.StartSpan(ctx, "custom")
								grow(ctx, depth+1)
								s.End()
							case 1:
								ctx, s := tracer.Start(ctx, "plain")
								grow(ctx, depth+1)
								s.End()
							case 2:
								for ctx := range ai.IterContext(ctx, tree.DataLoader.Fetch, three) {
									counts[g] += 2
									grow(ctx, depth+2)
									if r.IntN(4) == 0 {
										break
									}
								}
								counts[g]--
							case 3:
								_ = tree.Compute.Do(ctx, func(ctx context.Context) error { grow(ctx, depth+1); return nil })
							case 4: // on another goroutine
								ctx, s := tree.Comm.AllReduce.StartContext(ctx)
								done := make(chan struct{})
								go func() { defer close(done); grow(ctx, depth+1) }()
								<-done
								s.End()
							default:
								tree.Root.Update(ai.Step(counts[g]))
								ctx, s := tree.Compute.Forward.StartContext(ctx)
								grow(ctx, depth+1)
								s.End()
							}
						}
					}
					for range 4 {
						grow(context.Background(), 0)
					}
				})
			}
			wg.Wait()
			if err := tel.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			report := dftest.Check(t, path)
			want := 3
			for _, n := range counts {
				want += n
			}
			if report.Events != want || report.Lost+report.Orphans != 0 {
				t.Errorf("%d events, want %d; %d lost, %d orphans", report.Events, want, report.Lost, report.Orphans)
			}
			if report.Lanes > 3*64 {
				t.Errorf("%d lanes for 64 goroutines, want at most %d", report.Lanes, 3*64)
			}
			roots := 0
			for _, ev := range dftest.Events(t, path) {
				if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer && ev.Parent == dftracer.NoParent {
					roots++
				}
			}
			if roots != 1 {
				t.Errorf("%d roots, want the application alone", roots)
			}
		})
	}
}
