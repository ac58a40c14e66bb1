package ai_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"go.opentelemetry.io/otel/attribute"
)

// manyKeys updates a new tree with n different keys, at once or one by one.
func manyKeys(tree *ai.Tree, n int, atOnce bool) {
	attrs := make([]attribute.KeyValue, n)
	for i := range attrs {
		attrs[i] = attribute.Int(fmt.Sprint("key", i), i)
	}
	if atOnce {
		tree.Root.Update(attrs...)
		return
	}
	for i := range attrs {
		tree.Root.Update(attrs[i])
	}
}

func TestGrowthOfUpdates(t *testing.T) {
	for _, atOnce := range []bool{true, false} {
		growth.Allocated(t, 2000, func(n int) { manyKeys(ai.NewTree(nil), n, atOnce) })
	}
}

func BenchmarkGrowthUpdates(b *testing.B) {
	quiet(b)
	growth.Bench(b, 2000, func(n int) { manyKeys(ai.NewTree(nil), n, false) })
}

func BenchmarkGrowthUpdateAtOnce(b *testing.B) {
	quiet(b)
	growth.Bench(b, 2000, func(n int) { manyKeys(ai.NewTree(nil), n, true) })
}

// quiet suppresses warnings in benchmark output.
func quiet(b *testing.B) {
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	b.Cleanup(func() { slog.SetDefault(before) })
}

// Arguments above the bound are left out, and existing keys are still set.
func TestManyArguments(t *testing.T) {
	events := record(t, func(ctx context.Context, tree *ai.Tree) {
		manyKeys(tree, 1000, false)
		tree.Root.Update(attribute.Int("key127", -1), attribute.Int("key128", -1), ai.Epoch(7))
		tree.Compute.Forward.Start(ctx).End()
		tree.Compute.Backward.With(attribute.Int("further", 1)).Start(ctx).End()
	})
	if len(events) != 2 {
		t.Fatalf("%d events, want 2", len(events))
	}
	for _, ev := range events {
		last, known := ev.Arg("key127")
		epoch, timed := ev.Arg("epoch")
		if !known || last.Int64() != -1 || !timed || epoch.Int64() != 7 {
			t.Errorf("%s: key127 %v, epoch %v; want -1, 7", ev.Name, last, epoch)
		}
		for _, key := range []string{"key128", "key999", "further"} {
			if _, has := ev.Arg(key); has {
				t.Errorf("%s has argument %s, want it dropped", ev.Name, key)
			}
		}
	}
}

// Nodes above the bound of the tree are recorded under their names, and start
// in the state of the tree.
func TestManyNodes(t *testing.T) {
	tree, tel, path := newTree(t, "trace.pfw", &pfw.Options{NoBegin: true})
	ctx := context.Background()
	for i := range 5000 {
		tree.NewNode("c", fmt.Sprint("n", i))
	}
	tree.Root.Update(attribute.Int("known", 1))
	if a, b := tree.NewNode("c", "n7"), tree.NewNode("c", "n7"); a != b {
		t.Error("Node returned a new node, want the same")
	}
	if a, b := tree.NewNode("c", "n4999"), tree.NewNode("c", "n4999"); a == b {
		t.Error("a node beyond the bound was kept, want none")
	}
	tree.NewNode("c", "n7").Start(ctx).End()
	tree.NewNode("c", "n4999").Start(ctx).End()
	tree.NewNode("other", "name").Start(ctx).End()
	tree.Compute.Forward.Derive("part").Start(ctx).End()
	for range tree.Compute.Forward.Range(ctx, 1, &ai.IterOptions{NoIter: true, BlockName: "own"}) {
	}
	var got []string
	for _, ev := range finish(t, tel, path) {
		if known, ok := ev.Arg("known"); !ok || known.Int64() != 1 {
			t.Errorf("%s has not the argument of the tree, want known 1", ev.Name)
		}
		got = append(got, ev.Cat+"/"+ev.Name)
	}
	if want := "[c/n7 c/n4999 other/name compute/forward.part compute/own]"; fmt.Sprint(got) != want {
		t.Errorf("nodes of the tree are %v, want %v", got, want)
	}
}
