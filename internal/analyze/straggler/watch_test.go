package straggler_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// watch judges a run while it lasts, every so many steps, as trainspan alert does: two judgments in a row must agree,
// because a run that is judged often is more likely to look wrong once, and an answer is given once.
type watch struct {
	st           *straggler.State
	every, next  int64
	begun        bool
	before, said *straggler.Verdict
}

func newWatch(opt *straggler.Options, every int) *watch {
	w := &watch{st: straggler.New(opt), every: int64(every)}
	w.st.SetLive()
	return w
}

// add adds one step of one rank. It returns a verdict if the diagnosis has changed, otherwise nil. A step counts as
// reached when the first rank reports the step after it.
func (w *watch) add(st *straggler.Step) (v *straggler.Verdict) {
	if first := !w.begun; first || st.Number >= w.next {
		if w.begun, w.next = true, st.Number+w.every; !first {
			v = w.check()
		}
	}
	w.st.Add(st)
	return v
}

// check judges at once and returns what add would.
func (w *watch) check() *straggler.Verdict {
	v := w.st.Lately(w.st.Verdict())
	if v.Coverage.Steps < 20 && v.Kind != finding.Hang && v.ExitCode() == 3 {
		return nil
	}
	same := func(a *straggler.Verdict) bool {
		return a != nil && a.Kind == v.Kind && a.Cause == v.Cause && a.Reason == v.Reason && slices.Equal(a.Ranks, v.Ranks)
	}
	agree := same(w.before)
	w.before = v
	if !agree || same(w.said) || w.said == nil && !v.Kind.IsProblem() {
		return nil
	}
	w.said = v
	return v
}

// watched holds the verdicts that a watch returned for a job, and their steps.
type watched struct {
	at []int
	v  []*straggler.Verdict
	w  *watch
}

// watch feeds a job step by step, with all ranks reporting together.
func (j job) watch(every int) watched {
	s := j.run()
	out := watched{w: newWatch(&straggler.Options{WorldSize: s.n}, every)}
	for r := range s.n {
		if s.layout == "pipeline" {
			out.w.st.SetRank(r, straggler.Rank{Role: fmt.Sprintf("stage%d", r%s.stages)})
		}
	}
	for i := range s.steps[0] {
		for r := range s.steps {
			if slices.Contains(j.missing, r) || i >= len(s.steps[r]) {
				continue
			}
			if v := out.w.add(&s.steps[r][i]); v != nil {
				out.at, out.v = append(out.at, i), append(out.v, v)
			}
		}
	}
	return out
}

// TestWatchAgreesWithState: fed step by step, a watch ends with the same State as the complete run, and its
// last verdict is that of the run.
func TestWatchAgreesWithState(t *testing.T) {
	jobs := map[string]job{
		"slow input":         {n: 6, m: 120, seed: 1, faults: []fault{slow([]int{2}, straggler.Input, 0, 40, 30)}},
		"sub-groups":         {n: 8, m: 120, seed: 2, groups: 2, faults: []fault{{phases: []straggler.Phase{straggler.Communication}, factor: 8, group: "g3"}}},
		"sharded":            {n: 4, m: 100, seed: 3, layout: "fsdp", faults: []fault{slow([]int{2}, straggler.Forward, 1.4, 0, 0)}},
		"pipeline":           {n: 8, m: 120, seed: 4, layout: "pipeline", faults: []fault{slow([]int{3}, straggler.Forward, 2, 0, 20)}},
		"hidden":             {n: 4, m: 120, seed: 5, layout: "hidden"},
		"missing rank":       {n: 8, m: 120, seed: 6, missing: []int{3}, faults: []fault{slow([]int{3}, straggler.Input, 0, 120, 0)}},
		"all slower from 50": {n: 8, m: 120, seed: 7, faults: []fault{slow(nil, straggler.Forward, 1.4, 0, 50)}},
		"healthy":            {n: 8, m: 120, seed: 8},
		"forgets":            {n: 4, m: 300, seed: 9, faults: []fault{slow([]int{1}, straggler.Input, 0, 40, 0)}},
	}
	for name, j := range jobs {
		t.Run(name, func(t *testing.T) {
			got := j.watch(10)
			end := j.state()
			want := end.Verdict()
			if a, b := asJSON(t, got.w.st), asJSON(t, end); a != b {
				t.Fatalf("at the end\n%s\nwant\n%s", a, b)
			}
			if len(got.v) == 0 {
				if want.ExitCode() == 3 {
					t.Errorf("the watch reported nothing, want: %s", want.Sentence)
				}
				return
			}
			last := got.v[len(got.v)-1]
			if last.Kind != want.Kind || last.Cause != want.Cause || !slices.Equal(last.Ranks, want.Ranks) {
				t.Errorf("said last: %s\nwant: %s", last.Sentence, want.Sentence)
			}
		})
	}
}

