package robust_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/robust"
)

// TestMedians compares with sorting, in many orders and with many ties.
func TestMedians(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 400; n += 1 + n/20 {
		for kind := range 5 {
			x := make([]float64, n)
			for i := range x {
				switch kind {
				case 0:
					x[i] = rng.NormFloat64()
				case 1:
					x[i] = float64(rng.IntN(3))
				case 2:
					x[i] = float64(i)
				case 3:
					x[i] = float64(-i)
				case 4:
					x[i] = math.Abs(float64(i) - float64(n)/2)
				}
			}
			sorted := slices.Sorted(slices.Values(x))
			lower := sorted[(n-1)/2]
			middle := (lower + sorted[n/2]) / 2
			if got := robust.Median(slices.Clone(x)); got != middle {
				t.Fatalf("median of %d values, kind %d: %v, want %v", n, kind, got, middle)
			}
			if got := robust.LowerMedian(slices.Clone(x)); got != lower {
				t.Fatalf("lower median of %d values, kind %d: %v, want %v", n, kind, got, lower)
			}
		}
	}
	if !math.IsNaN(robust.Median(nil)) || !math.IsNaN(robust.LowerMedian(nil)) {
		t.Error("the median of nothing is a number")
	}
}
