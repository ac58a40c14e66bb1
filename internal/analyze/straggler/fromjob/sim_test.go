package fromjob_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/findingtest"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// judge returns the verdict on a simulated job.
func judge(t *testing.T, j *simjob.Job) *straggler.Verdict {
	t.Helper()
	return judgeAs(t, j, func(*job.Process) {})
}

// judgeAs returns the verdict on a simulated job after change is applied to each process.
func judgeAs(t *testing.T, j *simjob.Job, change func(*job.Process)) *straggler.Verdict {
	t.Helper()
	c := fromjob.New(nil)
	job, err := j.Feed(func(p *job.Process) job.Sink {
		change(p)
		return open(c, p)
	})
	if err != nil {
		t.Fatal(err)
	}
	a := c.Attempts(job)
	if len(a) == 0 {
		return &straggler.Verdict{Finding: finding.Finding{Kind: finding.Unknown}}
	}
	return a[0].State.Verdict()
}

// TestDrawnJobs judges random jobs of all families. Ranks without a fault are rarely blamed. In 95 % of the
// verdicts the gain of a repair matches a run of the job without the fault, within 15 % or 0.02. The short
// test always judges the same 24 jobs, the long one 600; TRAINSPAN_SIM_JOBS and TRAINSPAN_SIM_SEED select
// others.
func TestDrawnJobs(t *testing.T) {
	jobs, seed := 24, uint64(1)
	if !testing.Short() {
		jobs = 600
	}
	fmt.Sscan(os.Getenv("TRAINSPAN_SIM_JOBS"), &jobs)
	fmt.Sscan(os.Getenv("TRAINSPAN_SIM_SEED"), &seed)
	families := slices.DeleteFunc(simjob.Families(), func(f string) bool { return strings.HasPrefix(f, "natural") })
	got := map[string]int{}
	gains, near := 0, 0
	for i := range jobs {
		j := simjob.Draw(seed+uint64(i), families[i%len(families)])
		truth := j.Truth()
		v := judge(t, j)
		for _, bad := range findingtest.CheckVerdict(v) {
			t.Errorf("%s: the verdict differs from the truth: %s", j.Name, bad)
		}
		innocent := slices.ContainsFunc(v.Ranks, func(r int) bool { return !slices.Contains(truth.Culprits, r) })
		out := "other"
		switch {
		case v.Kind == finding.Unknown && truth.AbstainOK:
			out = "abstained"
		case v.Kind == finding.Unknown:
			out = "abstained without need"
		case (v.Kind == finding.SlowRanks || v.Kind == finding.Hang) && innocent:
			out = "wrong blame"
		case string(v.Kind) == truth.Kind && (slices.Equal(v.Ranks, truth.Ranks) || v.Kind == finding.SlowTransfer):
			out = "right"
		case v.Kind == finding.Hang && truth.Kind == "hang" && len(v.Ranks) == 0:
			out = "right" // the records do not distinguish the ranks
		case v.Kind == finding.Fine && truth.Gain < 1.04 && truth.Kind != "hang":
			out = "right" // the gain is about the reporting threshold
		case v.Kind == finding.Fine:
			out = "missed"
		}
		got[out]++
		if out == "wrong blame" || testing.Verbose() && out != "right" && out != "abstained" {
			t.Logf("%s: %s: truth %s %v %.3f: %s", j.Name, out, truth.Kind, truth.Ranks, truth.Gain, v.Sentence)
		}
		if v.Kind == finding.SlowRanks && out == "right" {
			want := j.GainOf(v.Ranks...)
			gains++
			if math.Abs(v.Gain-want) <= max(0.15*(want-1), 0.02) {
				near++
			} else {
				t.Logf("%s: gain %.3f, truly %.3f", j.Name, v.Gain, want)
			}
		}
	}
	t.Logf("%d jobs from seed %d: %v; gains near the truth %d of %d", jobs, seed, got, near, gains)
	if 200*got["wrong blame"] > jobs || 20*(gains-near) > gains {
		t.Errorf("wrong blame in %d of %d jobs, want at most 1 in 200; gains near the truth in %d of %d, want 95 %%", got["wrong blame"], jobs, near, gains)
	}
	if ok := got["right"] + got["abstained"]; 100*ok < 90*jobs {
		t.Errorf("%d of %d jobs are right or rightly unknown, want 90 %%: %v", ok, jobs, got)
	}
}

// TestHalfOfARole has jobs in which half of the ranks are slow in one phase, which permuted labels cannot
// show. In another job ranks wait for each other in no span, so that one kind of work looks longer and
// another shorter.
func TestHalfOfARole(t *testing.T) {
	for _, tc := range []struct {
		seed   uint64
		family string
		kind   finding.Kind
		ranks  []int
	}{
		{40, "host", finding.SlowRanks, []int{4, 5, 6, 7}},
		{490, "host", finding.SlowRanks, []int{4, 5, 6, 7}},
		{86, "unrecorded", finding.Unknown, nil},
	} {
		v := judge(t, simjob.Draw(tc.seed, tc.family))
		if v.Kind != tc.kind || !slices.Equal(v.Ranks, tc.ranks) {
			t.Errorf("%s %d: want %s, ranks %v, got %s", tc.family, tc.seed, tc.kind, tc.ranks, v.Sentence)
		}
	}
}

