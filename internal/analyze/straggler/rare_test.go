package straggler_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// TestRareCollective: ranks meet inside backward in each step, and in a recorded collective only after each
// epoch. The latter does not synchronize the steps.
func TestRareCollective(t *testing.T) {
	const ms = int64(1e6)
	s := straggler.New(nil)
	for rank := range 2 {
		at := int64(rank) * 1e12 // each rank has its own clock
		for n := range 60 {
			input, backward := 2*ms, 60*ms
			if rank == 1 {
				input, backward = 42*ms, 20*ms // its backward contains no wait
			}
			step := straggler.Step{Rank: rank, Number: int64(n)}
			add := func(p straggler.Phase, d int64) {
				step.Spans = append(step.Spans, straggler.Span{Phase: p, Start: at, End: at + d})
				at += d
			}
			add(straggler.Input, input+int64(n%3)*ms/10)
			add(straggler.Forward, 10*ms)
			add(straggler.Backward, backward)
			add(straggler.Optimizer, ms)
			if n%30 == 29 {
				add(straggler.Communication, ms)
			}
			s.Add(&step)
		}
	}
	if v := s.Verdict(); v.Kind != finding.SlowRanks || v.Cause != "input" || len(v.Ranks) != 1 || v.Ranks[0] != 1 {
		t.Errorf("got %s %v %s, want slow ranks [1] input: %s", v.Kind, v.Ranks, v.Cause, v.Sentence)
	}
}
