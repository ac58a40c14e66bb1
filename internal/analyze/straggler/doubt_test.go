package straggler_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// TestDoubtIsNotFine: a repair gains enough to report, but its cause may be chance. The verdict is unknown
// and includes the rank, the gain and the probability.
func TestDoubtIsNotFine(t *testing.T) {
	fw, host := straggler.Forward, straggler.Host
	for _, tc := range []struct {
		name        string
		job         job
		rank        int
		least, most float64 // bounds of Evidence.Chance
	}{
		{"one stall", job{n: 16, m: 40, seed: 1, faults: []fault{{ranks: []int{11}, phases: []straggler.Phase{host}, add: 400, from: 25, to: 26}}}, 11, 1, 1},
		{"two stalls of one rank", job{n: 8, m: 60, seed: 1, faults: []fault{
			{ranks: []int{3}, phases: []straggler.Phase{host}, add: 400, from: 25, to: 26},
			{ranks: []int{3}, phases: []straggler.Phase{host}, add: 400, from: 40, to: 41},
		}}, 3, 0.05, 0.2},
		{"60 ms of each step on a busy host", job{n: 2, m: 26, sigma: 0.3, phi: 0.3, faults: []fault{{ranks: []int{1}, phases: []straggler.Phase{fw}, add: 60}}}, 1, 0.001, 0.05},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := tc.job.state().Verdict()
			if v.Kind != finding.Unknown || v.Reason != "chance" || !slices.Equal(v.Suspects, []int{tc.rank}) || v.Suspected == nil {
				t.Fatalf("got %s %q, suspects %v: %s; want unknown for chance, suspect %d", v.Kind, v.Reason, v.Suspects, v.Sentence, tc.rank)
			}
			f := v.Suspected
			if f.Gain < 1.02 || f.Evidence.Chance < tc.least || f.Evidence.Chance > tc.most || !slices.Equal(f.Ranks, v.Suspects) {
				t.Errorf("got ranks %v, gain %.3f, chance %.4f; want rank %d, 1.02 or more, %g to %g", f.Ranks, f.Gain, f.Evidence.Chance, tc.rank, tc.least, tc.most)
			}
			if !strings.Contains(v.Sentence, "chance") || len(v.Ranks) > 0 || v.Gain != 0 || v.ExitCode() != 4 {
				t.Errorf("got ranks %v, gain %.3f, exit code %d: %s; want no finding", v.Ranks, v.Gain, v.ExitCode(), v.Sentence)
			}
			t.Log(v.Sentence)
			t.Log(v.NotKnown())
		})
	}
}

// TestBehindLoader: a rank is late in each step, and batches arrive no earlier than they are requested. The
// records do not show whether they would arrive earlier without the late rank, so the verdict is not fine.
func TestBehindLoader(t *testing.T) {
	const ms = int64(1e6)
	st := straggler.New(nil)
	for rank := range 2 {
		st.SetRank(rank, straggler.Rank{Loader: straggler.LoaderAhead})
		at := int64(rank) * 1e12 // each rank has its own clock
		for n := range 40 {
			step := straggler.Step{Rank: rank, Number: int64(n)}
			backward := []int64{110, 270}[rank] * ms
			for _, part := range []struct {
				phase straggler.Phase
				took  int64
			}{
				{straggler.Input, []int64{1, 30, 31, 32, 30}[n%5] * ms}, {straggler.Forward, 50 * ms}, {straggler.Backward, backward},
				{straggler.Communication, 275*ms - backward},
			} {
				step.Spans = append(step.Spans, straggler.Span{Phase: part.phase, Start: at, End: at + part.took})
				at += part.took
			}
			st.Add(&step)
		}
	}
	v := st.Verdict()
	if v.Kind != finding.Unknown || v.Reason != "loader" || !slices.Equal(v.Suspects, []int{1}) || v.Suspected == nil || v.Suspected.Cause != "backward" || v.Suspected.Gain < 1.5 {
		t.Errorf("got %s %q, suspects %v, %+v: %s; want unknown for the loader, suspect 1 in backward, gain 1.5 or more", v.Kind, v.Reason, v.Suspects, v.Suspected, v.Sentence)
	}
}
