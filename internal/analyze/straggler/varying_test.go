package straggler_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// varying returns the verdict on a job of two ranks. Rank 1 is late in every step by a varying amount, as on
// a shared processor. kind is the kind of variation, rho its autocorrelation.
func varying(kind string, steps int, rho float64, seed uint64) *straggler.Verdict {
	rng := rand.New(rand.NewPCG(seed, 1))
	st := straggler.New(&straggler.Options{WorldSize: 2})
	begin, ar := int64(1_700_000_000e9), 0.0
	for s := range int64(steps) {
		var arrives, forward [2]int64
		for r := range 2 {
			f, own := 2e6+0.3e6*rng.NormFloat64(), 4.5e6+0.4e6*rng.NormFloat64()
			if r == 1 {
				ar = rho*ar + math.Sqrt(1-rho*rho)*rng.NormFloat64()
				switch kind {
				case "wanders":
					own = 6e6 + max(8e6+5e6*ar, 0)
				case "wanders far": // several times its mean
					own = 6e6 + max(20e6+20e6*ar, 0)
				case "slices": // scheduler time slices of 4 ms
					own = 4.8e6 + 4e6*math.Floor(1+math.Exp(0.9*ar+0.2))
				}
				f *= own / 4.5e6
			}
			forward[r], arrives[r] = int64(max(f, 1e5)), int64(own+max(f, 1e5))
		}
		end := max(arrives[0], arrives[1]) + 1e6
		for r := range 2 {
			st.Add(&straggler.Step{Rank: r, Number: s, Start: begin, End: begin + end + 1e5, Spans: []straggler.Span{
				{Phase: straggler.Forward, Start: begin, End: begin + forward[r]},
				{Phase: straggler.Backward, Start: begin + forward[r], End: begin + arrives[r]},
				{Phase: straggler.Communication, Start: begin + arrives[r], End: begin + end, Op: "all_reduce"},
			}})
		}
		begin += end + 1e5
	}
	return st.Verdict()
}

// TestLateByVaryingTimes: a rank that is late in every step is named, however its excess varies.
func TestLateByVaryingTimes(t *testing.T) {
	for _, c := range []struct {
		kind  string
		steps int
		rho   float64
		seed  uint64
	}{{"slices", 60, 0.9, 9}, {"slices", 60, 0.9, 1}, {"slices", 26, 0, 2}, {"wanders", 60, 0.9, 3}, {"wanders", 200, 0.98, 4}, {"wanders far", 60, 0.95, 5}, {"wanders far", 60, 0.95, 6}, {"wanders far", 60, 0.95, 7}} {
		v := varying(c.kind, c.steps, c.rho, c.seed)
		if v.Kind != finding.SlowRanks || !slices.Equal(v.Ranks, []int{1}) || v.Gain < 1.5 {
			t.Errorf("%+v: %s %v, gain %.2f; want slow_ranks [1], gain above 1.5: %s", c, v.Kind, v.Ranks, v.Gain, v.Sentence)
		}
	}
}
