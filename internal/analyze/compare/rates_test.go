package compare_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/compare"
)

// noise describes the disturbances of the steps of a run.
type noise struct {
	name   string
	steps  int
	sd     float64
	phi    float64 // lag-1 correlation
	heavy  bool    // three degrees of freedom
	runs   float64 // spread between equal runs
	pauses float64 // share of steps
	saves  int     // steps between checkpoints
	// Requirements: at most alarms of 100 equal runs are called different, and +3 %
	// is found in found of 100.
	alarms, found float64
}

var noises = []noise{
	{name: "independent", steps: 300, sd: 0.02, alarms: 2, found: 90},
	{name: "heavy tails (t, 3)", steps: 300, sd: 0.02, heavy: true, alarms: 2, found: 90},
	{name: "correlation 0.5", steps: 300, sd: 0.02, phi: 0.5, alarms: 2, found: 90},
	{name: "correlation 0.9", steps: 300, sd: 0.02, phi: 0.9, alarms: 2, found: 90},
	{name: "correlation 0.9, heavy tails", steps: 300, sd: 0.02, phi: 0.9, heavy: true, alarms: 2, found: 90},
	{name: "correlation 0.97", steps: 300, sd: 0.02, phi: 0.97, alarms: 2},
	{name: "0.3 % between runs", steps: 300, sd: 0.015, phi: 0.5, runs: 0.003, alarms: 2, found: 90},
	{name: "the same, pauses in 5 %", steps: 300, sd: 0.015, phi: 0.5, runs: 0.003, pauses: 0.05, alarms: 2, found: 90},
	{name: "the same, checkpoints", steps: 300, sd: 0.015, phi: 0.5, runs: 0.003, saves: 50, alarms: 2, found: 90},
}

// run returns the periods of a run with steps of 250 ms; factor is the change
// of the whole run.
func (n *noise) run(rng *rand.Rand, factor float64) *compare.Run {
	r := &compare.Run{Name: n.name, WorldSize: 8}
	draw := func() float64 {
		if !n.heavy {
			return rng.NormFloat64()
		}
		var chi float64
		for range 3 {
			g := rng.NormFloat64()
			chi += g * g
		}
		return rng.NormFloat64() / math.Sqrt(chi) // t over √3: of deviation 1
	}
	factor *= math.Exp(n.runs * rng.NormFloat64())
	z := rng.NormFloat64()
	for s := range n.steps {
		z = n.phi*z + math.Sqrt(1-n.phi*n.phi)*draw()
		p := 250e6 * factor * math.Exp(n.sd*z)
		if rng.Float64() < n.pauses {
			p += 100e6 + 150e6*rng.Float64()
		}
		if n.saves > 0 && s%n.saves == n.saves-1 {
			p += 1000e6
		}
		r.Periods = append(r.Periods, p)
	}
	return r
}

// TestRates compares pairs of equal runs and pairs with a change, by the noise
// of their steps, and prints the verdicts per 100 pairs.
// docs/guide/comparing.md has some of the rows.
func TestRates(t *testing.T) {
	pairs := 1000
	if testing.Short() {
		pairs = 200
	}
	t.Logf("%-29s %8s %8s %13s | %8s %13s | %8s %13s", "of 100 pairs", "alarms", "the same", "inconclusive", "+2 %", "inconclusive", "+3 %", "inconclusive")
	for _, n := range noises {
		line := fmt.Sprintf("%-29s", n.name)
		rng := rand.New(rand.NewPCG(1, 2))
		for _, change := range []float64{0, 0.02, 0.03} {
			got := map[compare.Kind]float64{}
			for range pairs {
				got[compareRuns(n.run(rng, 1), n.run(rng, 1+change), nil).Kind] += 100 / float64(pairs)
			}
			if change == 0 {
				line += fmt.Sprintf(" %8.1f %8.1f %13.1f", got[compare.Slower]+got[compare.Faster], got[compare.NoDifference], got[compare.Inconclusive])
			} else {
				line += fmt.Sprintf(" | %8.1f %13.1f", got[compare.Slower], got[compare.Inconclusive])
			}
			switch {
			case change == 0 && got[compare.Slower]+got[compare.Faster] > n.alarms:
				t.Errorf("%s: %.1f of 100 equal runs are called different, at most %.0f may be", n.name, got[compare.Slower]+got[compare.Faster], n.alarms)
			case change == 0.03 && got[compare.Slower] < n.found:
				t.Errorf("%s: +3 %% is found in %.1f of 100, want %.0f", n.name, got[compare.Slower], n.found)
			case change == 0.03 && got[compare.Faster]+got[compare.NoDifference] > 0.5:
				t.Errorf("%s: a change of +3 %% gives %v, want at most 0.5 %% called faster or no difference", n.name, got)
			}
		}
		t.Log(line)
	}
}

