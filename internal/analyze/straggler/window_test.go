package straggler_test

import (
	"math"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

func sum(parts []straggler.WaitPart) (us int64) {
	for _, p := range parts {
		us += p.Time
	}
	return us
}

// TestWindows: windows of steps give the same diagnosis with at most an eighth of the memory, however they
// were assembled.
func TestWindows(t *testing.T) {
	jobs := map[string]struct {
		job   job
		kind  finding.Kind
		cause string
		rank  int
		from  int64
	}{
		"slow input":  {job{n: 8, m: 4000, seed: 1, faults: []fault{slow([]int{3}, straggler.Input, 0, 20, 2000)}}, finding.SlowRanks, "input", 3, 2000},
		"slow device": {job{n: 4, m: 3000, seed: 2, layout: "overlapped", faults: []fault{slow([]int{1}, straggler.Forward, 1.4, 0, 1500)}}, finding.SlowRanks, "forward", 1, 1500},
		"healthy":     {job{n: 8, m: 3000, seed: 3}, finding.Fine, "", -1, 0},
	}
	for name, tt := range jobs {
		t.Run(name, func(t *testing.T) {
			exact := tt.job.state()
			full, err := exact.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			st := tt.job.state()
			st.Window()
			packed, err := st.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if 8*len(packed) > len(full) {
				t.Errorf("%d bytes with windows, want at most an eighth of the %d without", len(packed), len(full))
			}
			t.Logf("%.1f bytes for a step of a rank, %.1f without windows", float64(len(packed))/float64(tt.job.n*tt.job.m), float64(len(full))/float64(tt.job.n*tt.job.m))
			v := st.Verdict()
			if v.Kind != tt.kind || v.Cause != tt.cause || v.Coverage.WindowSteps != straggler.WindowSteps {
				t.Fatalf("verdict %s, %+v; want %s, cause %q, windows of %d steps", v.Sentence, v.Coverage, tt.kind, tt.cause, straggler.WindowSteps)
			}
			if tt.rank >= 0 && (len(v.Ranks) != 1 || v.Ranks[0] != tt.rank || v.FromStep < tt.from-200 || v.FromStep > tt.from+200) {
				t.Errorf("want slow rank %d from about step %d, got %s", tt.rank, tt.from, v.Sentence)
			}
			// Waits are those of all steps, not of the mean step of each window. Means have less of what varies.
			if got, want := v.Waits, exact.Verdict().Waits; tt.rank >= 0 && math.Abs(float64(got.Total)/float64(want.Total)-1) > 0.2 || sum(got.Group) != got.Total || sum(got.Phases) != got.Total {
				t.Errorf("waits of windows %+v, want about those of the steps, %+v", got, want)
			}
			want := asJSON(t, st)

			read := straggler.New(nil)
			if err := read.UnmarshalBinary(packed); err != nil {
				t.Fatal(err)
			}
			if got := asJSON(t, read); got != want {
				t.Errorf("read again: %s\nwant %s", got, want)
			}
			for n := range packed {
				if n%97 == 0 && straggler.New(nil).UnmarshalBinary(packed[:n]) == nil {
					t.Fatalf("UnmarshalBinary of %d of %d bytes: no error, want one", n, len(packed))
				}
			}

			// Merge ranks one by one, every other one without windows.
			s := tt.job.run()
			parts := straggler.New(nil)
			for r := range s.steps {
				one := straggler.New(nil)
				for i := range s.steps[r] {
					one.Add(&s.steps[r][i])
				}
				if r%2 == 0 {
					one.Window()
				}
				parts.Merge(one)
				if one.Verdict().Coverage.WindowSteps > 0 != (r%2 == 0) {
					t.Error("Merge changed its argument")
				}
			}
			if got := asJSON(t, parts); got != want {
				t.Errorf("in parts: %s\nwant %s", got, want)
			}
		})
	}
}
