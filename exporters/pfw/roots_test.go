package pfw_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TestRootsWithTimesOfTheirOwn checks that roots without children share lanes only if
// they do not overlap, also with explicit times.
func TestRootsWithTimesOfTheirOwn(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true})
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("x")
	base := time.Now().Add(-time.Hour)
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	for i := range 40 {
		start := at(i * 7 % 30)
		ctx, s := tracer.Start(context.Background(), "root", trace.WithTimestamp(start))
		if i%3 == 0 {
			_, child := tracer.Start(ctx, "child", trace.WithTimestamp(start.Add(time.Second)))
			child.End(trace.WithTimestamp(start.Add(2 * time.Second)))
		}
		s.End(trace.WithTimestamp(start.Add(5 * time.Second)))
	}
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
}

// TestFirstChildrenOfRoots starts the first children of a root concurrently, while the
// root ends and while its begin record is written.
func TestFirstChildrenOfRoots(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{BeginAfter: 1})
	root, child := p.ScopeKind("compute", "root"), p.ScopeKind("compute", "child")
	const rounds, children = 300, 3
	for range rounds {
		s := root.Start(context.Background(), nil, dispatch.ScopeStart{})
		var wg sync.WaitGroup
		for range children {
			wg.Go(func() { child.Start(s.Context(), nil, dispatch.ScopeStart{}).End() })
		}
		wg.Go(s.End)
		wg.Wait()
	}
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	report := dftest.Check(t, path)
	if n := report.Counts["compute/child/X"]; n != rounds*children || report.Open+report.Orphans != 0 {
		t.Errorf("%d children, %d open, %d orphans; want %d, 0, 0", n, report.Open, report.Orphans, rounds*children)
	}
	if report.Lanes > 40 {
		t.Errorf("%d lanes, want at most 40", report.Lanes)
	}
}