// TestTimeToDetect checks how many steps after its start a fault is named, and that nothing is reported
// before. docs/explain/stragglers.md shows the table.
func TestTimeToDetect(t *testing.T) {
	const from, every = 100, 5
	in, fw, bw, comm := straggler.Input, straggler.Forward, straggler.Backward, straggler.Communication
	tests := []struct {
		name   string
		job    job
		kind   finding.Kind
		ranks  []int
		within int // limit in steps for the slowest seed
	}{
		{"one rank, +6 % of a step", job{n: 8, faults: []fault{slow([]int{3}, in, 0, 15, from)}}, finding.SlowRanks, []int{3}, 60},
		{"one rank, +14 %", job{n: 8, faults: []fault{slow([]int{3}, fw, 1.5, 0, from)}}, finding.SlowRanks, []int{3}, 35},
		{"one rank, twice as slow", job{n: 8, faults: []fault{slow([]int{3}, bw, 2.5, 0, from)}}, finding.SlowRanks, []int{3}, 20},
		{"one of 64 ranks, +14 %", job{n: 64, faults: []fault{slow([]int{33}, fw, 1.5, 0, from)}}, finding.SlowRanks, []int{33}, 40},
		{"one of two ranks, +14 %", job{n: 2, faults: []fault{slow([]int{1}, fw, 1.5, 0, from)}}, finding.SlowRanks, []int{1}, 40},
		{"one rank, a ramp of 60 steps to +20 %", job{n: 8, faults: []fault{{ranks: []int{3}, phases: []straggler.Phase{in}, add: 50, from: from, ramp: 60}}}, finding.SlowRanks, []int{3}, 90},
		{"one rank, 300 ms in every 12th step", job{n: 8, faults: []fault{{ranks: []int{3}, phases: []straggler.Phase{fw}, add: 300, prob: 0.08, from: from}}}, finding.SlowRanks, []int{3}, 140},
		{"all wait for data, +70 ms", job{n: 8, faults: []fault{slow(nil, in, 0, 70, from)}}, finding.InputSlow, nil, 50},
		{"transfer 4 times as long", job{n: 8, faults: []fault{{phases: []straggler.Phase{comm}, factor: 4, from: from}}}, finding.SlowTransfer, nil, 40},
		{"all ranks 20 % slower in forward", job{n: 8, faults: []fault{slow(nil, fw, 1.2, 0, from)}}, finding.Drift, nil, 80},
		{"more work for one rank", job{n: 8, tokens: true, faults: []fault{{ranks: []int{5}, factor: 1.3, work: true, from: from}}}, finding.Imbalance, []int{5}, 30},
	}
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	fmt.Sscan(os.Getenv("TRAINSPAN_STRAGGLER_SEEDS"), &seeds)
	t.Logf("| judged every %d steps; begins at step %d | steps until it is named: median, slowest of %d |", every, from, seeds)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.job.n > 8 {
				t.Skip("judges many ranks again and again: make test-long")
			}
			var delays []int
			for seed := range seeds {
				j := tt.job
				j.m, j.seed = 260, seed
				got := j.watch(every)
				found := -1
				for i, v := range got.v {
					right := v.Kind == tt.kind && slices.Equal(v.Ranks, tt.ranks)
					switch {
					case right && found < 0:
						found = got.at[i] - from
					case !right:
						t.Logf("seed %d, step %d: %s", seed, got.at[i], v.Sentence)
					}
					if got.at[i] < from {
						t.Errorf("seed %d: said before anything was wrong, at step %d, want at least %d: %s", seed, got.at[i], from, v.Sentence)
					}
				}
				if found < 0 {
					t.Errorf("seed %d: never named", seed)
					continue
				}
				delays = append(delays, found)
			}
			slices.Sort(delays)
			if len(delays) == 0 {
				return
			}
			slowest := delays[len(delays)-1]
			t.Logf("| %s | %d, %d |", tt.name, delays[len(delays)/2], slowest)
			if slowest > tt.within {
				t.Errorf("named after %d steps, want at most %d", slowest, tt.within)
			}
		})
	}
}

// TestWatchOfHealthyJobs: frequent judgments of a healthy run rarely give a false finding.
func TestWatchOfHealthyJobs(t *testing.T) {
	seeds := uint64(2)
	fmt.Sscan(os.Getenv("TRAINSPAN_STRAGGLER_SEEDS"), &seeds)
	for name, j := range map[string]job{
		"quiet":     {n: 8, m: 300},
		"32 ranks":  {n: 32, m: 200},
		"wandering": {n: 8, m: 300, phi: 0.9, sigma: 0.04},
		"2 ranks":   {n: 2, m: 300, phi: 0.9, sigma: 0.04},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := 0
			for seed := range seeds {
				j.seed = 500 + seed
				got := j.watch(10)
				for i, v := range got.v {
					if v.ExitCode() == 3 {
						wrong++
						t.Logf("seed %d, step %d: %s", j.seed, got.at[i], v.Sentence)
						break
					}
				}
			}
			t.Logf("| healthy, %s | %d of %d runs had a false answer at some time |", name, wrong, seeds)
			if uint64(wrong) > 1+seeds/20 {
				t.Errorf("%d of %d healthy runs had a false finding, want at most 1 + 1/20", wrong, seeds)
			}
		})
	}
}
