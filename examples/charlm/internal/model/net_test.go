package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/examples/charlm/internal/model"
)

// shapes cover every edge of the tiled products: sizes below, at and above the
// tiles, and odd remainders in rows, inputs and outputs.
var shapes = []struct {
	name string
	cfg  model.Config
	rows int
}{
	{"one row", model.Config{Vocab: 5, Context: 2, Embed: 3, Hidden: 4, Layers: 1}, 1},
	{"full tiles", model.Config{Vocab: 8, Context: 2, Embed: 4, Hidden: 8, Layers: 1}, 4},
	{"remainders", model.Config{Vocab: 7, Context: 3, Embed: 3, Hidden: 5, Layers: 2}, 7},
	{"two row blocks", model.Config{Vocab: 6, Context: 1, Embed: 2, Hidden: 3, Layers: 3}, 35},
}

func randomBatch(cfg model.Config, rows int, seed uint64) (inputs, targets []uint8) {
	rng := rand.New(rand.NewPCG(seed, 1))
	inputs, targets = make([]uint8, rows*cfg.Context), make([]uint8, rows)
	for i := range inputs {
		inputs[i] = uint8(rng.IntN(cfg.Vocab))
	}
	for i := range targets {
		targets[i] = uint8(rng.IntN(cfg.Vocab))
	}
	return inputs, targets
}

func newNet[T model.Float](t testing.TB, cfg model.Config, rows int) *model.Net[T] {
	t.Helper()
	n, err := model.New[T](cfg, rows)
	if err != nil {
		t.Fatal(err)
	}
	n.Init(3)
	return n
}

// TestBackwardMatchesFiniteDifferences checks every weight: a small change of
// it must change the loss by its gradient.
func TestBackwardMatchesFiniteDifferences(t *testing.T) {
	for _, tt := range shapes {
		t.Run(tt.name, func(t *testing.T) {
			n := newNet[float64](t, tt.cfg, tt.rows)
			for i := range n.Params() { // also the biases and the output layer
				n.Params()[i] += 0.3 * math.Sin(float64(i))
			}
			inputs, targets := randomBatch(tt.cfg, tt.rows, 9)
			scale := 1 / float64(tt.rows)
			loss := func() float64 {
				l, err := n.Forward(inputs, targets)
				if err != nil {
					t.Fatal(err)
				}
				return l * scale
			}
			loss()
			n.ZeroGrad()
			n.Backward(scale)
			const eps = 1e-5
			var largest float64
			for i, g := range n.Grads() {
				keep := n.Params()[i]
				n.Params()[i] = keep + eps
				up := loss()
				n.Params()[i] = keep - eps
				down := loss()
				n.Params()[i] = keep
				want := (up - down) / (2 * eps)
				if math.Abs(g-want) > 1e-8+1e-6*math.Abs(want) {
					t.Fatalf("weight %d: backward says %g, finite difference %g", i, g, want)
				}
				largest = max(largest, math.Abs(g))
			}
			if largest < 1e-2 {
				t.Fatalf("largest gradient is %g, want at least 1e-2: the check would pass on zeros", largest)
			}
		})
	}
}

// TestFloat32FollowsFloat64 compares the type for training with the type for
// checks.
func TestFloat32FollowsFloat64(t *testing.T) {
	for _, tt := range shapes {
		t.Run(tt.name, func(t *testing.T) {
			a, b := newNet[float32](t, tt.cfg, tt.rows), newNet[float64](t, tt.cfg, tt.rows)
			inputs, targets := randomBatch(tt.cfg, tt.rows, 4)
			la, err := a.Forward(inputs, targets)
			if err != nil {
				t.Fatal(err)
			}
			lb, err := b.Forward(inputs, targets)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(la-lb) > 1e-4*lb {
				t.Errorf("loss %g in float32, want %g as in float64", la, lb)
			}
			a.Backward(1)
			b.Backward(1)
			for i, g := range b.Grads() {
				if math.Abs(float64(a.Grads()[i])-g) > 1e-4*(1+math.Abs(g)) {
					t.Fatalf("gradient %d is %g in float32, want %g as in float64", i, a.Grads()[i], g)
				}
			}
		})
	}
}

