package straggler_test

import (
	"math"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// TestCommonLoss: slowdowns that all ranks share, for an interval, in single steps or growing, are found.
func TestCommonLoss(t *testing.T) {
	compute := []straggler.Phase{straggler.Forward, straggler.Backward}
	for _, tt := range []struct {
		name     string
		fault    fault
		kind     finding.Kind
		from, to int64
		pattern  string
	}{
		{"network for 25 steps", fault{phases: []straggler.Phase{straggler.Communication}, factor: 4, from: 60, to: 85}, finding.SlowTransfer, 60, 85, "most_steps"},
		{"compute for 40 steps", fault{phases: compute, factor: 1.3, from: 50, to: 90}, finding.Drift, 50, 90, "most_steps"},
		{"network every few steps", fault{phases: []straggler.Phase{straggler.Communication}, factor: 5, prob: 0.15}, finding.SlowTransfer, 0, -1, "single_steps"},
		{"compute grows", fault{phases: compute, factor: 1.4, ramp: 160}, finding.Drift, 0, -1, "growing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := job{n: 8, m: 160, seed: 5, faults: []fault{tt.fault}}.state().Verdict()
			off := 4.0
			if tt.pattern == "growing" {
				off = 160/8 + 1 // distance between candidate starts of growth
			}
			near := func(a, b int64) bool { return math.Abs(float64(a-b)) <= off }
			if v.Kind != tt.kind || len(v.Ranks) > 0 || !near(v.FromStep, tt.from) || !near(v.ToStep, tt.to) || v.Pattern != tt.pattern {
				t.Errorf("Verdict() = %s %v, steps %d to %d, %q; want %s, steps %d to %d, %q: %s",
					v.Kind, v.Ranks, v.FromStep, v.ToStep, v.Pattern, tt.kind, tt.from, tt.to, tt.pattern, v.Sentence)
			}
		})
	}
}
