package main

import (
	"io"
	"math"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/examples/charlm/internal/checkpoint"
)

// ready returns a small trainer that is prepared for training.
func ready(t *testing.T, text string, more ...string) *trainer {
	t.Helper()
	opts, err := parseOptions(small(t.TempDir(), text, more...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	tr := newTrainer(opts, &reporter{out: io.Discard}, nil)
	ctx := t.Context()
	if err := tr.initDistributed(ctx); err != nil {
		t.Fatal(err)
	}
	if err := tr.prepareData(ctx); err != nil {
		t.Fatal(err)
	}
	if err := tr.initModel(ctx); err != nil {
		t.Fatal(err)
	}
	if err := tr.initOptimizer(ctx); err != nil {
		t.Fatal(err)
	}
	if err := tr.loadCheckpoint(ctx); err != nil {
		t.Fatal(err)
	}
	tr.startEpoch(ctx)
	t.Cleanup(func() {
		if err := tr.close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// half runs a step up to the all-reduce and returns the loss.
func half(t *testing.T, tr *trainer) float64 {
	t.Helper()
	ctx := t.Context()
	b, err := tr.nextBatch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.transfer(ctx, b); err != nil {
		t.Fatal(err)
	}
	clear(b.Inputs) // the replicas have their own copy
	clear(b.Targets)
	loss, err := tr.forward(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.zeroGrad(ctx); err != nil {
		t.Fatal(err)
	}
	if err := tr.backward(ctx); err != nil {
		t.Fatal(err)
	}
	if err := tr.allReduce(ctx); err != nil {
		t.Fatal(err)
	}
	return loss
}

// TestReplicasTrainAsOne checks that three replicas with unequal shares get the
// gradient of the whole batch, and that they stay equal.
func TestReplicasTrainAsOne(t *testing.T) {
	text := sourceTree(t)
	one := ready(t, text, "-replicas", "1")
	three := ready(t, text, "-replicas", "3")
	for step := range 5 {
		a, b := half(t, one), half(t, three)
		if math.Abs(a-b) > 1e-4 {
			t.Fatalf("step %d: loss %g with one replica, %g with three; want the same", step, a, b)
		}
		want := one.replicas[0].net.Grads()
		var largest float64
		for i, g := range three.replicas[0].net.Grads() {
			if math.Abs(float64(g-want[i])) > 1e-4 {
				t.Fatalf("step %d: gradient %d is %g with three replicas, want %g as with one", step, i, g, want[i])
			}
			largest = max(largest, math.Abs(float64(g)))
		}
		if largest < 1e-3 {
			t.Fatalf("step %d: the largest gradient is %g, want at least 1e-3", step, largest)
		}
		for _, tr := range []*trainer{one, three} {
			if err := tr.optimizerStep(t.Context()); err != nil {
				t.Fatal(err)
			}
			tr.finishStep(a)
		}
		for _, r := range three.replicas[1:] {
			if !slices.Equal(r.net.Params(), three.replicas[0].net.Params()) {
				t.Fatalf("step %d: replica %d has other weights than replica 0, want the same", step, r.rank)
			}
		}
	}
}

// TestAsyncSaveHoldsTheStepItWasAskedFor continues the training while the file
// is written.
func TestAsyncSaveHoldsTheStepItWasAskedFor(t *testing.T) {
	tr := ready(t, sourceTree(t))
	var want []float32
	var results []checkpoint.Result // appended by the only writer goroutine, read after awaitWriter
	for step := range 3 {
		loss := half(t, tr)
		if err := tr.optimizerStep(t.Context()); err != nil {
			t.Fatal(err)
		}
		tr.finishStep(loss)
		if step == 1 {
			want = slices.Clone(tr.replicas[0].net.Params())
			if err := tr.saveAsync(t.Context(), func(r checkpoint.Result) { results = append(results, r) }); err != nil {
				t.Fatal(err)
			}
			if tr.finalSaveDue() {
				t.Error("a final save is due right after a save")
			}
		}
	}
	if !tr.finalSaveDue() {
		t.Error("no final save is due one step after a save")
	}
	if err := tr.awaitWriter(); err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 || results[0].Err != nil || results[0].Step != 2 || results[0].End.Before(results[0].Start) {
		t.Fatalf("results %+v, want one of step 2", results)
	}
	state, err := checkpoint.Load(results[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	if state.Step != 2 || !slices.Equal(state.Params, want) {
		t.Error("the file does not hold the weights of step 2")
	}
	saved, err := tr.saveSync(t.Context())
	if err != nil || saved.Step != 3 || saved.Bytes == 0 {
		t.Errorf("saved %+v, %v; want step 3", saved, err)
	}
}

// TestEvaluationLearnsNothing also checks that an evaluation uses the same
// batches each time.
func TestEvaluationLearnsNothing(t *testing.T) {
	tr := ready(t, sourceTree(t))
	before := slices.Clone(tr.replicas[0].net.Params())
	pass := func() (losses []float64) {
		for b, err := range firstBatches(t.Context(), tr.valid, tr.opts.validateSteps) {
			if err != nil {
				t.Fatal(err)
			}
			loss, err := tr.lossOf(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			losses = append(losses, loss)
		}
		return losses
	}
	first := pass()
	if len(first) != 2 || !slices.Equal(first, pass()) {
		t.Errorf("two validations of the same weights differ: %v", first)
	}
	for b := range firstBatches(t.Context(), tr.test, tr.opts.testSteps) { // an early exit from a loop closes its loader
		if _, err := tr.lossOf(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		break
	}
	if !slices.Equal(before, tr.replicas[0].net.Params()) {
		t.Error("evaluating changed the weights")
	}
}

func TestLossThatIsNoNumberIsAnError(t *testing.T) {
	tr := ready(t, sourceTree(t))
	for i := range tr.replicas[0].net.Params() {
		tr.replicas[0].net.Params()[i] = float32(math.NaN())
	}
	b, err := tr.nextBatch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.transfer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if loss, err := tr.forward(t.Context()); err == nil {
		t.Errorf("loss %g, want an error", loss)
	}
}

func TestDrawFollowsTheProbabilities(t *testing.T) {
	probs := []float32{0.1, 0, 0.6, 0.3}
	for _, tt := range []struct {
		u    float32
		want uint8
	}{{0, 0}, {0.099, 0}, {0.11, 2}, {0.69, 2}, {0.71, 3}, {1.01, 2}} {
		if got := draw(probs, tt.u); got != tt.want {
			t.Errorf("draw(%g) = %d, want %d", tt.u, got, tt.want)
		}
	}
}
