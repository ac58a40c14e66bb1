package straggler_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/testkit/growth"
)

func asJSON(t *testing.T, st *straggler.State) string {
	t.Helper()
	b, err := json.Marshal(st.Verdict())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// scatter adds the steps of a job to parts at random, some of them twice, and merges the parts in random
// order.
func scatter(j job, opt *straggler.Options, parts int, seed uint64) *straggler.State {
	rng := rand.New(rand.NewPCG(seed, 3))
	states := make([]*straggler.State, parts)
	for i := range states {
		states[i] = straggler.New(opt)
	}
	s := j.run()
	var all []*straggler.Step
	for r := range s.steps {
		for i := range s.steps[r] {
			all = append(all, &s.steps[r][i])
		}
	}
	rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, st := range all {
		for range 1 + rng.IntN(2) {
			states[rng.IntN(parts)].Add(st)
		}
	}
	out := straggler.New(opt)
	for _, i := range rng.Perm(parts) {
		out.Merge(states[i])
	}
	return out
}

func TestUnionOfStatesIsStateOfUnion(t *testing.T) {
	jobs := map[string]job{
		"slow input": {n: 6, m: 80, seed: 1, faults: []fault{slow([]int{2}, straggler.Input, 0, 40, 30)}},
		"sub-groups": {n: 8, m: 80, seed: 2, groups: 2, faults: []fault{{phases: []straggler.Phase{straggler.Communication}, factor: 6, group: "g3"}}},
		"sharded":    {n: 4, m: 60, seed: 3, layout: "fsdp"},
		"lost rank":  {n: 4, m: 60, seed: 4, die: &death{rank: 2, step: 50, open: true}},
	}
	for name, j := range jobs {
		t.Run(name, func(t *testing.T) {
			for _, opt := range []*straggler.Options{{WorldSize: j.n}, {WorldSize: j.n, MaxCells: 40 * j.n}} {
				inOrder := straggler.New(opt)
				steps := j.run().steps
				for s := range steps[0] {
					for r := range steps {
						if s < len(steps[r]) {
							inOrder.Add(&steps[r][s])
						}
					}
				}
				want := asJSON(t, inOrder)
				if got := asJSON(t, scatter(j, opt, 1, 9)); got != want {
					t.Fatalf("MaxCells %d, in any order:\n%s\nwant as in order\n%s", opt.MaxCells, got, want)
				}
				for seed := range uint64(4) {
					if got := asJSON(t, scatter(j, opt, 3, seed)); got != want {
						t.Fatalf("MaxCells %d, order %d:\n%s\nwant\n%s", opt.MaxCells, seed, got, want)
					}
				}
			}
		})
	}
}

// TestRankWithHalfOfItsSteps: a rank that lacks every other step is not judged. The other ranks are judged,
// and the verdict is valid JSON.
func TestRankWithHalfOfItsSteps(t *testing.T) {
	s := job{n: 8, m: 120, faults: []fault{slow([]int{3}, straggler.Input, 0, 60, 0)}}.run()
	st := straggler.New(nil)
	for r := range s.steps {
		for i := range s.steps[r] {
			if r != 6 || i%2 == 0 {
				st.Add(&s.steps[r][i])
			}
		}
	}
	asJSON(t, st)
	v := st.Verdict()
	if v.Kind != finding.SlowRanks || len(v.Ranks) != 1 || v.Ranks[0] != 3 || len(v.Coverage.Missing) != 1 || v.Coverage.Missing[0] != 6 {
		t.Errorf("missing %v, want [6], and slow rank 3: %s", v.Coverage.Missing, v.Sentence)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	j := job{n: 4, m: 600, seed: 1, faults: []fault{slow([]int{1}, straggler.Input, 0, 40, 0)}}
	st := straggler.New(&straggler.Options{MaxCells: 400})
	s := j.run()
	for i := range 600 {
		for r := range 4 {
			st.Add(&s.steps[r][i])
		}
	}
	v := st.Verdict()
	if !v.Coverage.Forgotten || v.Coverage.Steps > 100 || v.Coverage.LastStep != 599 || v.Kind != finding.SlowRanks {
		t.Errorf("coverage %+v, want the last 100 of 600 steps, and slow ranks: %s", v.Coverage, v.Sentence)
	}
}

func TestAbstainsWithWhatIsNeeded(t *testing.T) {
	one := straggler.New(nil)
	s := job{n: 2, m: 50}.run()
	for i := range s.steps[0] {
		one.Add(&s.steps[0][i])
	}
	tests := []struct {
		name   string
		st     *straggler.State
		reason string
		needed string
	}{
		{"nothing", straggler.New(nil), straggler.ReasonSingleRank, "another rank"},
		{"one rank", one, straggler.ReasonSingleRank, "another rank"},
		{"few steps", job{n: 4, m: 15}.state(), "too_few_steps", "20 steps"},
		{"hidden", job{n: 4, m: 100, layout: "hidden"}.state(), "barrier_hidden", "collective"},
		{"missing", job{n: 8, m: 200, missing: []int{3}, faults: []fault{slow([]int{3}, straggler.Input, 0, 120, 0)}}.state(), "missing_rank", "the records of rank 3"},
		{"nobody waits", unsynchronised(), "no_barrier", "collective"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.st.Verdict()
			if v.Kind != finding.Unknown || v.Reason != tt.reason || v.ExitCode() != 4 || len(v.Ranks) > 0 {
				t.Fatalf("got %s, %s, exit code %d, ranks %v; want unknown, %s, 4, none: %s", v.Kind, v.Reason, v.ExitCode(), v.Ranks, tt.reason, v.Sentence)
			}
			if !strings.Contains(v.Needed, tt.needed) || !strings.Contains(v.Sentence, tt.needed) {
				t.Errorf("needed %q, want %q there and in the sentence %q", v.Needed, tt.needed, v.Sentence)
			}
		})
	}
}

// unsynchronised returns the State of ranks whose steps are independent of each other.
func unsynchronised() *straggler.State {
	st := straggler.New(nil)
	rng := rand.New(rand.NewPCG(5, 6))
	for r := range 4 {
		var at int64 = 1e9
		for i := range int64(100) {
			d := int64(200e6 * (1 + 0.3*rng.Float64()))
			st.Add(&straggler.Step{Rank: r, Number: i, Spans: []straggler.Span{
				{Phase: straggler.Forward, Start: at, End: at + d/3}, {Phase: straggler.Backward, Start: at + d/3, End: at + d}}})
			at += d
		}
	}
	return st
}

func TestLostRank(t *testing.T) {
	for _, open := range []bool{true, false} {
		j := job{n: 8, m: 100, die: &death{rank: 5, step: 60, open: open}}
		v := j.state().Verdict()
		if v.Kind != finding.Hang || len(v.Ranks) != 1 || v.Ranks[0] != 5 || v.FromStep != 60 {
			t.Errorf("open %v: want a hang of rank 5 from step 60, got %s", open, v.Sentence)
		}
		// The whole job was stopped while the ranks waited, as they do in every step.
		st := j.state()
		s := j.run()
		for r := range 8 {
			last := s.steps[r][60]
			end := last.Spans[len(last.Spans)-1]
			st.SetRank(r, straggler.Rank{LastSeen: max(end.Start, end.End) + 50e6})
		}
		if v := st.Verdict(); v.Kind != finding.Fine {
			t.Errorf("open %v, seen for 50 ms only: want no finding, got %s", open, v.Sentence)
		}
	}
}

func TestWatchFindsItSoonAndOnce(t *testing.T) {
	var delays []int64
	for seed := range uint64(10) {
		j := job{n: 8, m: 200, seed: seed, faults: []fault{slow([]int{3}, straggler.Forward, 1.5, 0, 100)}}
		s := j.run()
		w := newWatch(&straggler.Options{WorldSize: 8}, 5)
		said := 0
		for i := range 200 {
			for r := range 8 {
				v := w.add(&s.steps[r][i])
				if v == nil {
					continue
				}
				said++
				if v.Kind != finding.SlowRanks || len(v.Ranks) != 1 || v.Ranks[0] != 3 || i < 100 {
					t.Errorf("seed %d, step %d: want slow rank 3 from step 100 on, got %s", seed, i, v.Sentence)
				}
				if said == 1 {
					delays = append(delays, int64(i-100))
				}
			}
		}
		if said != 1 {
			t.Errorf("seed %d: %d answers, want one", seed, said)
		}
	}
	t.Logf("steps until a rank 14 %% slower was named, judging every 5: %v", delays)
}

func TestVerdictHasItsEvidence(t *testing.T) {
	v := job{n: 8, m: 120, faults: []fault{slow([]int{3}, straggler.Input, 0, 58, 0)}}.state().Verdict()
	if v.ExitCode() != 3 || !strings.HasPrefix(v.Sentence, "Rank 3's data loading delays every step: ") || v.Next == "" || v.Version != 2 {
		t.Errorf("exit code %d, next %q, want 3, advice, and a sentence about the data loading of rank 3: %s", v.ExitCode(), v.Next, v.Sentence)
	}
	if len(v.Ranking) != 8 {
		t.Fatalf("%d rows, want 8", len(v.Ranking))
	}
	for _, r := range v.Ranking {
		if slow := r.Rank == 3; slow != (r.Excess > 40) || slow != (r.Wait < 10) || slow != (r.Last > 0.9) {
			t.Errorf("row %+v, want only rank 3 slow by 40 %% or more, hardly waiting, mostly last", r)
		}
	}
}

func BenchmarkThousandRanks(b *testing.B) {
	s := job{n: 1024, m: 100, faults: []fault{slow([]int{300}, straggler.Forward, 1.5, 0, 0)}}.run()
	b.ReportAllocs()
	for b.Loop() {
		st := straggler.New(nil)
		for r := range s.steps {
			for i := range s.steps[r] {
				// Add each step ten times, with shifted numbers and times.
				step := s.steps[r][i]
				shift := s.steps[r][99].Spans[0].Start - s.steps[r][0].Spans[0].Start + 250e6
				spans := append([]straggler.Span(nil), step.Spans...)
				for k := range int64(10) {
					c := straggler.Step{Rank: r, Number: step.Number + 100*k, Spans: spans}
					st.Add(&c)
					for x := range spans {
						spans[x].Start += shift
						spans[x].End += shift
					}
				}
			}
		}
		if v := st.Verdict(); v.Kind != finding.SlowRanks || v.Coverage.Steps < 900 {
			b.Fatalf("%d steps, want 900 or more and slow ranks: %s", v.Coverage.Steps, v.Sentence)
		}
	}
}

// TestFarRank: an absurdly high rank number costs one more rank, not a million entries for missing ranks.
func TestFarRank(t *testing.T) {
	s := job{n: 4, m: 100}.state()
	s.Add(&straggler.Step{Rank: 1<<30 - 1, Spans: []straggler.Span{{Phase: straggler.Forward, Start: 1, End: 2}}})
	growth.Work(t, 1<<20, 64, func() {
		c := s.Verdict().Coverage
		if c.Expected != 1<<30 || len(c.Missing) != 64 || c.Missing[0] != 4 || c.MissingMore != 1<<30-4-64 {
			t.Errorf("expected %d, missing %v and %d more", c.Expected, c.Missing, c.MissingMore)
		}
	})
}

// TestMergedWorldSize: merging takes over the world size of the other State.
func TestMergedWorldSize(t *testing.T) {
	s := straggler.New(nil)
	s.Merge(straggler.New(&straggler.Options{WorldSize: 16}))
	got, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := straggler.New(&straggler.Options{WorldSize: 16}).AppendBinary(nil)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, want %x, %v", got, want, err)
	}
}

