package straggler_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// TestClocks: clocks that are seconds apart are aligned with the clock of the lowest rank, to within the time
// between ranks leaving a collective. Clocks that agree are not changed.
func TestClocks(t *testing.T) {
	for _, layout := range []string{"separate", "overlapped", "nested"} {
		j := job{n: 4, m: 60, layout: layout, seed: 3}
		s := j.run()
		by := j.state().Correction().Clocks
		if len(by) != 4 {
			t.Fatalf("%s: %v, want 4", layout, by)
		}
		for r := range 4 {
			if off := s.clock[r] + by[r] - s.clock[0]; off < -1e6 || off > 1e6 {
				t.Errorf("%s: clock of rank %d is %d ns off, want at most 1 ms", layout, r, off)
			}
		}
	}
	if by := (job{n: 4, m: 60, layout: "hidden"}).state().Correction().Clocks; by != nil {
		t.Errorf("clocks without collectives = %v, want nil", by)
	}
}

// TestClockBehindALateStart: the clock of a rank is as far behind as the rank starts later, so the first steps begin at
// the same time by their clocks. The ranks meet in each step, or in each fourth one.
func TestClockBehindALateStart(t *testing.T) {
	const ms = int64(1e6)
	for _, every := range []int64{1, 4} {
		st := straggler.New(&straggler.Options{WorldSize: 4})
		const behind = 3000 * ms
		at := [4]int64{3: behind}
		for s := range int64(40) {
			last := int64(0)
			for r := range at {
				last = max(last, at[r]+100*ms)
			}
			for r := range at {
				clock := 1_700_000_000_000 * ms
				if r == 3 {
					clock -= behind
				}
				step := straggler.Step{Rank: r, Number: s}
				span := func(phase straggler.Phase, end int64) {
					step.Spans = append(step.Spans, straggler.Span{Phase: phase, Start: clock + at[r], End: clock + end})
					at[r] = end
				}
				span(straggler.Forward, at[r]+100*ms)
				if s%every == every-1 {
					span(straggler.Communication, last+5*ms)
				}
				st.Add(&step)
			}
		}
		if by := st.Correction().Clocks; by[0] != 0 || by[3] < behind-ms || by[3] > behind+ms {
			t.Errorf("ranks meet each %d steps: clocks %v, want that of rank 3 to be set forward by 3 s", every, by)
		}
	}
}
