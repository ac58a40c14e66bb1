package report

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
)

func TestCapital(t *testing.T) {
	for _, c := range []struct{ text, capital, sentence string }{
		{"", "", ""},
		{"rank 2", "Rank 2", "Rank 2."},
		{"“tokenize” takes 1 s.", "“tokenize” takes 1 s.", "“tokenize” takes 1 s."},
		{"été", "Été", "Été."},
	} {
		if got := finding.Capital(c.text); got != c.capital {
			t.Errorf("finding.Capital(%q) = %q, want %q", c.text, got, c.capital)
		}
		if got := sentence(c.text); got != c.sentence {
			t.Errorf("sentence(%q) = %q, want %q", c.text, got, c.sentence)
		}
	}
}

// TestOutcomeNamesTheAttempt checks that the head has the number of the attempt, as all other places: runs of a name
// number their attempts on.
func TestOutcomeNamesTheAttempt(t *testing.T) {
	r := &Report{Attempts: []Attempt{{Number: 3}, {Number: 4}}, Verdict: Verdict{Outcome: "KILLED"}}
	if got := r.describeOutcome(); got != "KILLED in attempt 4" {
		t.Errorf("got %q, want attempt 4", got)
	}
	r.Attempts[1].Number = 0 // without a record
	if got := r.describeOutcome(); got != "KILLED" {
		t.Errorf("got %q, want no number", got)
	}
}

// TestStepUnits checks that the parts of a step have the unit of their sum, or their own.
func TestStepUnits(t *testing.T) {
	r := &Report{Steps: Steps{Compared: 9, Phases: map[string]float64{"backward": 8100, "forward": 4200}}, Ledger: &account.Report{}}
	if got := r.stepSentence(); got != "12.3 s in the mean: backward 8100 ms, forward 4200 ms" {
		t.Errorf("got %q, want parts with a unit", got)
	}
}

// TestShortSteps checks that steps below the resolution of the clock have no trend, which would not be a number.
func TestShortSteps(t *testing.T) {
	s := &steps{count: 80, period: make([]float64, 80), number: make([]int64, 80)}
	if out := s.steps(); out.Trend != nil {
		t.Errorf("the trend is %v, want none", *out.Trend)
	}
}

// TestStepWithoutPhases checks that the time of spans that belong to no phase of a step is not called other code:
// those that compute, but are no forward, backward or optimizer's step, and evaluations and spans of the program
// between steps.
func TestStepWithoutPhases(t *testing.T) {
	computes := account.Parts{account.Compute: 30e9, account.OtherCode: 10e9}
	undivided := account.Parts{account.StepUnsplit: 30e9}
	between := account.Totals{account.Productive: 40e9, account.Validation: 10e9, "custom.generate": 20e9}
	for _, c := range []struct {
		phases     map[string]float64
		categories account.Totals
		parts      account.Parts
		want       string
		most       string // of the time of the host's code
	}{
		{map[string]float64{"host": 8, "input": 4}, account.Totals{account.Productive: 40e9}, computes, "12.0 ms in the mean: compute 6.00, data 4.00, other code 2.00", "compute, other code"},
		{map[string]float64{"host": 6, "input": 4, "forward": 2}, account.Totals{account.Productive: 40e9}, computes, "12.0 ms in the mean: other code 6.00, data 4.00, forward 2.00", ""},
		{map[string]float64{"host": 40, "forward": 2}, between, computes, "42.0 ms in the mean: “generate” 20.0, evaluation 10.0, other code 10.0", "“generate”, evaluation, other code"},
		{map[string]float64{"host": 40, "input": 2}, account.Totals{account.Productive: 40e9}, undivided, "42.0 ms in the mean: not split 40.0, data 2.00", "not split"},
	} {
		ranks := []account.RankReport{{Categories: c.categories, ProductiveParts: c.parts}}
		r := &Report{Steps: Steps{Compared: 9, Phases: c.phases}, Ledger: &account.Report{Ranks: ranks, ProductiveParts: c.parts}}
		if got := r.stepSentence(); got != c.want {
			t.Errorf("phases %v: got %q, want %q", c.phases, got, c.want)
		}
		if got := r.mostHostWork(); got != c.most {
			t.Errorf("phases %v: most of the host's code is %q, want %q", c.phases, got, c.most)
		}
	}
}
