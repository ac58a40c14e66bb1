package straggler

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// TestMoments: the correlation of pairs added one by one equals that of their columns, also far from zero.
func TestMoments(t *testing.T) {
	for _, tt := range []struct{ at, follows float64 }{{0, 0}, {1e9, 0.5}, {-1e6, 1}} {
		rng := rand.New(rand.NewPCG(1, 2))
		var m moments
		var x, y []float64
		for range 5000 {
			a := tt.at + rng.NormFloat64()
			b := tt.follows*(a-tt.at) + rng.NormFloat64()
			x, y = append(x, a), append(y, b)
			m.add(a, b)
		}
		if got, want := m.correlation(), stat.Correlation(x, y, nil); math.Abs(got-want) > 1e-6 {
			t.Errorf("at %g: %g, want %g", tt.at, got, want)
		}
	}
	var same moments
	same.add(1, 2)
	same.add(1, 3)
	if !math.IsNaN(same.correlation()) {
		t.Error("a constant counts as correlated, want not")
	}
}