// TestRatesOfSets does the same for one run against ten, with a deviation of 1
// % between runs, which a pair cannot detect, and for two on each side, with
// 0.1 %.
func TestRatesOfSets(t *testing.T) {
	if testing.Short() {
		t.Skip("800 sets of runs: make test-long")
	}
	for _, c := range []struct {
		base, next    int
		runs, change  float64
		alarms, found float64
	}{
		{10, 1, 0.01, 0.05, 3, 80},
		{3, 3, 0.003, 0.03, 2, 90},
	} {
		n := noise{steps: 200, sd: 0.015, phi: 0.5, runs: c.runs}
		rng := rand.New(rand.NewPCG(3, 4))
		var alarms, found float64
		for range 400 {
			var base, equal, slower []*compare.Run
			for range c.base {
				base = append(base, n.run(rng, 1))
			}
			for range c.next {
				equal, slower = append(equal, n.run(rng, 1)), append(slower, n.run(rng, 1+c.change))
			}
			if k := compare.Sides(base, equal, nil).Kind; k == compare.Slower || k == compare.Faster {
				alarms += 0.25
			}
			if compare.Sides(base, slower, nil).Kind == compare.Slower {
				found += 0.25
			}
		}
		t.Logf("%d and %d runs, %.1f %% between runs: of 100 equal sets %.1f called different, +%.0f %% found in %.1f", c.base, c.next, 100*c.runs, alarms, 100*c.change, found)
		if alarms > c.alarms || found < c.found {
			t.Errorf("%.1f of 100 equal sets called different, want at most %.0f; +%.0f %% found in %.1f, want at least %.0f", alarms, c.alarms, 100*c.change, found, c.found)
		}
	}
}

// TestRatesOfPairs makes runs alternately on a machine that other work slows by
// 2 % at times. This does not affect pairs; the runs of a pair differ by 0.3 %.
// docs/guide/comparing.md has the rates.
func TestRatesOfPairs(t *testing.T) {
	draws := 400
	if testing.Short() {
		draws = 100
	}
	for _, c := range []struct {
		pairs         int
		alarms, found float64
	}{{5, 2, 90}, {8, 2, 90}} {
		n := noise{steps: 100, sd: 0.02, phi: 0.5, runs: 0.003}
		rng := rand.New(rand.NewPCG(7, 8))
		count := func(paired bool, change float64) (slower, different float64) {
			for range draws {
				var base, next []*compare.Run
				for range c.pairs {
					load := math.Exp(0.02 * rng.NormFloat64())
					base, next = append(base, n.run(rng, load)), append(next, n.run(rng, load*(1+change)))
				}
				switch compare.Sides(base, next, &compare.Options{Paired: paired}).Kind {
				case compare.Slower:
					slower, different = slower+100/float64(draws), different+100/float64(draws)
				case compare.Faster:
					different += 100 / float64(draws)
				}
			}
			return slower, different
		}
		_, alarms := count(true, 0)
		found, _ := count(true, 0.03)
		apart, _ := count(false, 0.03)
		t.Logf("%d pairs: of 100 equal ones %.1f called different, +3 %% found in %.1f; without pairing in %.1f", c.pairs, alarms, found, apart)
		if alarms > c.alarms || found < c.found {
			t.Errorf("%d pairs: %.1f alarms and %.1f found of 100, want at most %.0f and at least %.0f", c.pairs, alarms, found, c.alarms, c.found)
		}
		if apart >= found {
			t.Errorf("%d pairs: without pairing +3 %% is found in %.1f, want fewer than %.1f", c.pairs, apart, found)
		}
	}
}