func TestBackwardAddsUntilZeroed(t *testing.T) {
	tt := shapes[2]
	n := newNet[float64](t, tt.cfg, tt.rows)
	inputs, targets := randomBatch(tt.cfg, tt.rows, 2)
	pass := func() {
		if _, err := n.Forward(inputs, targets); err != nil {
			t.Fatal(err)
		}
		n.Backward(1)
	}
	pass()
	once := append([]float64(nil), n.Grads()...)
	pass()
	for i, g := range n.Grads() {
		if math.Abs(g-2*once[i]) > 1e-12 {
			t.Fatalf("gradient %d is %g after two passes, want %g", i, g, 2*once[i])
		}
	}
	n.Backward(1) // no forward pass since the last one: adds nothing
	n.ZeroGrad()
	for i, g := range n.Grads() {
		if g != 0 {
			t.Fatalf("gradient %d is %g after ZeroGrad, want 0", i, g)
		}
	}
}

func TestUntrainedLossIsTheUniformGuess(t *testing.T) {
	cfg := model.Config{Vocab: 129, Context: 8, Embed: 8, Hidden: 16, Layers: 2}
	n := newNet[float32](t, cfg, 64)
	inputs, targets := randomBatch(cfg, 64, 5)
	loss, err := n.Forward(inputs, targets)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := loss/64, math.Log(129); math.Abs(got-want) > 0.05 {
		t.Errorf("loss %g, want about ln 129 = %g", got, want)
	}
}

func TestPredictGivesProbabilities(t *testing.T) {
	cfg := shapes[2].cfg
	n := newNet[float32](t, cfg, 1)
	warm, cold := make([]float32, cfg.Vocab), make([]float32, cfg.Vocab)
	if err := n.Predict(warm, []uint8{1, 2, 3}, 1); err != nil {
		t.Fatal(err)
	}
	if err := n.Predict(cold, []uint8{1, 2, 3}, 0.1); err != nil {
		t.Fatal(err)
	}
	var sum, top, topCold float32
	for i, p := range warm {
		sum, top, topCold = sum+p, max(top, p), max(topCold, cold[i])
	}
	if math.Abs(float64(sum)-1) > 1e-5 {
		t.Errorf("probabilities sum to %g, want 1", sum)
	}
	if topCold <= top {
		t.Errorf("best guess at a low temperature: %g, want more than %g", topCold, top)
	}
}

func TestBadInputIsAnError(t *testing.T) {
	cfg := shapes[0].cfg
	n := newNet[float32](t, cfg, 2)
	for _, tt := range []struct {
		name            string
		inputs, targets []uint8
	}{
		{"no rows", nil, nil},
		{"too many rows", make([]uint8, 6), make([]uint8, 3)},
		{"inputs too short", make([]uint8, 3), make([]uint8, 2)},
		{"input outside vocabulary", []uint8{0, 5}, []uint8{0}},
		{"target outside vocabulary", []uint8{0, 4}, []uint8{5}},
	} {
		if _, err := n.Forward(tt.inputs, tt.targets); err == nil {
			t.Errorf("%s: no error, want one", tt.name)
		}
	}
	if _, err := model.New[float32](model.Config{Vocab: 300}, 1); err == nil {
		t.Error("New with five wrong fields: no error, want one")
	}
	if _, err := model.New[float32](cfg, 0); err == nil {
		t.Error("New without rows: no error, want one")
	}
}

// TestFLOPsAgainstCountedProducts recounts from the weights: every weight of a
// linear layer takes one multiply-add forward and two backward, and the rest
// of the parameters (embedding, biases) takes none.
func TestFLOPsAgainstCountedProducts(t *testing.T) {
	for _, tt := range shapes {
		c := tt.cfg
		biases := c.Layers*c.Hidden + c.Vocab
		weights := c.NumParams() - c.Vocab*c.Embed - biases
		if got, want := c.FLOPsPerSample(), int64(6*weights); got != want {
			t.Errorf("%s: %d operations, want %d", tt.name, got, want)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, hidden := range []int{128, 192} {
		b.Run(fmt.Sprintf("hidden=%d", hidden), func(b *testing.B) {
			cfg := model.Config{Vocab: 129, Context: 16, Embed: 16, Hidden: hidden, Layers: 2}
			const rows = 128
			n := newNet[float32](b, cfg, rows)
			adam := model.NewAdam(cfg.NumParams(), 1e-3)
			inputs, targets := randomBatch(cfg, rows, 1)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := n.Forward(inputs, targets); err != nil {
					b.Fatal(err)
				}
				n.ZeroGrad()
				n.Backward(1.0 / rows)
				if err := adam.Update(n.Params(), n.Grads()); err != nil {
					b.Fatal(err)
				}
			}
			flops := float64(cfg.FLOPsPerSample()) * rows * float64(b.N)
			b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
