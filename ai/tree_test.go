package ai_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
)

// byID returns events sorted by their ids, which are assigned when scopes
// start.
func byID(events []dftracer.Event) []dftracer.Event {
	slices.SortFunc(events, func(a, b dftracer.Event) int { return cmp.Compare(a.ID, b.ID) })
	return events
}

// every returns all nodes of a tree with the category and name of their events.
func every(t *ai.Tree) map[*ai.Node]string {
	c := &t.Comm
	return map[*ai.Node]string{
		t.Root:         "ai_root ai_root",
		t.Compute.Node: "compute compute", t.Compute.Forward: "compute forward",
		t.Compute.Backward: "compute backward", t.Compute.Step: "compute step",
		t.Data.Node: "data data", t.Data.Preprocess: "data preprocess", t.Data.Item: "data item",
		t.DataLoader.Node: "dataloader dataloader", t.DataLoader.Fetch: "dataloader fetch",
		c.Node: "comm comm", c.Send: "comm send", c.Receive: "comm receive", c.Barrier: "comm barrier",
		c.Bcast: "comm bcast", c.Reduce: "comm reduce", c.AllReduce: "comm all_reduce", c.Gather: "comm gather",
		c.AllGather: "comm all_gather", c.Scatter: "comm scatter", c.ReduceScatter: "comm reduce_scatter",
		c.AllToAll:    "comm all_to_all",
		t.Device.Node: "device device", t.Device.Transfer: "device transfer",
		t.Checkpoint.Node: "checkpoint checkpoint", t.Checkpoint.Capture: "checkpoint capture",
		t.Checkpoint.Restart: "checkpoint restart", t.Checkpoint.Init(): "checkpoint checkpoint.init",
		t.Pipeline.Node: "pipeline pipeline", t.Pipeline.Epoch: "pipeline epoch", t.Pipeline.Train: "pipeline train",
		t.Pipeline.Evaluate: "pipeline evaluate", t.Pipeline.Test: "pipeline test",
		t.Data.Preprocess.Derive("collate"):             "data preprocess.collate",
		t.Data.Preprocess.Derive("collate").Derive("x"): "data preprocess.collate.x",
		t.NewNode("other", "log"):                       "other log",
		t.NewNode("compute", "loss"):                    "compute loss",
	}
}

func TestNamesOfEveryNode(t *testing.T) {
	var want []string
	got := record(t, func(ctx context.Context, tree *ai.Tree) {
		for node, name := range every(tree) {
			node.Start(ctx).End()
			want = append(want, name)
			if node.String() != strings.Replace(name, " ", "/", 1) {
				t.Errorf("node %s, want %s", node, name)
			}
		}
	})
	var have []string
	for _, ev := range got {
		have = append(have, ev.Cat+" "+ev.Name)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("events are\n%v, want\n%v", have, want)
	}
}

func TestNodesAreKept(t *testing.T) {
	tree := ai.NewTree(nil)
	if tree.NewNode("compute", "forward") != tree.Compute.Forward || tree.NewNode("data", "data") != tree.Data.Node {
		t.Error("Node created an existing node again, want the same node")
	}
	custom, derived := tree.NewNode("x", "y"), tree.Data.Item.Derive("z")
	if custom != tree.NewNode("x", "y") || derived != tree.Data.Item.Derive("z") {
		t.Error("Node created the node twice, want one")
	}
	if ai.NewNode("x", "y") == custom {
		t.Error("two trees share a node, want one for each")
	}
}

