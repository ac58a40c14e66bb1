package finding

import (
	"strings"
	"testing"

	"github.com/trainspan/trainspan/docs"
)

// TestCodesAreDocumented checks that the page printed by trainspan help CODE has the code as a heading.
func TestCodesAreDocumented(t *testing.T) {
	text, err := docs.Pages.ReadFile("explain/stragglers.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for kind := range titles {
		if !strings.Contains(page, "\n### "+string(kind)+"\n") {
			t.Errorf("page has no section %s", kind)
		}
	}
	for _, cause := range []string{CauseCompute, CauseMixed, CauseWork, CauseMismatch, CauseUneven} {
		if !strings.Contains(page, "`"+cause+"`") {
			t.Errorf("page has no cause %s", cause)
		}
	}
}

// TestNoSentenceWithoutEvidence checks that a finding without evidence has no sentence, whatever else it has,
// and that a kind that is not a problem has none.
func TestNoSentenceWithoutEvidence(t *testing.T) {
	for kind := range titles {
		f := Finding{Kind: kind, Ranks: []int{1}, Cause: "input", Gain: 2, Cost: 0.5, Saved: 50, RunTime: 100, RunRepaired: 50, Lost: 50e9, ToStep: -1}
		if got := f.Sentence(); got != "" {
			t.Errorf("%s without evidence says %q, want \"\"", kind, got)
		}
		f.Lost, f.Evidence = 0, &Evidence{Affected: 5, Interval: 10, Judged: 10, Excess: 100, Level: 101, Others: 1}
		if got := f.Sentence(); (got != "") != (kind.IsOfSteps()) {
			t.Errorf("Sentence() of %s with evidence of steps = %q, want one only for kinds about steps", kind, got)
		}
		f.Lost, f.Evidence, f.Parts = 50e9, nil, []Part{{Name: "save", Time: 50e9}}
		if got := f.Sentence(); (got != "") != kind.IsProblem() {
			t.Errorf("Sentence() of %s as a loss = %q, want one only for problems", kind, got)
		}
	}
}

// TestSentence covers each form of the sentence on a slow rank.
func TestSentence(t *testing.T) {
	base := Finding{Kind: SlowRanks, Ranks: []int{6}, Hosts: []string{"b"}, Cause: "input", FromStep: 1, ToStep: -1, Gain: 1.25, Cost: 0.2, Saved: 40,
		Evidence: &Evidence{Affected: 80, Interval: 80, Judged: 80, Excess: 40, ExcessLow: 39, ExcessHigh: 41, Level: 44, Others: 4}}
	for _, c := range []struct {
		name   string
		change func(f *Finding, e *Evidence)
		want   string
	}{
		{"every step", func(*Finding, *Evidence) {},
			"Rank 6's data loading (b) delays every step: 44.0 ms, other ranks 4.00 ms. At the others' speed a step takes about 160 ms: 40.0 ms less (39.0 to 41.0 ms)."},
		{"one host", func(f *Finding, _ *Evidence) { f.Job.OneHost = true }, "Rank 6's data loading delays every step: "},
		{"every eighth", func(_ *Finding, e *Evidence) { e.Affected, e.Every = 10, 8 }, "delays every 8th step (10 of 80): "},
		{"an interval", func(f *Finding, e *Evidence) {
			f.FromStep, f.ToStep, e.Affected, e.Interval = 20, 45, 25, 25
		}, "delays every step from 20 to 45: "},
		{"several", func(f *Finding, _ *Evidence) { f.Ranks = []int{3, 6} }, "Ranks 3, 6 (b) are late in every step by 40.0 ms (39.0 to 41.0 ms): data."},
		{"mixed", func(f *Finding, _ *Evidence) { f.Cause = CauseMixed }, "Rank 6 (b) is late in every step by 40.0 ms (39.0 to 41.0 ms): mixed."},
		{"of the run", func(f *Finding, _ *Evidence) { f.InRun(20, 4, 20) }, "the run takes about 16.0 s: 4.0 s less (3.9 to 4.1 s)."},
		{"no more than the steps", func(f *Finding, _ *Evidence) { f.InRun(20, 4, 3) }, "the run takes about 17.0 s: 3.0 s less."},
	} {
		f := base
		e := *base.Evidence
		f.Evidence = &e
		c.change(&f, &e)
		if got := f.Sentence(); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestListedSteps checks that a sentence has the numbers of the affected steps if all are listed.
func TestListedSteps(t *testing.T) {
	for _, c := range []struct {
		affected int
		steps    []int64
		want     string
	}{
		{1, []int64{25}, "Rank 1 is late in 1 of 60 steps (step 25) by 9.00 ms: mixed."},
		{3, []int64{15, 30, 45}, "Rank 1 is late in 3 of 60 steps (15, 30 and 45) by 9.00 ms: mixed."},
		{4, nil, "Rank 1 is late in 4 of 60 steps by 9.00 ms: mixed."},
		{4, []int64{15, 30}, "Rank 1 is late in 4 of 60 steps by 9.00 ms: mixed."},
	} {
		f := &Finding{Kind: SlowRanks, Ranks: []int{1}, Cause: CauseMixed, ToStep: -1, Evidence: &Evidence{Affected: c.affected, Interval: 60, Judged: 60, Excess: 9, Steps: c.steps}}
		if got := f.Sentence(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
