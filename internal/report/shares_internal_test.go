package report

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// slowAccount returns the account of two ranks. One waits half of the time for the other.
func slowAccount() *account.Report {
	return &account.Report{
		Wall:            100,
		Categories:      account.Totals{account.Productive: 120, account.DataWait: 50, account.Init: 20, account.Warmup: 10},
		ProductiveParts: account.Parts{account.Compute: 60, account.WaitInStep: 60},
		WaitedFor:       []account.WaitedFor{{Rank: 1, Time: 60, InSteps: 60}},
		Ranks: []account.RankReport{
			{Rank: 0, Categories: account.Totals{account.Productive: 85, account.Init: 10, account.Warmup: 5}, ProductiveParts: account.Parts{account.Compute: 25, account.WaitInStep: 60}},
			{Rank: 1, Categories: account.Totals{account.Productive: 35, account.DataWait: 50, account.Init: 10, account.Warmup: 5}, ProductiveParts: account.Parts{account.Compute: 35}},
		},
	}
}

// Waiting is separate from the parts of steps, the work of one rank has the rank in its name,
// and all parts of the start are one share.
func TestShares(t *testing.T) {
	goodput := 0.6
	r := &Report{Ledger: slowAccount(), Goodput: &goodput}
	var got []string
	var sum int64
	for _, s := range r.shares() {
		got = append(got, s.Name)
		sum += s.Time
	}
	want := []string{"compute", "wait for rank 1", "data, rank 1", "start"}
	if len(got) != len(want) || sum != 200 {
		t.Fatalf("shares() = %q of %d ns, want %q of 200", got, sum, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("shares() = %q, want %q", got, want)
		}
	}
	if r.Goodput = nil; r.shares() != nil {
		t.Errorf("shares() = %v where the time in steps is not known, want none", r.shares())
	}
}

// For any shares, a bar has at most as many parts as there are shades, and 100 % in total.
func TestCondensedSharesAddUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var list []Share
		var all int64
		for range 1 + rnd.IntN(12) {
			list = append(list, Share{Name: "x", Time: 1 + int64(rnd.ExpFloat64()*1e6)})
			all += list[len(list)-1].Time
		}
		for i := range list {
			list[i].Share = float64(list[i].Time) / float64(all)
		}
		sortShares(list)
		sum, ns := 0, int64(0)
		out := condense(list, 6)
		for _, c := range out {
			sum, ns = sum+c.Percent, ns+c.Time
			if c.Percent < 0 {
				t.Fatalf("shares %+v, want none below 0", out)
			}
		}
		if sum != 100 || ns != all || len(out) > 6 {
			t.Fatalf("condense(%v) = %v: %d %%, %d of %d ns; want 100 %% and all of it in six parts or fewer", list, out, sum, ns, all)
		}
	}
}

// The diagnosis is not "no problem" if the steps are not divided, if all waiting is for one
// rank, or if communication takes much of the time.
func TestNoProblemFound(t *testing.T) {
	move := func(r *Report, to account.Part, ns int64) {
		for i := range r.Ledger.Ranks {
			r.Ledger.Ranks[i].ProductiveParts[account.Compute] -= ns / 4
			r.Ledger.Ranks[i].ProductiveParts[to] += ns / 4
		}
		r.Ledger.ProductiveParts[account.Compute] -= ns
		r.Ledger.ProductiveParts[to] += ns
	}
	for name, c := range map[string]struct {
		change func(r *Report)
		want   string
	}{
		"all is compute": {func(*Report) {}, finding.Fine.Title()},
		"not divided":    {func(r *Report) { move(r, account.StepUnsplit, 3000) }, finding.Unknown.Title()},
		"waits by chance": {func(r *Report) {
			move(r, account.WaitInStep, 800)
			for rank := range 4 {
				r.Ledger.WaitedFor = append(r.Ledger.WaitedFor, account.WaitedFor{Rank: rank, Time: 200, InSteps: 200})
			}
		}, finding.Fine.Title()},
		"waits for one": {func(r *Report) {
			move(r, account.WaitInStep, 800)
			r.Ledger.WaitedFor = []account.WaitedFor{{Rank: 2, Time: 800, InSteps: 800}}
		}, "WAIT"},
		"communication":    {func(r *Report) { move(r, account.Communication, 800) }, "COMMUNICATION"},
		"code in no span":  {func(r *Report) { move(r, account.OtherCode, 800) }, "OTHER CODE"},
		"no step compared": {func(r *Report) { r.Steps.Compared = 0 }, finding.Unknown.Title()},
		"ranks not judged": {func(r *Report) { r.Verdict.Rank.Kind = finding.Unknown }, finding.Unknown.Title()},
	} {
		r := evenJob()
		c.change(r)
		r.Shares = r.shares()
		if r.diagnose(); r.Verdict.Diagnosis != c.want {
			t.Errorf("%s: diagnosis %s, %q, want %s", name, r.Verdict.Diagnosis, r.Verdict.Why, c.want)
		}
	}
}

