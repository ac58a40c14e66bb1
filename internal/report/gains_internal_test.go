package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
)

// slowAttempt returns an attempt in which rank 2 costs 60 ms of each step of 100 ms.
func slowAttempt(number, steps int) Attempt {
	v := &straggler.Verdict{Finding: finding.Finding{Kind: finding.SlowRanks, Ranks: []int{2}, Cause: "input", ToStep: -1, Gain: 2.5, Cost: 0.6, Saved: 60,
		Evidence: &finding.Evidence{Affected: steps, Interval: steps, Excess: 60}}}
	v.Coverage.Steps = steps
	return Attempt{Number: number, Straggler: v}
}

// The gain of a fix is given in seconds of the run, for its kept steps, and not as a factor.
func TestGainsAreSecondsOfTheRun(t *testing.T) {
	const second = int64(1e9)
	for _, c := range []struct {
		name     string
		attempts []Attempt
		lost     int
		inSteps  int64
		want     string
	}{
		{"one attempt", []Attempt{slowAttempt(1, 100)}, 0, 12 * second, "At the others' speed the run takes about 14.0 s: 6.0 s less."},
		{"two attempts", []Attempt{slowAttempt(1, 50), slowAttempt(2, 50)}, 0, 12 * second, "about 14.0 s: 6.0 s less."},
		{"steps that were lost", []Attempt{slowAttempt(1, 50), slowAttempt(2, 50)}, 25, 12 * second, "about 15.5 s: 4.5 s less."},
		{"no more than the steps took", []Attempt{slowAttempt(1, 100)}, 0, 4 * second, "about 16.0 s: 4.0 s less."},
	} {
		r := &Report{Attempts: c.attempts, Ranks: make([]Rank, 4), Ledger: &account.Report{}}
		r.Ledger.Wall = 20 * second
		r.Ledger.Categories = account.Totals{account.Productive: 4 * c.inSteps}
		if c.lost > 0 {
			r.Ledger.Disruptions = []account.Disruption{{After: 1, Next: 2, Iterations: c.lost}}
		}
		r.Verdict.Rank = c.attempts[0].Straggler
		r.gainsInRun()
		if of := r.Verdict.Rank; math.Abs(r.Verdict.RankCost-(1-of.RunRepaired/20)) > 1e-9 || r.Verdict.RankCost == 0 {
			t.Errorf("%s: the share is %v, want that of %v s of 20 s", c.name, r.Verdict.RankCost, 20-of.RunRepaired)
		}
		for i := range r.Attempts {
			got := r.Attempts[i].Straggler
			if !strings.HasSuffix(got.Sentence, c.want) || strings.Contains(got.Sentence, "faster") || got.Gain != 2.5 {
				t.Errorf("%s, attempt %d: got %q and gain %v, want the end %q and gain 2.5", c.name, i+1, got.Sentence, got.Gain, c.want)
			}
		}
	}
}

// TestHangOfTheLastAttempt: a hang that the job ended with is the verdict, whatever other attempts lost; one that a later
// attempt has overcome is not. While the last attempt runs, its verdict is that of the job.
func TestHangOfTheLastAttempt(t *testing.T) {
	hang := func(number int) Attempt {
		return Attempt{Number: number, Straggler: &straggler.Verdict{Finding: finding.Finding{Kind: finding.Hang, Ranks: []int{1}, ToStep: -1}}}
	}
	fine := func(number int) Attempt {
		return Attempt{Number: number, Straggler: &straggler.Verdict{Finding: finding.Finding{Kind: finding.Fine}}}
	}
	unknown := func(number int) Attempt {
		return Attempt{Number: number, Straggler: &straggler.Verdict{Finding: finding.Finding{Kind: finding.Unknown}}}
	}
	for _, c := range []struct {
		name     string
		attempts []Attempt
		want     int
		running  int // the number of the attempt, 0 if none runs
	}{
		{"a slow rank, then a hang", []Attempt{slowAttempt(1, 50), hang(2)}, 2, 0},
		{"a hang twice", []Attempt{hang(1), hang(2)}, 2, 0},
		{"a hang, then a slow rank", []Attempt{hang(1), slowAttempt(2, 50)}, 2, 0},
		{"a slow rank, a hang, and then none", []Attempt{slowAttempt(1, 50), hang(2), fine(3)}, 1, 0},
		{"a hang, then none", []Attempt{hang(1), fine(2)}, 2, 0},
		{"a hang, then too few steps", []Attempt{hang(1), unknown(2)}, 1, 0},
		{"a hang, and it runs again", []Attempt{hang(1), unknown(2)}, 2, 2},
		{"a slow rank, and it runs well", []Attempt{slowAttempt(1, 50), fine(2)}, 2, 2},
		{"a slow rank, and it begins to run", []Attempt{slowAttempt(1, 50), unknown(2)}, 1, 2},
	} {
		r := &Report{Attempts: c.attempts, Ledger: &account.Report{}, running: noAttempt}
		if c.running > 0 {
			r.running = c.running
		}
		for i := range r.Attempts {
			r.Attempts[i].Stop = 1e9
		}
		if r.chooseVerdict(); r.Verdict.Attempt != c.want {
			t.Errorf("%s: the verdict is about attempt %d, want %d", c.name, r.Verdict.Attempt, c.want)
		}
	}
}

// Actions are only about notable costs: none advises a larger data loader if there is little
// waiting for data, and none is about recording if the command failed before training.
func TestAdviceThatTheJobCanFollow(t *testing.T) {
	const workers, record = "give the data loader more workers", "record the training steps"
	good := 0.9
	for _, c := range []struct {
		name    string
		wait    float64
		goodput *float64
		how     job.How
		text    string
		want    bool
	}{
		{"much data wait", 0.2, &good, job.Completed, workers, true},
		{"little data wait", 0.08, &good, job.Completed, workers, false},
		{"no steps", 0, nil, job.Completed, record, true},
		{"failed before its first step", 0, nil, job.Failed, record, false},
	} {
		r := &Report{Goodput: c.goodput, Outcome: &job.Outcome{How: c.how}, Ledger: &account.Report{}}
		r.Ledger.Wall = 1e9
		if c.wait > 0 {
			r.Losses = []Loss{{Category: account.DataWait, Share: c.wait}}
		}
		list, _ := r.next()
		if got := slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, c.text) }); got != c.want {
			t.Errorf("%s: %q is among %q: %v, want %v", c.name, c.text, list, got, c.want)
		}
	}
}
