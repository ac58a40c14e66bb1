package straggler_test

import (
	"math"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// TestBursts draws jobs in which all ranks are slower in single steps, periodically or irregularly. The gain
// must match a run of the same job without the bursts.
func TestBursts(t *testing.T) {
	jobs := 8
	if testing.Short() {
		jobs = 2
	}
	for _, tc := range []struct {
		name, kind string
		slow       func(step int) float64 // ms
		every      int
	}{
		{"every 10 steps", "iid 2 %", every(10, 150), 10},
		{"every 7 steps, by 60 ms", "iid 6 %", every(7, 60), 7},
		{"three steps", "AR(0.9) 2 %", func(s int) float64 { return map[int]float64{12: 900, 33: 1100, 51: 1000}[s] }, 0},
		{"two in a row every 15 steps", "iid 2 %", func(s int) float64 { return every(15, 100)(s) + every(15, 100)(s+1) }, 15},
		{"every 20 steps, lognormal", "lognormal 0.3", every(20, 1200), 20},
	} {
		for seed := range uint64(jobs) {
			kind, total := kindOf(tc.kind), [2]float64{}
			var v *straggler.Verdict
			for i, times := range []float64{0, 1} {
				step, steps := 0, len(drawSteps(kind, 1+seed, nil))
				drawn := drawSteps(kind, 1+seed, func(_ int, at, _ float64) float64 {
					step = int(math.Round(at * float64(steps)))
					return times * tc.slow(step)
				})
				st := straggler.New(nil)
				for _, s := range drawn {
					for r := range s {
						st.Add(&s[r])
					}
				}
				last := drawn[len(drawn)-1][0].Spans
				total[i] = float64(last[len(last)-1].End - drawn[2][0].Spans[0].Start)
				v = st.Verdict()
				if i == 0 && v.Kind == finding.Drift {
					t.Errorf("%s, seed %d, without bursts: %s; want no drift", tc.name, 1+seed, v.Sentence)
				}
			}
			want := total[1] / total[0]
			if v.Kind != finding.Drift || v.Pattern != "single_steps" || v.Cause != "backward" || v.Evidence.Every != tc.every {
				t.Errorf("%s, seed %d: got %s %s %s, every %+v: %s; want drift in single steps of backward, every %d", tc.name, 1+seed, v.Kind, v.Pattern, v.Cause, v.Evidence, v.Sentence, tc.every)
				continue
			}
			if off := math.Abs(v.Gain - want); off > max(0.15*(want-1), 0.02) {
				t.Errorf("%s, seed %d: gain %.3f, want %.3f", tc.name, 1+seed, v.Gain, want)
			}
			if tc.every > 0 && !strings.Contains(v.Sentence, "every") {
				t.Errorf(`%s: sentence %q, want one with the period ("every")`, tc.name, v.Sentence)
			}
			if seed == 0 {
				t.Log(v.Sentence)
			}
		}
	}
}

// every returns a function that adds ms to each n-th step.
func every(n int, ms float64) func(step int) float64 {
	return func(step int) float64 {
		if step%n == n-1 {
			return ms
		}
		return 0
	}
}