// evenJob returns the report of 4 ranks that compute all the time.
func evenJob() *Report {
	goodput := 1.0
	led := &account.Report{Wall: 1000, Categories: account.Totals{account.Productive: 4000}, ProductiveParts: account.Parts{account.Compute: 4000}}
	for rank := range 4 {
		led.Ranks = append(led.Ranks, account.RankReport{Rank: rank, Categories: account.Totals{account.Productive: 1000}, ProductiveParts: account.Parts{account.Compute: 1000}})
	}
	led.Iterations.Kept = 50
	return &Report{Ledger: led, Goodput: &goodput, Ranks: make([]Rank, 4), Attempts: make([]Attempt, 1), Steps: Steps{Count: 50, Compared: 49, Median: 20, P99: 21},
		Verdict: Verdict{Rank: &straggler.Verdict{Finding: finding.Finding{Kind: finding.Fine}}}}
}

// TestDoubt checks that, for any diagnosis, the screen has the suspected rank, the probability that it is chance,
// and what would settle it. It also has the rows of the suspicion if there is no other diagnosis.
func TestDoubt(t *testing.T) {
	for _, kind := range []finding.Kind{finding.Unknown, finding.StartUp} {
		r := evenJob()
		r.Verdict.Rank = &straggler.Verdict{Finding: finding.Finding{Kind: finding.Unknown}, Reason: "chance", Suspects: []int{1},
			Suspected: &finding.Finding{Kind: finding.SlowRanks, Ranks: []int{1}, Cause: "host", Gain: 1.03, FromStep: 2, ToStep: -1, Pattern: finding.SingleSteps,
				Evidence: &finding.Evidence{Affected: 2, Interval: 40, Judged: 40, Excess: 350, Chance: 0.14}}}
		f := r.Verdict.Rank.Suspected
		f.Proof = finding.NewProof([]string{"own work"}, []int{0, 1, 2}, f.Ranks, func(rank int) []int64 { return []int64{int64(20 + 350*(rank%2))} })
		if kind == finding.StartUp {
			for i := range r.Ledger.Ranks {
				k := &r.Ledger.Ranks[i]
				k.Categories[account.Productive], k.ProductiveParts[account.Compute], k.Categories[account.Init] = 500, 500, 500
			}
			r.Ledger.Categories = account.Totals{account.Productive: 2000, account.Init: 2000}
			r.Losses, r.Ledger.Wall = losses(r.Ledger), shortRun
		}
		r.Shares = r.shares()
		r.diagnose()
		got := strings.Join(r.notKnown(), "\n")
		if r.Verdict.kind != kind {
			t.Fatalf("verdict %s, want %s", r.Verdict.kind, kind)
		}
		if kind == finding.Unknown {
			if p := r.Verdict.Proof; strings.Contains(got, "rank 1") || p != f.Proof {
				t.Errorf("%s: not known %q, proof %+v; want no word of rank 1, since the sentence has it, and its table", kind, got, p)
			}
			continue
		}
		for _, want := range []string{"rank 1", "2 of 40 steps", "14 %", "more steps"} {
			if !strings.Contains(got, want) || r.Verdict.Proof != nil {
				t.Errorf("%s: not known: %q, proof %+v; want %q and no proof", kind, got, r.Verdict.Proof, want)
			}
		}
	}
}

