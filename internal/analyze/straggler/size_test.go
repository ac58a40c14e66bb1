package straggler_test

import (
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// microsecondSteps returns n steps of a rank with times in whole microseconds, as in a trace.
func microsecondSteps(n int) []straggler.Step {
	rng := rand.New(rand.NewPCG(7, 8))
	at := int64(1_800_000_000_000_000)
	took := func(usual float64) int64 { return int64(usual * (1 + 0.02*rng.NormFloat64())) }
	out := make([]straggler.Step, n)
	for i := range out {
		st := &out[i]
		st.Number, st.Tokens = int64(i), 2048
		for p, usual := range [...]float64{3000, 700, 14000, 26000, 6000, 4000} {
			phase := [...]straggler.Phase{straggler.Input, straggler.Transfer, straggler.Forward, straggler.Backward, straggler.Communication, straggler.Optimizer}[p]
			end := at + took(usual)
			st.Spans = append(st.Spans, straggler.Span{Phase: phase, Start: 1000 * at, End: 1000 * end})
			at = end
		}
	}
	return out
}

// TestStepsAreSmall checks the packed size of a step, and that adding one needs few allocations: a job of a
// thousand ranks has a million steps.
func TestStepsAreSmall(t *testing.T) {
	const n = 4096
	steps := microsecondSteps(n)
	st := straggler.New(nil)
	add := func() {
		for i := range steps {
			st.Add(&steps[i])
		}
	}
	if allocs := testing.AllocsPerRun(1, func() { st = straggler.New(nil); add() }); allocs > n+n/4 { // one per step; the race detector adds some
		t.Errorf("%.0f allocations for %d steps, want at most 1.25 a step", allocs, n)
	}
	packed, err := st.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	each := float64(len(packed)) / n
	t.Logf("%.1f bytes a step", each)
	if each > 30 || st.Len() != n {
		t.Errorf("%.1f bytes for each of %d steps, want at most 30", each, st.Len())
	}
}
