package pfw_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// TestShutdownAtAnyMoment checks that the file is complete whenever Shutdown is called:
// every parent that an event refers to is in the file, and every begin record has an
// end.
func TestShutdownAtAnyMoment(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		p, path := newTrace(t, &pfw.Options{BeginAfter: time.Millisecond})
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
		tracer := tp.Tracer("example.com/early")
		kinds := []dispatch.ScopeKind{p.ScopeKind("compute", "forward"), p.ScopeKind("pipeline", "train"), p.ScopeKind("data", "item")}
		stop, now := make(chan struct{}), make(chan struct{})
		var started atomic.Int64
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				var below func(ctx context.Context, depth int)
				below = func(ctx context.Context, depth int) {
					if started.Add(1) == int64(1+round*round) {
						close(now)
					}
					if depth == 4 {
						return
					}
					for i := range 2 {
						if (g+i+depth)%3 == 0 {
							inner, s := tracer.Start(ctx, "model_forward")
							below(inner, depth+1)
							s.End()
							continue
						}
						s := kinds[(g+i+depth)%len(kinds)].Start(ctx, nil, dispatch.ScopeStart{})
						if s == nil {
							continue
						}
						below(s.Context(), depth+1)
						s.End()
					}
				}
				for {
					select {
					case <-stop:
						return
					default:
						below(context.Background(), 0)
					}
				}
			})
		}
		<-now
		if err := p.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		close(stop)
		wg.Wait()
		if report := dftest.Check(t, path); t.Failed() || report.Orphans+report.Open+report.Lost != 0 {
			t.Fatalf("round %d: %d orphans, %d open, %d lost; want none", round, report.Orphans, report.Open, report.Lost)
		}
	}
}

// TestCut checks that scopes that EndScopes ends keep their parents and are marked as
// truncated, and that spans that the program ends afterwards are not.
func TestCut(t *testing.T) {
	p, path := newTrace(t, nil)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	ctx, outer := tp.Tracer("x").Start(context.Background(), "outer")
	_, cut := tp.Tracer("x").Start(ctx, "cut")
	_, done := tp.Tracer("x").Start(ctx, "done")
	done.End()
	kind := p.ScopeKind("compute", "forward")
	kind.Start(ctx, nil, dispatch.ScopeStart{})
	p.EndScopes()
	p.EndScopes()
	if s := kind.Start(ctx, nil, dispatch.ScopeStart{}); s != nil {
		t.Error("a scope was started after the cut")
	}
	_, after := tp.Tracer("x").Start(ctx, "after")
	after.End()
	cut.SetAttributes(attribute.Int("truncated", 1)) // as telemetry marks what it stops
	cut.End()
	outer.End() // ended by the program
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
	events := byName(dftest.Events(t, path))
	if f, o := events["forward"], events["outer"]; f.Parent != int64(o.ID) || f.Level != 2 {
		t.Errorf("scope %+v, span %+v; want the scope below the span on level 2", f, o)
	}
	for name, want := range map[string]string{"outer": "", "cut": "1", "forward": "1", "done": "", "after": ""} {
		var got string
		ev := events[name]
		if a, ok := ev.Arg("truncated"); ok {
			got = a.Text()
		}
		if got != want {
			t.Errorf("%s is truncated %q, want %q", name, got, want)
		}
	}
	if n := text(t, events["end"], "spans_truncated"); n != "2" {
		t.Errorf("%s spans are truncated, want 2", n)
	}
}