// The name of waits for messages is not just "communication", and a start that waits for one
// rank names it.
func TestWaitsBesideCollectives(t *testing.T) {
	goodput := 1.0
	r := &Report{Goodput: &goodput, Ledger: &account.Report{
		Wall: 1000, Categories: account.Totals{account.Productive: 700, account.Init: 1300}, WaitedFor: []account.WaitedFor{{Rank: 1, Time: 700, InInit: 700}},
		Ranks: []account.RankReport{{Rank: 0, Categories: account.Totals{account.Init: 1000}}, {Rank: 1, Categories: account.Totals{account.Productive: 700, account.Init: 300}, ProductiveParts: account.Parts{account.Communication: 700}}},
	}, Ranks: make([]Rank, 2), Losses: []Loss{{Category: account.Init, Time: 1300, Share: 0.65}},
		Verdict: Verdict{kind: finding.StartUp, Rank: &straggler.Verdict{Finding: finding.Finding{Kind: finding.Unknown}, Waits: &straggler.Waits{Bubble: 900}}}}
	if r.Shares = r.shares(); r.Shares[1].Name != messagesName+", rank 1" || r.Shares[1].Part != string(account.Communication) {
		t.Errorf("shares() = %+v, want %q second", r.Shares, messagesName)
	}
	r.Verdict.Finding = r.loss(finding.StartUp, 1300)
	if got, want := r.Verdict.Finding.Sentence(), "of it is waiting for rank 1."; !strings.HasSuffix(got, want) {
		t.Errorf("loss().Sentence() = %q, want the end %q", got, want)
	}
	if got := r.adviceOnDiagnosis(); !strings.Contains(got, "rank 1 is the last to start") {
		t.Errorf("action() = %q, want why rank 1 comes last", got)
	}
	r.Ledger.WaitedFor[0].InInit = 400
	if got := r.loss(finding.StartUp, 1300).Sentence(); strings.Contains(got, "waiting for") {
		t.Errorf(`loss().Sentence() = %q, want no "waiting for": less than half of the start waits for the rank`, got)
	}
}

// The share of waits for messages is that of the whole run, not of the attempt of the diagnosis.
func TestWaitsForMessages(t *testing.T) {
	goodput := 1.0
	parts := account.Parts{account.Compute: 600, account.Communication: 100, account.WaitInStep: 300}
	r := &Report{Goodput: &goodput, Ledger: &account.Report{
		Wall: 1000, Categories: account.Totals{account.Productive: 2000}, WaitedFor: []account.WaitedFor{{Rank: 1, Time: 500, InSteps: 500}}, Bubble: 600,
		Ranks: []account.RankReport{{Rank: 0, Categories: account.Totals{account.Productive: 1000}, ProductiveParts: parts}, {Rank: 1, Categories: account.Totals{account.Productive: 1000}, ProductiveParts: parts}},
	}, Ranks: make([]Rank, 2), Verdict: Verdict{Rank: &straggler.Verdict{Waits: &straggler.Waits{}}}}
	var got []string
	for _, s := range r.shares() {
		got = append(got, fmt.Sprint(s.Name, " ", s.Time))
	}
	if want := []string{"compute 1200", messagesName + " 800"}; !slices.Equal(got, want) {
		t.Errorf("got shares %q, want %q", got, want)
	}
}

// TestHeavyStage checks that, if messages and waits for them take much of the time, the report names the stage with
// more own time, if there is one.
func TestHeavyStage(t *testing.T) {
	for name, c := range map[string]struct {
		own  float64
		want string
	}{"even": {340, ""}, "heavy": {500, "stage 1"}} {
		r := evenJob()
		for i := range r.Ledger.Ranks {
			r.Ledger.Ranks[i].ProductiveParts = account.Parts{account.Compute: 700, account.Communication: 300}
		}
		v := r.Verdict.Rank
		v.Waits = &straggler.Waits{Bubble: 1}
		for rank := range 4 {
			row := straggler.RankRow{Rank: rank, Role: "stage 0", Own: 340}
			if rank >= 2 {
				row.Role, row.Own = "stage 1", c.own
			}
			v.Ranking = append(v.Ranking, row)
		}
		r.Shares = r.shares()
		r.diagnose()
		f := r.Verdict.Finding
		if f == nil || f.Kind != finding.SlowTransfer || f.Cause != c.want || strings.Contains(f.Sentence(), "works") != (c.want != "") || c.want != "" && !strings.Contains(r.adviceOnDiagnosis(), "move work from stage 1") {
			t.Errorf("%s: got %+v, action %q; want the stage %q", name, f, r.adviceOnDiagnosis(), c.want)
		}
	}
}

