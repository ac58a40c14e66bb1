package straggler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// judged returns a job of the given number of ranks and rounds, in which a step takes 100 ms.
func judged(ranks, rounds int) *job {
	return &job{graph: &graph{ranks: make([]int, ranks), info: make([]Rank, ranks), steps: make([]int64, rounds), usual: 100e3}}
}

// TestBurstsOfRareWork: rounds without the work do not lower its usual time.
func TestBurstsOfRareWork(t *testing.T) {
	for name, c := range map[string]struct {
		x    []float64 // by round, repeated
		many int
	}{
		"in every round":      {[]float64{10e3, 11e3, 9e3, 10e3, 40e3}, 20},
		"in two of five":      {[]float64{0, 0, 0, 10e3, 10e3, 0, 0, 0, 10e3, 40e3}, 10},
		"none in every round": {[]float64{10e3, 11e3, 9e3, 10e3, 10e3}, 0},
		"none in two of five": {[]float64{0, 0, 0, 10e3, 10e3}, 0},
	} {
		x := slices.Repeat(c.x, 100/len(c.x))
		l, ok := judged(2, len(x)).bursts(x)
		if ok != (c.many > 0) || l.many != c.many {
			t.Errorf("%s: %d bursts, %v; want %d", name, l.many, ok, c.many)
		}
		if ok && (math.Abs(l.before-10e3) > 1 || l.after != 40e3) {
			t.Errorf("%s: bursts from %.0f to %.0f us, want from 10000 to 40000", name, l.before, l.after)
		}
	}
}

// TestNoiseOf: the autocorrelation is an upper bound, which is the closer, the more values there are.
func TestNoiseOf(t *testing.T) {
	const rounds = 40
	for ranks := 1; ranks < 6; ranks++ {
		rng := rand.New(rand.NewPCG(uint64(ranks), 1))
		series, rhos := make([][]float64, ranks), make([]float64, ranks)
		for i := range series {
			for range rounds {
				series[i] = append(series[i], rng.NormFloat64())
			}
			_, rhos[i] = deviation(level(series[i], 0, rounds, stats.Mean(series[i]), 0), 1)
		}
		rho := stats.Median(rhos)
		values := float64(rounds * max(ranks-1, 1)) // the excesses of all ranks in a round add up to about 0
		if got, want := noiseOf(series).rho, rho+1.5*math.Sqrt((1-rho*rho)/values); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d ranks: autocorrelation %.4f, want %.4f", ranks, got, want)
		}
	}
}

// TestHasQueues: batches come from queues if a tenth of the fetches of a rank is quick and others waited, or
// if the loader is known to work ahead.
func TestHasQueues(t *testing.T) {
	const rounds = 20
	for name, c := range map[string]struct {
		fast, waited int // fetches of the second rank; the others take 1 ms
		loader       Loader
		want         bool
	}{
		"a tenth is quick":           {2, 5, 0, true},
		"less is quick":              {1, 5, 0, false},
		"no fetch waited":            {10, 0, 0, false},
		"one fetch waited":           {10, 1, 0, true},
		"the loader works ahead":     {0, 0, LoaderAhead, true},
		"the loader does not, known": {2, 5, LoaderDirect, false},
	} {
		j := judged(2, rounds)
		j.info[0].Loader = c.loader
		x := make([]float32, 2*rounds)
		for s := range rounds {
			x[2*s], x[2*s+1] = 1000, 1000
			switch {
			case s < c.fast:
				x[2*s+1] = queueUsual - 1
			case s < c.fast+c.waited:
				x[2*s+1] = 2 * queueWaited * 100e3
			}
		}
		if got := j.hasQueues(x); got != c.want {
			t.Errorf("%s: hasQueues() = %v, want %v", name, got, c.want)
		}
	}
}
