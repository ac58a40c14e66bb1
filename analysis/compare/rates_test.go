package compare_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/analysis/compare"
)

// kinds of runs: what disturbs the steps.
var kinds = []string{"quiet", "wandering", "pauses", "checkpoints"}

// simulate makes the periods of a run of 200 steps of 250 ms with a deviation of
// 1.5 % within the run; factor is the change of the whole run.
func simulate(rng *rand.Rand, kind string, factor float64) *compare.Run {
	phi := 0.5
	if kind == "wandering" {
		phi = 0.9
	}
	r := &compare.Run{Name: kind, WorldSize: 8}
	z := rng.NormFloat64()
	for s := range 200 {
		z = phi*z + math.Sqrt(1-phi*phi)*rng.NormFloat64()
		p := 250e6 * factor * math.Exp(0.015*z)
		if kind == "pauses" && rng.Float64() < 0.05 {
			p += 100e6 + 150e6*rng.Float64()
		}
		if kind == "checkpoints" && s%50 == 49 {
			p += 1000e6
		}
		r.Periods = append(r.Periods, p)
	}
	return r
}

// between is the factor by which runs of the same thing differ, for a deviation
// of 0.3 % between runs.
func between(rng *rand.Rand) float64 { return math.Exp(0.003 * rng.NormFloat64()) }

// TestRates compares 400 pairs of equal runs and, with -v, 200 with a change of
// 2 % and of 3 % each, and prints what was found.
func TestRates(t *testing.T) {
	if testing.Short() {
		t.Skip("400 pairs of runs: make test-long")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	alarms := 0
	for _, change := range []float64{0, 0.02, 0.03} {
		if change > 0 && !testing.Verbose() {
			continue
		}
		pairs := 50
		if change == 0 {
			pairs = 100
		}
		for _, kind := range kinds {
			got := map[compare.Kind]int{}
			for i := range pairs {
				a := simulate(rng, kind, between(rng))
				b := simulate(rng, kind, between(rng)*(1+change))
				r := compare.Runs(a, b, &compare.Options{Seed: uint64(i)})
				got[r.Kind]++
				if r.Kind == compare.Faster && change > 0 {
					t.Errorf("%s: a run that is slower by %.0f %% is called faster: %s", kind, 100*change, r.Median)
				}
			}
			if change == 0 {
				alarms += got[compare.Slower] + got[compare.Faster]
			}
			t.Logf("change %.0f %%, %-11s %3d pairs: %v", 100*change, kind, pairs, got)
		}
	}
	t.Logf("equal runs called different: %d of 400 (%.2f %%)", alarms, float64(alarms)/4)
	if alarms >= 4 {
		t.Errorf("%d of 400 pairs of equal runs are called different: want fewer than 1 %%", alarms)
	}
}

// TestRatesOfSets does the same for one run against ten, with a deviation of 1 %
// between runs, which a pair cannot see.
func TestRatesOfSets(t *testing.T) {
	if testing.Short() {
		t.Skip("400 sets of runs: make test-long")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	alarms, found := 0, 0
	loose := func() float64 { return math.Exp(0.01 * rng.NormFloat64()) }
	for range 400 {
		var base []*compare.Run
		for range 10 {
			base = append(base, simulate(rng, "quiet", loose()))
		}
		if k := compare.Against(base, simulate(rng, "quiet", loose()), nil).Kind; k == compare.Slower || k == compare.Faster {
			alarms++
		}
		if compare.Against(base, simulate(rng, "quiet", 1.05*loose()), nil).Kind == compare.Slower {
			found++
		}
	}
	t.Logf("sets of 10: equal runs called different %d of 400, +5 %% found %d of 400", alarms, found)
	// 1 % is nominal for each of median and mean; 12 of 400 is its upper end.
	if alarms > 12 {
		t.Errorf("%d of 400 equal runs are called different", alarms)
	}
	if found < 280 {
		t.Errorf("+5 %% was found %d times of 400", found)
	}
}
