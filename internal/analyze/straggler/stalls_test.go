package straggler_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// TestRandomPausesNameNobody draws jobs whose ranks all pause at random; no rank may be named.
func TestRandomPausesNameNobody(t *testing.T) {
	for _, n := range []int{4, 8, 16} {
		for seed := range uint64(40) {
			j := job{n: n, m: 80, seed: seed + 1, faults: []fault{{phases: []straggler.Phase{straggler.Host}, add: 350, prob: 0.02, anyone: true}}}
			if v := j.state().Verdict(); v.Kind == finding.SlowRanks {
				t.Errorf("%d ranks, seed %d: %s %v, want no rank named: %s", n, seed+1, v.Kind, v.Ranks, v.Sentence)
			}
		}
	}
}
