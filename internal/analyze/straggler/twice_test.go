package straggler_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// twice returns the State of a job as DistributedDataParallel records it: ranks meet at the start of forward,
// where buffers are broadcast, and at the end of backward. input returns how long a rank waits for data, in
// milliseconds; ranks in missing record nothing.
func twice(ranks, steps int, input func(rank int) float64, missing ...int) *straggler.State {
	rng := rand.New(rand.NewPCG(1, 2))
	s := straggler.New(&straggler.Options{WorldSize: ranks})
	now := make([]float64, ranks)
	for i := range steps {
		out := make([]straggler.Step, ranks)
		add := func(r int, p straggler.Phase, from, to float64) {
			at := func(ms float64) int64 { return int64(r)*1e12 + int64(ms*1e6) + 1 }
			out[r].Spans = append(out[r].Spans, straggler.Span{Phase: p, Start: at(from), End: at(to)})
		}
		meet := func(p straggler.Phase, transfer, after float64) {
			end := slices.Max(now) + transfer
			for r := range now {
				out := end + 0.01*rng.ExpFloat64()
				add(r, p, now[r], out)
				now[r] = out + after*(1+0.01*rng.NormFloat64())
			}
		}
		for r := range now {
			out[r].Rank, out[r].Number = r, int64(i)
			d := input(r) * (1 + 0.05*rng.NormFloat64())
			add(r, straggler.Input, now[r], now[r]+d)
			now[r] += d
		}
		meet(straggler.Communication, 0.2, 0)
		for r := range now {
			f, b := 10*(1+0.01*rng.NormFloat64()), 20*(1+0.01*rng.NormFloat64())
			add(r, straggler.Forward, now[r], now[r]+f)
			add(r, straggler.Backward, now[r]+f, now[r]+f+b)
			now[r] += f + b
		}
		meet(straggler.Communication, 1, 0.5)
		for r := range out {
			if !slices.Contains(missing, r) {
				s.Add(&out[r])
			}
		}
	}
	return s
}

func TestTwoCollectives(t *testing.T) {
	slow := func(rank int, by float64) func(int) float64 {
		return func(r int) float64 {
			if r == rank {
				return 2 + by
			}
			return 2
		}
	}
	v, table := twice(4, 100, slow(2, 38)).Judge()
	if v.Kind != finding.SlowRanks || v.Cause != "input" || !slices.Equal(v.Ranks, []int{2}) {
		t.Errorf("verdict %s, want slow rank 2, cause input", v.Sentence)
	}
	for r, row := range v.Ranking {
		if waits := row.Wait > 35 && row.Wait < 42; waits != (r != 2) {
			t.Errorf("rank %d waits %.1f ms for others, want 35 to 42 (rank 2: less)", r, row.Wait)
		}
		for s := range table.Steps {
			wait, transfer := table.Communication(r, s)
			if sum := table.Own(r, s) + wait + transfer; sum < 0.99*table.Period[s] || sum > 1.01*table.Period[s] || transfer > 3e6 {
				t.Fatalf("step %d: %g own, %g wait, %g transfer; want them to sum to %g, transfer at most 3 ms", s, table.Own(r, s), wait, transfer, table.Period[s])
			}
		}
	}
	// No recorded rank is slow, and all of them wait for the missing one before forward.
	for _, by := range []float64{8, 38} {
		if v := twice(4, 100, slow(2, by), 2).Verdict(); v.Kind != finding.Unknown || v.Reason != "missing_rank" || !slices.Equal(v.Suspects, []int{2}) {
			t.Errorf("%g ms: got %s %s, want unknown for missing_rank with suspect 2: %s", by, v.Kind, v.Reason, v.Sentence)
		}
	}
	if v := twice(4, 100, slow(-1, 0), 2).Verdict(); v.Kind != finding.Fine {
		t.Errorf("got %s %s, want no finding: %s", v.Kind, v.Reason, v.Sentence)
	}
}