// TestForgetsWhileItIsFed: a State that is fed but never judged stays within its bound.
func TestForgetsWhileItIsFed(t *testing.T) {
	st := straggler.New(&straggler.Options{MaxCells: 400})
	for s := range int64(1000) {
		for r := range 4 {
			st.Add(&straggler.Step{Rank: r, Number: s, Spans: []straggler.Span{{Phase: straggler.Forward, Start: s * 1e6, End: s*1e6 + 9e5}}})
		}
	}
	if n := st.Len(); n > 500 || n < 400 {
		t.Errorf("%d steps are held, want 400 to 500", n)
	}
}

// TestDamagedFiles: whichever byte of the encoding is changed, decoding either fails or gives a State that
// can be judged.
func TestDamagedFiles(t *testing.T) {
	st := straggler.New(nil)
	for s := range int64(8) {
		for r := range 2 {
			at := s * 1e8
			st.Add(&straggler.Step{Rank: r, Number: s, Spans: []straggler.Span{
				{Phase: straggler.Forward, Start: at, End: at + 5e7},
				{Phase: straggler.Communication, Start: at + 5e7, End: at + 9e7, Group: "dp", GroupSize: 2},
				{Phase: straggler.Communication, Start: at + 2e7, End: at + 8e7, Lane: 1},
			}})
		}
	}
	whole, err := st.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := 0
	for i := range whole {
		for _, flip := range []byte{1, 4, 8, 0x7f} {
			data := bytes.Clone(whole)
			data[i] ^= flip
			if read := straggler.New(nil); read.UnmarshalBinary(data) == nil {
				read.Verdict()
				good++
			}
		}
	}
	if good == 0 || good == 4*len(whole) {
		t.Errorf("%d of %d damaged files were read, want some but not all", good, 4*len(whole))
	}
}