func TestEnableDisableForce(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*ai.Tree)
		node func(*ai.Tree) *ai.Node
		want bool
	}{
		"as made":                   {func(*ai.Tree) {}, func(t *ai.Tree) *ai.Node { return t.Compute.Forward }, true},
		"root":                      {func(t *ai.Tree) { t.Root.Disable() }, func(t *ai.Tree) *ai.Node { return t.Compute.Forward }, false},
		"category":                  {func(t *ai.Tree) { t.Compute.Disable() }, func(t *ai.Tree) *ai.Node { return t.Compute.Forward }, false},
		"category itself":           {func(t *ai.Tree) { t.Compute.Disable() }, func(t *ai.Tree) *ai.Node { return t.Compute.Node }, false},
		"other category":            {func(t *ai.Tree) { t.Data.Disable() }, func(t *ai.Tree) *ai.Node { return t.Compute.Forward }, true},
		"leaf":                      {func(t *ai.Tree) { t.Compute.Forward.Disable() }, func(t *ai.Tree) *ai.Node { return t.Compute.Forward }, false},
		"sister of a leaf":          {func(t *ai.Tree) { t.Compute.Forward.Disable() }, func(t *ai.Tree) *ai.Node { return t.Compute.Backward }, true},
		"leaf of disabled category": {func(t *ai.Tree) { t.Compute.Disable(); t.Compute.Forward.Enable() }, func(t *ai.Tree) *ai.Node { return t.Compute.Forward }, true},
		"enabled again":             {func(t *ai.Tree) { t.Root.Disable(); t.Root.Enable() }, func(t *ai.Tree) *ai.Node { return t.Compute.Forward }, true},
		"derived before":            {func(t *ai.Tree) { t.Data.Item.Derive("x"); t.Data.Disable() }, func(t *ai.Tree) *ai.Node { return t.Data.Item.Derive("x") }, false},
		"derived after":             {func(t *ai.Tree) { t.Data.Disable() }, func(t *ai.Tree) *ai.Node { return t.Data.Item.Derive("y") }, false},
		"custom":                    {func(t *ai.Tree) { t.NewNode("io", "read"); t.Root.Disable() }, func(t *ai.Tree) *ai.Node { return t.NewNode("io", "read") }, false},
		"forced on":                 {func(t *ai.Tree) { t.Root.Disable() }, func(t *ai.Tree) *ai.Node { return t.Compute.Forward.ForceOn() }, true},
		"forced off":                {func(*ai.Tree) {}, func(t *ai.Tree) *ai.Node { return t.Compute.Forward.ForceOff() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := record(t, func(ctx context.Context, tree *ai.Tree) {
				c.do(tree)
				node := c.node(tree)
				node.Start(ctx).End()
				node.Begin(ctx)
				node.Stop(ctx)
				_ = node.Do(ctx, func(context.Context) error { return nil })
			})
			if (len(got) == 3) != c.want || len(got) != 0 && !c.want {
				t.Errorf("%d events, want 3: %v", len(got), c.want)
			}
		})
	}
}

func TestForcedNodesKeepTheirState(t *testing.T) {
	got := record(t, func(ctx context.Context, tree *ai.Tree) {
		on, off := tree.Comm.AllReduce.ForceOn(), tree.Comm.AllReduce.ForceOff()
		tree.Root.Update(ai.Epoch(4), attribute.String("k", "v"))
		tree.Comm.Disable()
		on.Start(ctx).End()
		tree.Comm.Enable()
		off.Start(ctx).End()
	})
	if len(got) != 1 || arg(got[0], "k") != "-" {
		t.Errorf("events %+v, want one without k", got)
	}
}

