package findingtest_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/testkit/findingtest"
)

// good returns a finding that holds all rules.
func good() *finding.Finding {
	f := &finding.Finding{Kind: finding.SlowRanks, Ranks: []int{1}, Cause: "input", FromStep: 1, ToStep: -1, Gain: 1.25, GainLow: 1.2, GainHigh: 1.3, Cost: finding.CostOf(1.25), Saved: 40,
		Evidence: &finding.Evidence{Affected: 60, Interval: 80, Judged: 80, Excess: 40, ExcessLow: 39, ExcessHigh: 41, Level: 44, Others: 4}}
	f.Proof = finding.NewProof([]string{"data"}, []int{0, 1, 2}, f.Ranks, func(rank int) []int64 { return []int64{4e6 + int64(rank%2)*40e6} })
	f.Proof.SetLate(f.Evidence)
	f.InRun(20, 4, 20)
	return f
}

// TestCheck: a finding that breaks a rule is reported, one that breaks none is not.
func TestCheck(t *testing.T) {
	if bad := findingtest.Check(good()); len(bad) > 0 {
		t.Fatalf("Check() of a good finding = %q, want nothing", bad)
	}
	for name, change := range map[string]func(f *finding.Finding){
		"no evidence":                 func(f *finding.Finding) { f.Evidence = nil; f.Proof = nil },
		"no ranks":                    func(f *finding.Finding) { f.Ranks = nil },
		"a rank twice":                func(f *finding.Finding) { f.Ranks = []int{1, 1} },
		"no problem":                  func(f *finding.Finding) { f.Kind = finding.Fine },
		"more steps than the run":     func(f *finding.Finding) { f.Evidence.Interval = 81 },
		"more affected than there":    func(f *finding.Finding) { f.Evidence.Affected = 90 },
		"excess outside its bounds":   func(f *finding.Finding) { f.Evidence.Excess = 42 },
		"gain outside its bounds":     func(f *finding.Finding) { f.GainHigh = 1.21 },
		"cost of another gain":        func(f *finding.Finding) { f.Cost = 0.3 },
		"a run longer than it was":    func(f *finding.Finding) { f.RunRepaired = 21 },
		"a run outside its bounds":    func(f *finding.Finding) { f.RunHigh = f.RunLow },
		"another figure in the table": func(f *finding.Finding) { f.Proof.Rows[0].Times[0]++; f.Proof.Rows[0].Times[0] += 1000 },
		"a table of other ranks":      func(f *finding.Finding) { f.Proof.Rows[0].Named = false },
		"an end before the begin":     func(f *finding.Finding) { f.ToStep = 1 },
	} {
		f := good()
		change(f)
		if len(findingtest.Check(f)) == 0 {
			t.Errorf("%s: Check() found nothing, want a problem", name)
		}
	}
}

// TestCheckVerdict: fine has no finding, and a finding names ranks that were compared.
func TestCheckVerdict(t *testing.T) {
	verdict := func() *straggler.Verdict {
		v := &straggler.Verdict{Finding: *good(), Ranking: []straggler.RankRow{{Rank: 0}, {Rank: 1}, {Rank: 2}}}
		v.Coverage.Steps, v.Coverage.FirstStep, v.Coverage.LastStep = 80, 1, 80
		v.Render()
		return v
	}
	if bad := findingtest.CheckVerdict(verdict()); len(bad) > 0 {
		t.Fatalf("CheckVerdict() of a good verdict = %q, want nothing", bad)
	}
	for name, change := range map[string]func(v *straggler.Verdict){
		"fine with ranks":     func(v *straggler.Verdict) { v.Kind = finding.Fine },
		"fine with a doubt":   func(v *straggler.Verdict) { v.Finding = finding.Finding{Kind: finding.Fine}; v.Suspected = good() },
		"unknown, no reason":  func(v *straggler.Verdict) { v.Finding = finding.Finding{Kind: finding.Unknown} },
		"a rank without data": func(v *straggler.Verdict) { v.Ranking = v.Ranking[:1] },
		"another sentence":    func(v *straggler.Verdict) { v.Sentence = "Rank 2 is slow." },
		"other steps":         func(v *straggler.Verdict) { v.Coverage.Steps = 90 },
	} {
		v := verdict()
		change(v)
		if len(findingtest.CheckVerdict(v)) == 0 {
			t.Errorf("%s: CheckVerdict() found nothing, want a problem", name)
		}
	}
}