// BenchmarkManyLateRanks judges ranks that are late at different times, so that each contributes to the gain.
func BenchmarkManyLateRanks(b *testing.B) {
	var faults []fault
	for i := range 14 {
		faults = append(faults, fault{ranks: []int{70 * i}, phases: []straggler.Phase{straggler.Forward}, factor: 1.5 + 0.1*float64(i), from: 7 * i, to: 7*i + 14})
	}
	s := job{n: 1024, m: 110, faults: faults}.run()
	for b.Loop() {
		st := straggler.New(nil)
		for r := range s.steps {
			for i := range s.steps[r] {
				st.Add(&s.steps[r][i])
			}
		}
		if v := st.Verdict(); v.Kind != finding.SlowRanks {
			b.Fatalf("verdict %q, want slow ranks", v.Sentence)
		}
	}
}

// TestNoSteps: if several ranks have no single steps, the verdict reports that steps are missing, not ranks.
func TestNoSteps(t *testing.T) {
	for ranks, want := range map[int]string{1: "single_rank", 8: "no_steps"} {
		v := straggler.New(&straggler.Options{WorldSize: ranks}).Verdict()
		if v.Kind != finding.Unknown || v.Reason != want || v.Needed == "" {
			t.Errorf("%d ranks: got %s for %q, needed %q; want unknown for %q", ranks, v.Kind, v.Reason, v.Needed, want)
		}
	}
}