// TestLossHasOneTime checks that the diagnosis and the next action of one named loss have the same time, which is
// that of the named part, and that a wait for one rank counts per waiting rank: the run gets that much shorter.
func TestLossHasOneTime(t *testing.T) {
	for name, c := range map[string]struct {
		parts  account.Parts
		spent  account.Totals
		waited int64
		why    string
		next   string
		cost   float64
	}{
		"wait for one of four": {account.Parts{account.WaitInStep: 24}, nil, 93, "Wait for rank 2: 31.0 s of each other rank's 3m 20s.", "(at most 31.0 s of the run)", 0.155},
		"a custom span and time without spans": {nil, account.Totals{"custom.tokenize": 30, account.Other: 1}, 0, "“tokenize” takes 30.0 s of each rank's 3m 20s.",
			"(at most 30.0 s of the run)", 0.15},
	} {
		t.Run(name, func(t *testing.T) {
			r := ofSeconds(200, c.spent, c.parts)
			if c.waited > 0 {
				r.Ledger.WaitedFor = []account.WaitedFor{{Rank: 2, Time: c.waited * 1e9, InSteps: c.waited * 1e9}}
				r.Shares = r.shares()
				r.diagnose()
			}
			next, _ := r.next()
			if v := &r.Verdict; v.Why != c.why || len(next) == 0 || !strings.HasSuffix(next[0], c.next) || v.Finding.Cost != c.cost {
				t.Errorf("diagnosis %q, next %q, cost %v; want %q, %q, %v", v.Why, next, v.Finding.Cost, c.why, c.next, c.cost)
			}
		})
	}
}

// TestPartNames checks that categories have readable names, the parts of a start with their common name in front.
func TestPartNames(t *testing.T) {
	inCharts := (&Report{Ledger: &account.Report{}, Series: &Series{Ledger: map[account.Category]Numbers{"custom.tok_x": nil, "startup.first_batch": nil}}}).chartWords()
	for _, c := range append(account.Categories(), "startup.first_batch", "custom.tok_x") {
		got := PartName(string(c))
		if of := inCharts[string(c)]; of != got && c != account.Wait {
			t.Errorf("charts show %q as %q, want %q", c, of, got)
		}
		if isStart := partOf(c) == partStart; isStart != strings.HasPrefix(got, "start: ") || !c.IsCustom() && strings.ContainsAny(got, "_.") {
			t.Errorf("PartName(%q) = %q, want \"start: \" first for parts of the start only, and no _ or . in it", c, got)
		}
	}
	for part, want := range map[string]string{"start": "start", "productive": "in steps", "downtime": "down", "init": "start: initialization", "startup.first_batch": "start: first batch", "custom.tok_x": "“tok_x”"} {
		if got := PartName(part); got != want {
			t.Errorf("PartName(%q) = %q, want %q", part, got, want)
		}
	}
}

// TestNotKnownOfWaits checks that the screen of a wait for a rank in a short profile does not also say that it is not
// known whether a rank is slow.
func TestNotKnownOfWaits(t *testing.T) {
	for _, profiled := range []bool{true, false} {
		r := evenJob()
		r.Verdict.Rank = &straggler.Verdict{Finding: finding.Finding{Kind: finding.Unknown}, Needed: "more steps"}
		r.Verdict.kind, r.Verdict.Finding = finding.Wait, &finding.Finding{Kind: finding.Wait, Ranks: []int{1}, NotKnown: []string{"whether it lasts"}}
		want := []string{"whether a rank is slow. To find out, record more steps", "whether it lasts"}
		if profiled {
			r.Profile, want = &Profile{}, want[1:]
		}
		if got := r.notKnown(); !slices.Equal(got, want) {
			t.Errorf("profile %v: notKnown() = %q, want %q", profiled, got, want)
		}
	}
}
