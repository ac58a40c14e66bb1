package straggler_test

import "testing"

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
