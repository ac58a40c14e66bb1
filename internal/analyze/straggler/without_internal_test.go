package straggler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// TestMedianWithout: the result is the median of the values without the rank's own value.
func TestMedianWithout(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		x := make([]float64, 2+rng.IntN(9))
		for i := range x {
			x[i] = float64(rng.IntN(6))
		}
		slices.Sort(x)
		for i, v := range x {
			others := slices.Delete(slices.Clone(x), i, i+1)
			if got, want := medianWithout(x, v), stats.Median(others); got != want {
				t.Fatalf("%v without %v: %v, want %v", x, v, got, want)
			}
		}
	}
}
