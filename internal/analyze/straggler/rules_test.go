package straggler_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/testkit/findingtest"
)

// ruled is a job without noise: the milliseconds that each rank spends in each step before a collective of
// its group.
type ruled struct {
	ranks    int
	input    func(rank, step int) float64
	forward  func(rank, step int) float64
	transfer func(rank, step int) float64
	later    func(rank, step int) float64 // how much later than the others the rank leaves the collective
	groups   int
}

func ms(v float64) int64 { return int64(v * 1e6) }

// state simulates 60 steps of the job. All ranks also meet at the end of each step.
func (j ruled) state() *straggler.State {
	of := func(fn func(int, int) float64, r, s int) float64 {
		if fn == nil {
			return 0
		}
		return fn(r, s)
	}
	st := straggler.New(&straggler.Options{WorldSize: j.ranks})
	groups := max(j.groups, 1)
	at := make([]float64, j.ranks)
	for s := range 60 {
		steps := make([]straggler.Step, j.ranks)
		add := func(r int, phase straggler.Phase, d float64, group string) {
			steps[r].Spans = append(steps[r].Spans, straggler.Span{Phase: phase, Start: ms(at[r]), End: ms(at[r] + d), Group: group, GroupSize: j.ranks / groups})
			at[r] += d
		}
		last := make([]float64, groups)
		for r := range j.ranks {
			steps[r] = straggler.Step{Rank: r, Number: int64(s)}
			if d := of(j.input, r, s); d > 0 {
				add(r, straggler.Input, d, "")
			}
			add(r, straggler.Forward, of(j.forward, r, s), "")
			last[r%groups] = max(last[r%groups], at[r])
		}
		all := 0.0
		for r := range j.ranks {
			d := 5.0
			if j.transfer != nil {
				d = j.transfer(r, s)
			}
			d += last[r%groups] - at[r] + of(j.later, r, s)
			name := ""
			if groups > 1 {
				name = "dp" + string(rune('0'+r%groups))
			}
			add(r, straggler.Communication, d, name)
			all = max(all, at[r])
		}
		for r := range j.ranks {
			if groups > 1 {
				add(r, straggler.Communication, all+1-at[r], "")
				steps[r].Spans[len(steps[r].Spans)-1].GroupSize = j.ranks
			}
			st.Add(&steps[r])
		}
	}
	return st
}

func constant(v float64) func(int, int) float64 { return func(int, int) float64 { return v } }

// late returns a time of usual plus the extra time of some ranks.
func late(usual float64, more map[int]float64) func(int, int) float64 {
	return func(r, _ int) float64 { return usual + more[r] }
}