// TestWaitBudget checks that the parts of a wait budget add up, that it matches the true waits, and that it
// names the slow rank and its work if one rank is slow.
func TestWaitBudget(t *testing.T) {
	total, near, phase := 0, 0, 0
	last := uint64(3060)
	if testing.Short() {
		last = 3036
	}
	for seed := uint64(3000); seed < last; seed++ {
		j := simjob.Draw(seed, "single", "healthy", "input", "imbalance")
		v := judge(t, j)
		w := v.Waits
		if w == nil {
			t.Errorf("%s has no wait budget, want one: %s", j.Name, v.Sentence)
			continue
		}
		of := make([]int64, len(w.Names))
		var cells, groups, phases int64
		for _, c := range w.Cells {
			cells, of[c.For] = cells+c.Time, of[c.For]+c.Time
		}
		for _, g := range w.Group {
			groups += g.Time
		}
		for _, p := range w.Phases {
			phases += p.Time
		}
		if cells != w.Total || groups != w.Total || phases != w.Total {
			t.Errorf("%s: cells sum to %d, groups to %d, phases to %d, want %d", j.Name, cells, groups, phases, w.Total)
		}
		total++
		if want := j.Run().Waiting; math.Abs(w.Share-want) <= max(0.1*want, 0.01) {
			near++
		} else {
			t.Logf("%s: waiting %.3f, truly %.3f", j.Name, w.Share, want)
		}
		if v.Kind == finding.SlowRanks && slices.Equal(v.Ranks, j.Truth().Ranks) && v.Gain > 1.05 && j.Layout != simjob.PP {
			if i := slices.Index(of, slices.Max(of)); w.Names[i] != fmt.Sprint(v.Ranks[0]) {
				t.Errorf("%s: most waits are for %s, want rank %d: %s", j.Name, w.Names[i], v.Ranks[0], v.Sentence)
			}
			if phase++; w.Phases[0].Name != j.Faults[0].Phase {
				t.Errorf("%s: most waits are for %s, want %s: %s", j.Name, w.Phases[0].Name, j.Faults[0].Phase, v.Sentence)
			}
		}
	}
	t.Logf("%d jobs, %d near the truth, %d with a slow rank", total, near, phase)
	if 20*near < 19*total || phase < 5 {
		t.Errorf("of %d jobs %d are near the truth, want 95 %%; %d have a slow rank, want 5 or more", total, near, phase)
	}
}

// TestSameAnswer checks that the verdict depends neither on rank numbers nor on clocks: renumbered ranks and
// clocks that are days apart give the same verdict.
func TestSameAnswer(t *testing.T) {
	for seed := uint64(5000); seed < 5012; seed++ {
		draw := func() *simjob.Job {
			return simjob.Draw(seed, "single", "two", "imbalance", "input", "prefetch", "overlap")
		}
		j := draw()
		if j.Layout == simjob.PP || j.Layout == simjob.TPDP {
			continue // rank numbers determine the neighbors
		}
		want := judge(t, j)
		renamed := judgeAs(t, draw(), func(p *job.Process) { p.Rank = j.Ranks - 1 - p.Rank })
		for i := range renamed.Ranks {
			renamed.Ranks[i] = j.Ranks - 1 - renamed.Ranks[i]
		}
		slices.Sort(renamed.Ranks)
		shifted := draw()
		shifted.Offset = func(rank int) int64 { return int64(rank) * 86400e6 }
		for what, got := range map[string]*straggler.Verdict{"renamed": renamed, "shifted": judge(t, shifted)} {
			if got.Kind != want.Kind || !slices.Equal(got.Ranks, want.Ranks) || math.Abs(got.Gain-want.Gain) > 1e-3 || got.FromStep != want.FromStep {
				t.Errorf("%s %s: %s\nwant %s", j.Name, what, got.Sentence, want.Sentence)
			}
		}
	}
}

// TestQueuesThatFill has a job whose storage is slow for all ranks, each with a queue of batches. Rank 1 waits for 224
// ms in nearly each step, and the queues of the others fill meanwhile. Whether their loaders are faster is unknown,
// but there is a problem.
func TestQueuesThatFill(t *testing.T) {
	v := judge(t, simjob.Draw(70260, "prefetch"))
	if v.Kind != finding.Unknown || v.Reason != "loader" || !slices.Equal(v.Suspects, []int{1}) || v.Suspected == nil || v.Suspected.Cause != "input" {
		t.Errorf("got %s (%s), suspects %v: %s; want unknown (loader), suspects [1] for input", v.Kind, v.Reason, v.Suspects, v.Sentence)
	}
}
