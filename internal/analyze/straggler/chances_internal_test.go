package straggler

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// byPosition transposes series: the values of all series by position.
func byPosition(series [][]float64) [][]float64 {
	out := make([][]float64, len(series[0]))
	for b := range out {
		for _, x := range series {
			out[b] = append(out[b], x[b])
		}
	}
	return out
}

// plainly permutes the values at each position among the series and returns the largest statistic of a
// complete series.
func plainly(rng *rand.Rand, series [][]float64, statistic func([]float64) float64) float64 {
	for b := range series[0] {
		for i := len(series) - 1; i > 0; i-- {
			o := rng.IntN(i + 1)
			series[i][b], series[o][b] = series[o][b], series[i][b]
		}
	}
	largest := math.Inf(-1)
	for _, x := range series {
		largest = max(largest, statistic(x))
	}
	return largest
}

// TestPermutedMeans: dropping series that cannot reach the least mean does not change the probabilities.
func TestPermutedMeans(t *testing.T) {
	const draws = 20000
	rng := rand.New(rand.NewPCG(1, 2))
	series := make([][]float64, 12)
	for i := range series {
		for range 7 {
			series[i] = append(series[i], 3+rng.NormFloat64())
		}
	}
	series[4][0], series[4][3] = 6, 5.5
	for _, least := range []float64{3.5, 4, 4.3, 4.6, 5} {
		largest := permutedMeans(byPosition(series))
		got, want := 0.0, 0.0
		for range draws {
			if largest(rng, least) >= least {
				got += 1.0 / draws
			}
			if plainly(rng, series, stats.Mean) >= least {
				want += 1.0 / draws
			}
		}
		if most := 4*math.Sqrt(2*want*(1-want)/draws) + 1e-3; math.Abs(got-want) > most {
			t.Errorf("the largest mean is %v or more with a chance of %.4f, want %.4f ± %.4f", least, got, want, most)
		}
	}
}

func TestPermutedRises(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	series := make([][]float64, 9)
	for i := range series {
		for range 11 {
			series[i] = append(series[i], rng.NormFloat64())
		}
	}
	largest := permutedRises(byPosition(series))
	a, b := rand.New(rand.NewPCG(5, 6)), rand.New(rand.NewPCG(5, 6))
	for k := range 50 {
		if got, want := largest(a, 0), plainly(b, series, largestRise); math.Abs(got-want) > 1e-12 {
			t.Fatalf("the largest rise of permutation %d is %v, want %v", k, got, want)
		}
	}
}

// counter counts the random numbers drawn.
type counter struct {
	*rand.PCG
	n int
}

func (c *counter) Uint64() uint64 { c.n++; return c.PCG.Uint64() }

// TestPermutedMeansOfManyRanks: a slow rank among thousands costs a few random numbers per permutation, not
// one per rank and block.
func TestPermutedMeansOfManyRanks(t *testing.T) {
	const ranks, blocks, draws = 10240, 50, 100
	rng := rand.New(rand.NewPCG(7, 8))
	series := make([][]float64, ranks)
	for i := range series {
		for range blocks {
			series[i] = append(series[i], rng.NormFloat64())
		}
	}
	for b := range series[ranks/3] {
		series[ranks/3][b] += 12
	}
	own, c := stats.Mean(series[ranks/3]), &counter{PCG: rand.NewPCG(9, 10)}
	largest, random := permutedMeans(byPosition(series)), rand.New(c)
	for range draws {
		if got := largest(random, own); got >= own {
			t.Fatalf("permuted ranks have a mean of %v, want less than %v", got, own)
		}
	}
	if c.n > 100*draws {
		t.Errorf("%d random numbers in %d permutations, want 100 at most in each", c.n, draws)
	}
}