// TestRules has, for each threshold, a job on either side of it.
func TestRules(t *testing.T) {
	fast := constant(100)
	// Rank 0 is late by a, and all ranks wait for data for b: repairing the rank saves a/(b+a) of what
	// repairing the input saves.
	both := func(a, b float64) ruled {
		return ruled{ranks: 4, forward: late(100, map[int]float64{0: a}), input: constant(b)}
	}
	// A different rank in each step takes more milliseconds longer.
	turns := func(more float64) ruled {
		return ruled{ranks: 8, forward: func(r, s int) float64 {
			if s%8 == r {
				return 100 + more
			}
			return 100
		}}
	}
	// The ranks of a group arrive together; the transfers of one group take longer.
	link := func(more float64) ruled {
		return ruled{ranks: 8, groups: 4, forward: fast, transfer: func(r, _ int) float64 {
			if r%4 == 2 {
				return 40 * more
			}
			return 40
		}}
	}
	// The two ranks alternately leave the collective later and so arrive last at the next one, without a
	// recorded reason. Rank 1 stalls in each fourth step.
	apart := func(by, more float64) ruled {
		return ruled{ranks: 2, forward: func(r, s int) float64 {
			if r == 1 && s%4 == 0 {
				return 95 - by + 4*more
			}
			return 95 - by
		}, later: func(r, s int) float64 {
			if r == s%2 {
				return by
			}
			return 0
		}}
	}
	input := apart(9, 35)
	input.input = constant(60)
	for name, c := range map[string]struct {
		job   ruled
		kind  finding.Kind
		ranks []int
		why   string
	}{
		"a rank saves over half of what the input does": {both(22, 40), finding.SlowRanks, []int{0}, ""},
		"a rank saves less than half":                   {both(18, 40), finding.InputSlow, nil, ""},
		"no input gains 12 %":                           {ruled{ranks: 4, forward: fast, input: constant(12.6)}, finding.InputSlow, nil, ""},
		"no input gains 8 %":                            {ruled{ranks: 4, forward: fast, input: constant(8.4)}, finding.Fine, nil, ""},
		"balance gains 6 %":                             {turns(7.1), finding.Imbalance, nil, ""},
		"balance gains 4 %":                             {turns(4.8), finding.Fine, nil, ""},
		"a rank has 30 % less work":                     {ruled{ranks: 4, forward: late(100, map[int]float64{3: -30})}, finding.Imbalance, []int{3}, ""},
		"two ranks of eight have 30 % less work":        {ruled{ranks: 8, forward: late(100, map[int]float64{3: -30, 6: -28})}, finding.Imbalance, []int{3, 6}, ""},
		"a rank has 15 % less work":                     {ruled{ranks: 4, forward: late(100, map[int]float64{3: -15})}, finding.Fine, nil, ""},
		"a rank has 95 % of what two save":              {ruled{ranks: 6, forward: late(100, map[int]float64{1: 30, 4: 1.5})}, finding.SlowRanks, []int{1}, ""},
		"a rank has 80 % of what two save":              {ruled{ranks: 6, forward: late(100, map[int]float64{1: 30, 4: 6})}, finding.SlowRanks, []int{1, 4}, ""},
		"a rank gains 2.5 %":                            {ruled{ranks: 4, forward: late(100, map[int]float64{3: 2.7})}, finding.SlowRanks, []int{3}, ""},
		"a rank gains 1.5 %":                            {ruled{ranks: 4, forward: late(100, map[int]float64{3: 1.6})}, finding.Fine, nil, ""},
		"transfers of a group are a third longer":       {link(1.35), finding.SlowTransfer, []int{2, 6}, ""},
		"transfers of a group are a sixth longer":       {link(1.16), finding.Fine, nil, ""},
		"members leave apart by 2 % of a step":          {apart(2, 0), finding.Fine, nil, ""},
		"members leave apart by 4 %":                    {apart(4, 0), finding.Unknown, nil, "replay"},
		"by 5 %, and a rank saves seven times that":     {apart(9, 60), finding.SlowRanks, []int{1}, ""},
		"by 5 %, and a rank saves three times that":     {apart(9, 30), finding.Unknown, nil, "replay"},
		"by 4 %, a rank four times, input seven times":  {input, finding.Unknown, nil, "replay"},
	} {
		v := c.job.state().Verdict()
		if v.Kind != c.kind || v.Reason != c.why || !slices.Equal(v.Ranks, c.ranks) {
			t.Errorf("%s: %s %s (gain %.3f, replay error %.3f, second %s); want %s %s, ranks %v", name, v.Sentence, v.Reason, v.Gain, v.Coverage.ReplayError, v.Second, c.kind, c.why, c.ranks)
		}
	}
}

// TestOneWayMessages: the messages of one rank to the other connect both, if the stages show where they come
// from.
func TestOneWayMessages(t *testing.T) {
	for _, c := range []struct {
		receiver int
		stages   bool
		kind     finding.Kind
	}{
		{1, true, finding.Fine},
		{0, true, finding.Fine},
		{1, false, finding.Unknown},
	} {
		st := straggler.New(&straggler.Options{WorldSize: 2})
		if c.stages {
			st.SetRank(0, straggler.Rank{Role: "stage0"})
			st.SetRank(1, straggler.Rank{Role: "stage1"})
		}
		for s := range 60 {
			at := ms(float64(200 * s))
			sender := straggler.Step{Rank: 1 - c.receiver, Number: int64(s), Start: at, End: at + ms(200), Spans: []straggler.Span{
				{Phase: straggler.Forward, Start: at, End: at + ms(100)},
				{Phase: straggler.Communication, Meeting: straggler.Send, Start: at + ms(100), End: at + ms(100)},
				{Phase: straggler.Backward, Start: at + ms(100), End: at + ms(200)},
			}}
			receiver := straggler.Step{Rank: c.receiver, Number: int64(s), Start: at, End: at + ms(200), Spans: []straggler.Span{
				{Phase: straggler.Communication, Meeting: straggler.Receive, Start: at, End: at + ms(100)},
				{Phase: straggler.Forward, Start: at + ms(100), End: at + ms(200)},
			}}
			st.Add(&sender)
			st.Add(&receiver)
		}
		if v := st.Verdict(); v.Kind != c.kind {
			t.Errorf("rank %d receives, stages %v: verdict %s %s: %s; want %s", c.receiver, c.stages, v.Kind, v.Reason, v.Sentence, c.kind)
		}
	}
}

