package fromrun_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/analysis/replay"
	"github.com/trainspan/trainspan/analysis/replay/fromrun"
	"github.com/trainspan/trainspan/internal/trainsim"
)

// judge gives the verdict on a simulated job.
func judge(t *testing.T, j *trainsim.Job) *replay.Verdict {
	t.Helper()
	c := fromrun.New()
	job, err := j.Feed(c.Open)
	if err != nil {
		t.Fatal(err)
	}
	a := c.Attempts(job)
	if len(a) == 0 {
		return &replay.Verdict{Finding: replay.Finding{Kind: replay.Unknown}}
	}
	return a[0].State.Verdict()
}

// TestDrawnJobs judges jobs that were drawn at random, of all families: no rank without a
// fault is blamed, and what a repair gains is what it gains when the job runs again
// without the fault, within 15 % or 0.02, in 95 % of the answers. In make test these are
// 90 jobs, always the same; TRAINSPAN_SIM_JOBS and TRAINSPAN_SIM_SEED take others.
func TestDrawnJobs(t *testing.T) {
	jobs, seed := 90, uint64(1)
	if !testing.Short() {
		jobs = 600
	}
	fmt.Sscan(os.Getenv("TRAINSPAN_SIM_JOBS"), &jobs)
	fmt.Sscan(os.Getenv("TRAINSPAN_SIM_SEED"), &seed)
	families := slices.DeleteFunc(trainsim.Families(), func(f string) bool { return strings.HasPrefix(f, "natural") })
	got := map[string]int{}
	gains, near := 0, 0
	for i := range jobs {
		j := trainsim.Draw(seed+uint64(i), families[i%len(families)])
		truth := j.Truth(false)
		v := judge(t, j)
		innocent := slices.ContainsFunc(v.Ranks, func(r int) bool { return !slices.Contains(truth.Culprits, r) })
		out := "other"
		switch {
		case v.Kind == replay.Unknown && truth.AbstainOK:
			out = "abstained"
		case v.Kind == replay.Unknown:
			out = "abstained without need"
		case (v.Kind == replay.SlowRanks || v.Kind == replay.Hang) && innocent:
			out = "wrong blame"
		case string(v.Kind) == truth.Kind && (slices.Equal(v.Ranks, truth.Ranks) || v.Kind == replay.SlowTransfer):
			out = "right"
		case v.Kind == replay.Hang && truth.Kind == "hang" && len(v.Ranks) == 0:
			out = "right" // nothing on record tells the ranks apart
		case v.Kind == replay.Fine && truth.Gain < 1.04 && truth.Kind != "hang":
			out = "right" // it gains about as much as is worth a word
		case v.Kind == replay.Fine:
			out = "missed"
		}
		got[out]++
		if out == "wrong blame" || testing.Verbose() && out != "right" && out != "abstained" {
			t.Logf("%s: %s: truth %s %v %.3f: %s", j.Name, out, truth.Kind, truth.Ranks, truth.Gain, v.Sentence)
		}
		if v.Kind == replay.SlowRanks && out == "right" {
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
		t.Errorf("wrong blame %d of %d, gains %d of %d", got["wrong blame"], jobs, near, gains)
	}
	if ok := got["right"] + got["abstained"]; 100*ok < 90*jobs {
		t.Errorf("%d of %d jobs are right or rightly unknown: %v", ok, jobs, got)
	}
}
