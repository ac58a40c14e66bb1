package stats_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// TestMedians compares with sorting, in many orders and with many equal values.
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
			middle := (sorted[(n-1)/2] + sorted[n/2]) / 2
			if got := stats.Median(slices.Clone(x)); got != middle {
				t.Fatalf("median of %d values, kind %d: %v, want %v", n, kind, got, middle)
			}
		}
	}
	if !math.IsNaN(stats.Median(nil)) {
		t.Error("Median() of no values is a number, want NaN")
	}
}

func TestMedianIntAndNearestRank(t *testing.T) {
	for _, c := range []struct {
		x           []int64
		median      int64
		half, ninth float64
	}{
		{nil, -7, 0, 0},
		{[]int64{5}, 5, 5, 5},
		{[]int64{4, 1}, 2, 1, 4},
		{[]int64{9, 1, 5}, 5, 5, 9},
		{[]int64{math.MaxInt64, math.MaxInt64 - 2}, math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64},
		{[]int64{-3, -4, 10, 20}, 3, -3, 20},
	} {
		got := stats.MedianInt(c.x, -7)
		var sorted []float64
		for _, v := range c.x {
			sorted = append(sorted, float64(v))
		}
		if got != c.median || len(c.x) > 0 && (stats.NearestRank(sorted, 0.5) != c.half || stats.NearestRank(sorted, 0.9) != c.ninth) {
			t.Errorf("%v: median %d, want %d and the ranks of the table", c.x, got, c.median)
		}
	}
}

// Values of several threads, each nearly in order, are sorted like a stable
// sort.
func TestRuns(t *testing.T) {
	type value struct{ key, nth int }
	var runs stats.Runs[value]
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		var x []value
		for thread := range 1 + n%5 {
			for i := range rng.IntN(80) {
				key := 3*i + rng.IntN(1+n%40)
				if thread == 4 {
					key = rng.IntN(100)
				}
				x = append(x, value{key, len(x)})
			}
		}
		for range n % 4 { // spans that hold all others end last
			x = append(x, value{n % 7 / 3, len(x)})
		}
		want := slices.Clone(x)
		slices.SortStableFunc(want, func(a, b value) int { return cmp.Compare(a.key, b.key) })
		runs.Sort(x, func(a, b *value) int { return cmp.Compare(a.key, b.key) })
		if !slices.Equal(x, want) {
			t.Fatalf("%v, want %v", x, want)
		}
	}
}

func TestMean(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{1, 2, 6}, 3}, {[]float64{-1, 1}, 0}} {
		if got := stats.Mean(c.x); got != c.want {
			t.Errorf("Mean(%v) = %v, want %v", c.x, got, c.want)
		}
	}
	if got := stats.Mean([]float64{1, math.NaN()}); !math.IsNaN(got) {
		t.Errorf("Mean of a NaN = %v, want NaN", got)
	}
}