// TestRanking: the table of ranks shows the late rank's work, who waits for it and for how long.
func TestRanking(t *testing.T) {
	v := ruled{ranks: 4, forward: late(100, map[int]float64{1: 30})}.state().Verdict()
	for r, got := range v.Ranking {
		want := straggler.RankRow{Rank: r, Own: 100, Wait: 30}
		if r == 1 {
			want = straggler.RankRow{Rank: r, Own: 130, Excess: 30, Last: 1, Caused: 3 * 30}
		}
		near := func(a, b float64) bool { return math.Abs(a-b) < 0.01 }
		if got.Rank != want.Rank || !near(got.Own, want.Own) || !near(got.Wait, want.Wait) || !near(got.Last, want.Last) || !near(got.Caused, want.Caused) || r == 1 && !near(got.Excess, want.Excess) {
			t.Errorf("row %d is %+v, want %+v", r, got, want)
		}
	}
}

// TestQueueOfAnyPace: fetches of at most 200 us come from a queue, whose batches are ready as soon as the
// loader has made them: time that a rank saves elsewhere is spent waiting for the queue. A loader whose
// fetches always take longer loads each batch on request.
func TestQueueOfAnyPace(t *testing.T) {
	gain := func(fetch float64) float64 {
		// All ranks wait for the loader in each fourth step; rank 1 is late in the other steps.
		j := ruled{ranks: 2, forward: late(60, map[int]float64{1: 30}), input: func(_, s int) float64 {
			if s%4 == 0 {
				return 60
			}
			return fetch
		}}
		return j.state().Verdict().Gain
	}
	queue, none := gain(0.15), gain(0.3)
	if queue > 1.2 || none < 1.3 {
		t.Errorf("without the late rank the job is %.3f times faster with a queue, want at most 1.2; %.3f times without, want at least 1.3", queue, none)
	}
}

// TestOneOfTwo: if two ranks are late in turn, neither is to blame. If one of them is late in most steps, the
// verdict does not also report an imbalance.
func TestOneOfTwo(t *testing.T) {
	steps := func(less int) *straggler.Verdict {
		return ruled{ranks: 2, forward: func(r, s int) float64 {
			if (r == 1) == (s%10 >= less) {
				return 150
			}
			return 100
		}}.state().Verdict()
	}
	if v := steps(1); v.Kind != finding.SlowRanks || v.Second != "" {
		t.Errorf("verdict %s %s, want slow ranks and no second cause", v.Sentence, v.Second)
	}
	if v := steps(5); v.Kind != finding.Imbalance {
		t.Errorf("verdict %s, want an imbalance", v.Sentence)
	}
}

// TestLessWork: a rank with less work than the others is named with the kind of work and what the others take, also
// if the times vary.
func TestLessWork(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, sigma := range []float64{0, 2} {
		v := ruled{ranks: 4, forward: func(r, _ int) float64 {
			if r == 3 {
				return 70 + sigma*rng.NormFloat64()
			}
			return 100 + sigma*rng.NormFloat64()
		}}.state().Verdict()
		e := v.Evidence
		if v.Kind != finding.Imbalance || !slices.Equal(v.Ranks, []int{3}) || v.Cause != "forward" || e.Affected != e.Judged || math.Abs(e.Level-70) > 1 || math.Abs(e.Others-100) > 1 ||
			!strings.HasPrefix(v.Sentence, "Rank 3 has less work than the others, ") || strings.Contains(v.Next, "garbage") {
			t.Errorf("varying by %v ms: %s, %+v, next %q; want rank 3 with 70 ms in forward instead of 100 ms in all steps", sigma, v.Sentence, e, v.Next)
		}
		if bad := findingtest.CheckVerdict(v); len(bad) > 0 {
			t.Errorf("the verdict breaks rules: %q", bad)
		}
	}
}
