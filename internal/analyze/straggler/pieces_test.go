package straggler_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// piecewise is a job whose ranks alternate two pieces of forward with two meetings. work returns the times of
// the two pieces in milliseconds.
type piecewise struct {
	ranks, steps int
	device       bool // the work and the meetings are on devices
	work         func(rank, step int) [2]float64
}

// state returns the State of the job and the duration of its steps in milliseconds.
func (j piecewise) state() (*straggler.State, float64) {
	const meets, launch = 2.0, 0.1
	st := straggler.New(nil)
	now := 0.0
	for s := range j.steps {
		step := make([]straggler.Step, j.ranks)
		begin := now
		for r := range step {
			step[r] = straggler.Step{Rank: r, Number: int64(s)}
		}
		record := func(r int, sp straggler.Span, from, to float64) {
			clock := 1e15 + float64(r)*1e12
			sp.Start, sp.End, sp.Launch = int64(clock+from*1e6), int64(clock+to*1e6), int64(clock+(begin+launch/2)*1e6)
			step[r].Spans = append(step[r].Spans, sp)
		}
		lane := 0
		if j.device {
			lane = straggler.Device
		}
		for piece := range 2 {
			ends := make([]float64, j.ranks)
			for r := range ends {
				ends[r] = now + j.work(r, s)[piece]
				record(r, straggler.Span{Phase: straggler.Forward, Lane: lane}, now, ends[r])
			}
			now = slices.Max(ends) + meets
			for r := range ends {
				record(r, straggler.Span{Phase: straggler.Communication, Lane: lane}, ends[r], now)
			}
		}
		for r := range step {
			if j.device {
				record(r, straggler.Span{Phase: straggler.Forward}, begin, begin+launch)
				record(r, straggler.Span{Phase: straggler.Communication, Meeting: straggler.Join}, begin+launch, now)
			}
			st.Add(&step[r])
		}
	}
	return st, now
}

// TestUnevenPieces: balancing applies to each piece of work between two meetings, not to their sum. Ranks
// have different experts in each step: what a rank has more in the first piece it has less in the second.
func TestUnevenPieces(t *testing.T) {
	for name, device := range map[string]bool{"host": false, "device": true} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			parts := make([]float64, 80*8)
			for i := range parts {
				parts[i] = 40 + 20*rng.Float64()
			}
			j := piecewise{ranks: 8, steps: 80, device: device, work: func(r, s int) [2]float64 {
				return [2]float64{parts[s*8+r], 100 - parts[s*8+r]}
			}}
			st, took := j.state()
			want := took / (80 * 104)
			v := st.Verdict()
			if v.Kind != finding.Imbalance || math.Abs(v.Gain-want) > 0.015 {
				t.Errorf("Verdict() = %s with gain %.3f, want imbalance with %.3f: %s", v.Kind, v.Gain, want, v.Sentence)
			}
		})
	}
}

// TestLatePiece: a rank that is late before one meeting and early before the next one is repaired with the
// pieces of the other ranks.
func TestLatePiece(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	j := piecewise{ranks: 8, steps: 80, work: func(r, _ int) [2]float64 {
		w := [2]float64{50 + 0.2*rng.NormFloat64(), 50 + 0.2*rng.NormFloat64()}
		if r == 5 {
			w[0], w[1] = w[0]+30, w[1]-20
		}
		return w
	}}
	st, took := j.state()
	want := took / (80 * 104.6) // the eight ranks differ slightly
	v := st.Verdict()
	if v.Kind != finding.SlowRanks || !slices.Equal(v.Ranks, []int{5}) || math.Abs(v.Gain-want) > 0.02 {
		t.Errorf("Verdict() = %s %v with gain %.3f, want slow_ranks [5] with %.3f: %s", v.Kind, v.Ranks, v.Gain, want, v.Sentence)
	}
}
