package pfw_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"go.opentelemetry.io/otel/attribute"
)

func discarding(t testing.TB) *pfw.Processor {
	t.Helper()
	w, err := dftracer.NewWriter(io.Discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pfw.Create("", &pfw.Options{Writer: w, OwnWriter: true, NoBegin: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// setOneByOne sets n different arguments on one scope.
func setOneByOne(p *pfw.Processor, n int) {
	s := p.ScopeKind("c", "n").Start(context.Background(), nil, dispatch.ScopeStart{})
	for i := range n {
		s.Set([]attribute.KeyValue{attribute.Int(fmt.Sprint("key", i), i)})
	}
	s.End()
}

// nested starts n nested scopes and ends them.
func nested(p *pfw.Processor, n int) {
	kind, all, ctx := p.ScopeKind("c", "n"), make([]dispatch.Scope, n), context.Background()
	for i := range all {
		all[i] = kind.Start(ctx, nil, dispatch.ScopeStart{})
		ctx = all[i].Context()
	}
	for i := range all {
		all[n-1-i].End()
	}
}

func TestGrowthOfScopeArguments(t *testing.T) {
	p := discarding(t)
	growth.Allocated(t, 2000, func(n int) { setOneByOne(p, n) })
}

// TestManyScopeArguments checks that arguments beyond the limit are counted, and that
// existing ones can still be set.
func TestManyScopeArguments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	p, err := pfw.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := p.ScopeKind("c", "many").Start(context.Background(), nil, dispatch.ScopeStart{})
	for i := range 600 {
		s.Set([]attribute.KeyValue{attribute.Int(fmt.Sprint("k", i), i), attribute.Int("k7", i)})
	}
	s.End()
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, ev := range dftest.Events(t, path) {
		if ev.Name != "many" {
			continue
		}
		known, _ := ev.Arg("k7")
		last, kept := ev.Arg("k511")
		_, further := ev.Arg("k512")
		if over, _ := ev.Arg("otel.dropped_attributes_count"); known.Int64() != 599 || !kept || last.Int64() != 511 || further || over.Int64() != 88 {
			t.Errorf("k7 %v, k511 %v, k512 %v, left out %v; want 599, 511, false, 88", known, last, further, over)
		}
		return
	}
	t.Error("the trace has no record of the scope")
}

func BenchmarkGrowthScopeArguments(b *testing.B) {
	p := discarding(b)
	growth.Bench(b, 2000, func(n int) { setOneByOne(p, n) })
}

func BenchmarkGrowthDepth(b *testing.B) {
	p := discarding(b)
	growth.Bench(b, 2000, func(n int) { nested(p, n) })
}
