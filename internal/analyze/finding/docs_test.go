package finding_test

import (
	"strings"
	"testing"

	"github.com/trainspan/trainspan/docs"
	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// TestCodesAreDocumented: trainspan help CODE prints the section of the page that has the code as its heading.
func TestCodesAreDocumented(t *testing.T) {
	text, err := docs.Pages.ReadFile("explain/stragglers.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, kind := range finding.Kinds() {
		if !strings.Contains(page, "\n### "+string(kind)+"\n") {
			t.Errorf("no section is called %s", kind)
		}
		if kind.Title() == "" {
			t.Errorf("%s has no title", kind)
		}
	}
	for _, cause := range finding.Causes() {
		if !strings.Contains(page, "`"+cause+"`") {
			t.Errorf("the page has no cause %s", cause)
		}
	}
}

// TestNoSentenceWithoutEvidence: whatever else a finding has, without its evidence it has no sentence, and what
// is no problem has none.
func TestNoSentenceWithoutEvidence(t *testing.T) {
	for _, kind := range finding.Kinds() {
		f := finding.Finding{Kind: kind, Ranks: []int{1}, Cause: "input", Gain: 2, Cost: 0.5, Saved: 50, RunTime: 100, RunRepaired: 50, Lost: 50e9, ToStep: -1}
		if got := f.Sentence(); got != "" {
			t.Errorf("%s without evidence says %q", kind, got)
		}
		f.Lost, f.Evidence = 0, &finding.Evidence{Affected: 5, Interval: 10, Judged: 10, Excess: 100, Level: 101, Others: 1}
		if got := f.Sentence(); (got != "") != (kind.IsOfSteps()) {
			t.Errorf("%s with evidence of steps says %q", kind, got)
		}
		f.Lost, f.Evidence, f.Parts = 50e9, nil, []finding.Part{{Name: "save", Time: 50e9}}
		if got := f.Sentence(); (got != "") != kind.IsProblem() {
			t.Errorf("%s as a loss says %q", kind, got)
		}
	}
}

// TestSentence has a sentence for each form of a slow rank.
func TestSentence(t *testing.T) {
	base := finding.Finding{Kind: finding.SlowRanks, Ranks: []int{6}, Hosts: []string{"b"}, Cause: "input", FromStep: 1, ToStep: -1, Gain: 1.25, Cost: 0.2, Saved: 40,
		Evidence: &finding.Evidence{Affected: 80, Interval: 80, Judged: 80, Excess: 40, ExcessLow: 39, ExcessHigh: 41, Level: 44, Others: 4}}
	for _, c := range []struct {
		name   string
		change func(f *finding.Finding, e *finding.Evidence)
		want   string
	}{
		{"every step", func(*finding.Finding, *finding.Evidence) {},
			"Rank 6's data loading (b) delays every step: 44.0 ms, other ranks 4.00 ms. At the others' speed a step takes about 160 ms: 40.0 ms less (39.0 to 41.0 ms)."},
		{"one host", func(f *finding.Finding, _ *finding.Evidence) { f.Job.OneHost = true }, "Rank 6's data loading delays every step: "},
		{"every eighth", func(_ *finding.Finding, e *finding.Evidence) { e.Affected, e.Every = 10, 8 }, "delays every 8th step (10 of 80): "},
		{"an interval", func(f *finding.Finding, e *finding.Evidence) {
			f.FromStep, f.ToStep, e.Affected, e.Interval = 20, 45, 25, 25
		}, "delays every step from 20 to 45: "},
		{"several", func(f *finding.Finding, _ *finding.Evidence) { f.Ranks = []int{3, 6} }, "Ranks 3, 6 (b) are late in every step by 40.0 ms (39.0 to 41.0 ms): data."},
		{"mixed", func(f *finding.Finding, _ *finding.Evidence) { f.Cause = finding.CauseMixed }, "Rank 6 (b) is late in every step by 40.0 ms (39.0 to 41.0 ms): mixed."},
		{"of the run", func(f *finding.Finding, _ *finding.Evidence) { f.InRun(20, 4, 20) }, "the run takes about 16.0 s: 4.0 s less (3.9 to 4.1 s)."},
		{"no more than the steps", func(f *finding.Finding, _ *finding.Evidence) { f.InRun(20, 4, 3) }, "the run takes about 17.0 s: 3.0 s less."},
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
