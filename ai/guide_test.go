package ai_test

import (
	"context"
	"errors"
	"flag"
	"iter"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/goldentrace"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The programs of DFTracer's guide to AI tracing are the examples in this file:
// each writes the lines of its golden file.
func TestGuide(t *testing.T) {
	for name, program := range map[string]func(){
		"loop": Example_trainingLoop, "hooks": ExampleNode_Begin, "iterators": ExampleIter, "decorators": ExampleWrapCall, "metadata": ExampleNode_NoteStart,
	} {
		t.Run(name, func(t *testing.T) {
			ai.Root.Reset() // the default tree belongs to the process
			t.Cleanup(ai.Root.Reset)
			_, tel, path := newTree(t, "trace.pfw", &pfw.Options{NoBegin: true})
			restore := telemetry.SetDefault(tel)
			program()
			restore()
			if err := tel.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			goldentrace.Check(t, path, filepath.Join("testdata", "guide", name+".golden"), *update)
		})
	}
}

// batch and model stand for those of a real job.
type (
	batch []float64
	model struct{ weight float64 }
)

func loadBatch(ctx context.Context, step int) batch {
	defer ai.Data.Item.Start(ctx).End()
	return batch{float64(step), 1}
}

func transfer(ctx context.Context, b batch) batch {
	defer ai.Device.Transfer.Start(ctx).End()
	return slices.Clone(b)
}

func (m *model) forward(ctx context.Context, b batch) (loss float64) {
	defer ai.Compute.Forward.Start(ctx).End()
	for _, x := range b {
		loss += m.weight*x - 1
	}
	return loss
}

func (m *model) backward(ctx context.Context, loss float64) {
	ctx, scope := ai.Compute.Backward.StartContext(ctx)
	defer scope.End()
	defer ai.Comm.AllReduce.Start(ctx).End()
	m.weight -= 0.001 * loss
}

// A complete training loop. An update at the top of the body applies to the
// block that it is in.
func Example_trainingLoop() {
	ctx, train := ai.Pipeline.Train.StartContext(context.Background())
	defer train.End()
	m := new(model)
	for epoch := range ai.Pipeline.Epoch.Range(ctx, 3) {
		for step := range ai.DataLoader.Fetch.Range(ctx, 2) {
			ai.Update(ai.Step(step), ai.Epoch(epoch))
			b := transfer(ctx, loadBatch(ctx, step))
			m.backward(ctx, m.forward(ctx, b))
		}
	}
}

// profilingHook is called by a framework that has no place for a handle.
type profilingHook struct{ step int }

func (h *profilingHook) begin(ctx context.Context) { ai.Pipeline.Epoch.Begin(ctx) }

func (h *profilingHook) end(ctx context.Context) { ai.Pipeline.Epoch.Stop(ctx) }

func (h *profilingHook) beforeRun(ctx context.Context) {
	ai.Update(ai.Step(h.step))
	h.step++
	ai.Compute.Begin(ctx)
}

func (h *profilingHook) afterRun(ctx context.Context) { ai.Compute.Stop(ctx) }

// A framework calls its hooks one after the other, each on its own goroutine.
func ExampleNode_Begin() {
	ctx := context.Background()
	call := func(hook func(context.Context)) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			hook(ctx)
		}()
		<-done
	}
	var h profilingHook
	m := new(model)
	call(h.begin)
	for step := range 3 {
		call(h.beforeRun)
		m.backward(ctx, m.forward(ctx, batch{float64(step)}))
		call(h.afterRun)
	}
	call(h.end)
}

// The kinds of sequences, and what is recorded of each.
func ExampleIter() {
	ctx, fetch := context.Background(), ai.DataLoader.Fetch
	batches := slices.Values([]batch{{1}, {2}})
	for b := range ai.Iter(ctx, fetch, batches) {
		transfer(ctx, b)
	}
	for ctx, b := range ai.IterContext(ctx, fetch, batches) { // ctx carries the block
		transfer(ctx, b)
	}
	for step, b := range ai.IterSlice(ctx, fetch, []batch{{1}, {2}}) {
		fetch.Update(ai.Step(step), ai.ImageIndex(int(b[0])))
	}
	fetch.Reset()
	for range ai.Pipeline.Epoch.Range(ctx, 1, &ai.IterOptions{NoIter: true}) { // one event per epoch
		for range fetch.Range(ctx, 1, &ai.IterOptions{IterName: "wait", BlockName: "work"}) {
			continue
		}
	}
	for b, err := range ai.Iter2(ctx, fetch.Derive("file"), failing()) {
		if err != nil {
			break // the block is recorded as failed
		}
		transfer(ctx, b)
	}
}

func failing() iter.Seq2[batch, error] {
	return func(yield func(batch, error) bool) {
		_ = yield(batch{1}, nil) && yield(nil, errors.New("the file is gone"))
	}
}

// dataset has a constructor that is recorded.
type dataset struct{ items []batch }

func newDataset(ctx context.Context) (d *dataset, err error) {
	err = ai.Data.Item.Init().Do(ctx, func(context.Context) error {
		d = &dataset{[]batch{{1}, {2}}}
		return nil
	})
	return d, err
}

// Functions are wrapped, with and without arguments, and nodes are switched off and on.
func ExampleWrapCall() {
	ctx := context.Background()
	d, err := newDataset(ctx)
	if err != nil {
		panic(err)
	}
	collate := ai.Wrap(ai.Data.Preprocess.Derive("collate"), func(b batch) batch { return b })
	step := ai.WrapCall(ai.Compute.With(attribute.String("arg1", "value1"), attribute.Int("arg2", 2)),
		func(ctx context.Context, b batch) (float64, error) {
			m := new(model)
			loss := m.forward(ctx, b)
			m.backward(ctx, loss)
			return loss, nil
		})
	for _, item := range d.items {
		if _, err := step(ctx, collate(item)); err != nil {
			panic(err)
		}
	}

	ai.Compute.Disable()
	defer ai.Compute.Enable()
	ai.Compute.Forward.Start(ctx).End() // not recorded
	forced := ai.Wrap(ai.Compute.Forward.ForceOn(), func(context.Context) error { return nil })
	if err := forced(ctx); err != nil {
		panic(err)
	}
	ai.Comm.AllReduce.ForceOff().Start(ctx).End() // not recorded
}

// The starts and ends of epochs are recorded at once, as metadata.
func ExampleNode_NoteStart() {
	ctx, m := context.Background(), new(model)
	for epoch := range 2 {
		ai.Pipeline.Epoch.NoteStart(ctx)
		for step := range 2 {
			ai.Update(ai.Step(step), ai.Epoch(epoch))
			m.forward(ctx, batch{1})
		}
		ai.Pipeline.Epoch.NoteEnd(ctx)
	}
}