func TestUpdate(t *testing.T) {
	got := record(t, func(ctx context.Context, tree *ai.Tree) {
		tree.Compute.Forward.Start(ctx).End()
		tree.Compute.Backward.Disable()
		early := tree.Compute.Step.Start(ctx)
		tree.Compute.Update(ai.Epoch(1), ai.Step(2), ai.ImageIndex(3), attribute.Int("image_size", 4), attribute.String("model", "a"))
		tree.Compute.Backward.Enable()
		early.End()
		tree.Compute.Start(ctx).End()
		tree.Compute.Backward.Derive("hook").Start(ctx).End()
		tree.Compute.Forward.Derive("late").Start(ctx, attribute.String("once", "x"), attribute.String("model", "b")).End()
		tree.Compute.Forward.With(attribute.Int("n", 1)).Derive("with").Start(ctx).End()
		tree.Data.Item.Start(ctx).End()
		tree.Compute.Update(attribute.String("model", "c"), ai.Step(-1))
		tree.Compute.Forward.Derive("again").Start(ctx).End()
		tree.Compute.Reset()
		tree.Compute.Forward.Derive("reset").Start(ctx).End()
	})
	keys := []string{"epoch", "step", "image_idx", "image_size", "model", "once", "n"}
	for name, want := range map[string]string{
		"forward":       "- - - - - - -",
		"step":          "1 2 3 4 a - -", // it had not ended
		"compute":       "1 2 3 4 a - -",
		"backward.hook": "- - - - - - -", // it was disabled
		"forward.late":  "1 2 3 4 b x -",
		"forward.with":  "1 2 3 4 a - 1",
		"item":          "- - - - - - -",
		"forward.again": "1 - 3 4 c - -",
		"forward.reset": "- - - - - - -",
	} {
		ev := find(t, got, name)
		var have []string
		for _, k := range keys {
			have = append(have, arg(ev, k))
		}
		if got := strings.Join(have, " "); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	compute := find(t, got, "compute")
	if a, _ := compute.Arg("epoch"); tracefile.KindOf(a) != tracefile.KindInt {
		t.Error("epoch is not an integer")
	}
}

func TestUpdateAndProgress(t *testing.T) {
	tree, tel, path := newTree(t, "trace.pfw", nil)
	ctx := context.Background()
	tree.Root.Update(ai.Epoch(5), ai.Step(6))
	if tel.Progress().Epoch() != 5 || tel.Progress().Step() != 6 {
		t.Error("the provider did not get the update")
	}
	tel.Progress().SetStep(7)
	tree.Compute.Start(ctx).End()
	tree.Root.Reset()
	tree.Compute.Forward.Start(ctx).End()
	tree.Data.Update(ai.Step(1))
	if tel.Progress().Step() != 7 {
		t.Errorf("step = %d after the update of a category, want 7", tel.Progress().Step())
	}
	_, s := tel.StartSpan(ctx, "custom")
	s.End()
	got := finish(t, tel, path)
	for name, want := range map[string]string{"compute": "5 6", "forward": "5 7", "custom": "5 7"} {
		ev := find(t, got, name)
		if have := arg(ev, "epoch") + " " + arg(ev, "step"); have != want {
			t.Errorf("%s has epoch and step %s, want %s", name, have, want)
		}
	}
}

func TestScopes(t *testing.T) {
	boom := errors.New("boom")
	got := record(t, func(ctx context.Context, tree *ai.Tree) {
		inner, s := tree.Compute.StartContext(ctx)
		s.Set(attribute.Int("n", 1))
		s.Set(attribute.Int("n", 2), attribute.Int("m", 3))
		tree.Compute.Forward.Start(inner).End()
		s.End()
		s.End()
		s.EndErr(&boom)
		if err := tree.Compute.Backward.Do(ctx, func(context.Context) error { return boom }); err != boom {
			t.Errorf("Do gives %v, want %v", err, boom)
		}
		func() {
			defer func() {
				if recover() != "panic" {
					t.Error("got no panic, want the panic of the function")
				}
			}()
			_ = tree.Compute.Step.Do(ctx, func(context.Context) error { panic("panic") })
		}()
		if s := (ai.Scope{}); s.Context() != nil {
			t.Error("the zero Scope recorded, want a no-op")
		}
	})
	if want := []string{"compute", "forward", "backward", "step"}; !slices.Equal(names(got), want) {
		t.Fatalf("events are %v, want %v", names(got), want)
	}
	if arg(got[0], "n") != "2" || arg(got[0], "m") != "3" || arg(got[0], "otel.status_code") != "-" {
		t.Errorf("compute has %v, want n 2, m 3, no status", got[0].Args)
	}
	if got[1].Parent != int64(got[0].ID) {
		t.Error("forward is not below compute")
	}
	if arg(got[2], "otel.status_description") != "boom" || arg(got[3], "otel.status_code") != "ERROR" {
		t.Errorf(`statuses %v and %v, want "boom" and ERROR`, got[2].Args, got[3].Args)
	}
}

// DFTracer loses the outer event in each of these cases.
func TestOneNodeManyTimes(t *testing.T) {
	t.Run("recursion", func(t *testing.T) {
		got := record(t, func(ctx context.Context, tree *ai.Tree) {
			var down func(context.Context, int) error
			down = func(ctx context.Context, n int) error {
				return tree.Compute.Forward.Do(ctx, func(ctx context.Context) error {
					if n == 1 {
						return nil
					}
					return down(ctx, n-1)
				})
			}
			_ = down(ctx, 5)
		})
		if len(got) != 5 {
			t.Fatalf("%d events, want 5", len(got))
		}
		for i, ev := range got {
			if ev.Level != i+1 {
				t.Errorf("call %d has level %d, want %d", i, ev.Level, i+1)
			}
		}
	})
	t.Run("nested hooks", func(t *testing.T) {
		got := record(t, func(ctx context.Context, tree *ai.Tree) {
			n := tree.Compute.Forward
			n.Stop(ctx) // no scope is open
			n.Begin(ctx)
			n.Begin(ctx)
			n.StopErr(ctx, ptr(errors.New("inner")))
			n.Stop(ctx)
			n.Stop(ctx)
		})
		if len(got) != 2 || arg(got[0], "otel.status_code") != "-" || arg(got[1], "otel.status_description") != "inner" {
			t.Errorf(`events %+v, want two, the second with the error "inner"`, got)
		}
	})
	t.Run("hooks of many goroutines", func(t *testing.T) {
		type key struct{}
		got := record(t, func(ctx context.Context, tree *ai.Tree) {
			var wg sync.WaitGroup
			for g := range 32 {
				wg.Go(func() {
					ctx := context.WithValue(ctx, key{}, g)
					for range 50 {
						tree.Compute.Forward.Begin(ctx)
						tree.Compute.Forward.Stop(ctx)
					}
				})
			}
			wg.Wait()
		})
		if len(got) != 32*50 {
			t.Errorf("%d events, want %d", len(got), 32*50)
		}
	})
}

func TestMetadata(t *testing.T) {
	tree, tel, path := newTree(t, "trace.pfw", nil)
	ctx := context.Background()
	tree.Pipeline.Epoch.NoteStart(ctx)
	if err := tel.ForceFlush(ctx); err != nil {
		t.Fatal(err)
	}
	report := dftest.CheckWith(t, path, &dftracer.ValidateOptions{AllowUnfinished: true})
	if report.Counts["dftracer/CM/M"] != 1 {
		t.Errorf("record is not in the file at once: %v", report.Counts)
	}
	tree.Pipeline.Disable()
	tree.Pipeline.Epoch.NoteStart(ctx)
	tree.Pipeline.Enable()
	tree.Pipeline.Epoch.NoteEnd(ctx)
	finish(t, tel, path)
	var keys []string
	for _, ev := range dftest.Events(t, path) {
		if key, value := ev.Meta(); ev.Name == tracefile.NameCustom {
			keys = append(keys, key)
			if len(value) != 16 || tracefile.KindOf(ev.Args[1]) != tracefile.KindString {
				t.Errorf("%s has value %q, want a hash of 16 digits as text", key, value)
			}
		}
	}
	if !slices.Equal(keys, []string{"epoch.start", "epoch.end"}) {
		t.Errorf("records are %v, want [epoch.start epoch.end]", keys)
	}
}

// The records do not depend on whether scopes are spans.
func TestMetadataOfSpans(t *testing.T) {
	for name, more := range map[string]with{
		"exported": func(b *telemetry.TrainingTelemetryBuilder) {
			b.WithSpanExporter(&backend{}).WithExportCustomization(config.Export{Mode: config.ExportAll})
		},
		"foreign processor": func(b *telemetry.TrainingTelemetryBuilder) { b.WithSpanProcessor(&foreign{}) },
	} {
		t.Run(name, func(t *testing.T) {
			tree, tel, path := newTree(t, "trace.pfw", nil, more)
			tree.Pipeline.Epoch.NoteStart(context.Background())
			ctx, s := tree.Compute.StartContext(context.Background())
			tree.Pipeline.Epoch.NoteEnd(ctx)
			s.End()
			finish(t, tel, path)
			if report := dftest.Check(t, path); report.Counts["dftracer/CM/M"] != 2 {
				t.Errorf("counts %v, want 2 metadata records", report.Counts)
			}
		})
	}
}

func TestDefaultProvider(t *testing.T) {
	ctx := context.Background()
	if inner, s := ai.Compute.StartContext(ctx); inner != ctx || s != (ai.Scope{}) {
		t.Error("got records without a provider, want none")
	}
	ai.Compute.NoteStart(ctx)
	_, tel, path := newTree(t, "trace.pfw", nil)
	defer telemetry.SetDefault(tel)()
	defer ai.Root.Reset()
	ai.Update(ai.Epoch(1))
	ai.Compute.Forward.Start(ctx).End()
	ai.Root.Disable()
	ai.Compute.Backward.Start(ctx).End()
	ai.Root.Enable()
	if got := finish(t, tel, path); len(got) != 1 || arg(got[0], "epoch") != "1" {
		t.Errorf("events %+v, want one with epoch 1", got)
	}
	if s := ai.Compute.Start(ctx); s != (ai.Scope{}) {
		t.Error("a scope was started after Shutdown, want none")
	}
}

func TestNilNode(t *testing.T) {
	var n *ai.Node
	ctx := context.Background()
	n.Start(ctx).End()
	n.Begin(ctx)
	n.Stop(ctx)
	n.Update(ai.Epoch(1))
	n.Enable()
	n.NoteEnd(ctx)
	if n.Derive("x") != nil || n.ForceOn() != nil || n.Init() != nil || n.String() != "" {
		t.Error("got values of a nil node, want zero values")
	}
	ran := 0
	for range n.Range(ctx, 3) {
		ran++
	}
	if err := n.Do(ctx, func(context.Context) error { ran++; return nil }); err != nil || ran != 4 {
		t.Errorf("%d of 4 functions ran, want all: %v", ran, err)
	}
}

func TestLongScopesBegin(t *testing.T) {
	tree, tel, path := newTree(t, "trace.pfw", nil)
	_, s := tree.Pipeline.Train.StartContext(context.Background(), attribute.Int("n", 1))
	if err := tel.ForceFlush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if report := dftest.CheckWith(t, path, &dftracer.ValidateOptions{AllowUnfinished: true}); report.Open != 1 {
		t.Errorf("%d open spans in the file, want 1", report.Open)
	}
	s.End()
}

func TestAllocations(t *testing.T) {
	tree, _, _ := newTree(t, "trace.pfw.gz", &pfw.Options{NoBegin: true})
	tree.Root.Update(ai.Epoch(3), ai.Step(12))
	ctx := context.Background()
	inner, s := tree.Pipeline.Train.StartContext(ctx)
	defer s.End()
	tree.Device.Disable()
	for name, c := range map[string]struct {
		f    func()
		most float64
	}{
		"scope":        {func() { tree.Compute.Forward.Start(ctx).End() }, 1},
		"nested scope": {func() { tree.Compute.Forward.Start(inner).End() }, 1},
		"with context": {func() { _, s := tree.Compute.Forward.StartContext(inner); s.End() }, 1},
		"disabled":     {func() { tree.Device.Transfer.Start(ctx).End() }, 0},
		"hook":         {func() { tree.Compute.Forward.Begin(ctx); tree.Compute.Forward.Stop(ctx) }, 1},
		"ten elements": {func() {
			for range tree.DataLoader.Fetch.Range(ctx, 10) {
			}
		}, 2*10 + 8}, // a wait and a block each
		"no provider": {func() { ai.Compute.Forward.Start(ctx).End() }, 0},
		"hook off":    {func() { ai.Compute.Forward.Begin(ctx); ai.Compute.Forward.Stop(ctx) }, 0},
	} {
		if got := testing.AllocsPerRun(2000, c.f); got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", name, got, c.most)
		}
	}
}

func ExampleNode_Start() {
	ctx := context.Background()
	forward := func(ctx context.Context) {
		defer ai.Compute.Forward.Start(ctx).End()
		// ...
	}
	forward(ctx)
	fmt.Println(ai.Compute.Forward)
	// Output: compute/forward
}

func ExampleIterContext() {
	ctx := context.Background()
	batches := slices.Values([]string{"a", "b"})
	for epoch := range ai.Pipeline.Epoch.Range(ctx, 2) {
		for ctx, batch := range ai.IterContext(ctx, ai.DataLoader.Fetch, batches) {
			_, scope := ai.Compute.StartContext(ctx, ai.Epoch(epoch))
			fmt.Println(epoch, batch)
			scope.End()
		}
	}
	// Output:
	// 0 a
	// 0 b
	// 1 a
	// 1 b
}

func ExampleWrap() {
	double := ai.Wrap(ai.Compute.Step, func(x int) int { return 2 * x })
	fmt.Println(double(21))
	// Output: 42
}
