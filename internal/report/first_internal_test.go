package report

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
)

func TestCapital(t *testing.T) {
	for _, c := range []struct{ text, capital, sentence string }{
		{"", "", ""},
		{"rank 2", "Rank 2", "Rank 2."},
		{"“tokenize” takes 1 s.", "“tokenize” takes 1 s.", "“tokenize” takes 1 s."},
		{"été", "Été", "Été."},
	} {
		if got := capital(c.text); got != c.capital {
			t.Errorf("capital(%q) = %q, want %q", c.text, got, c.capital)
		}
		if got := sentence(c.text); got != c.sentence {
			t.Errorf("sentence(%q) = %q, want %q", c.text, got, c.sentence)
		}
	}
}

// TestStepWithoutPhases checks that the time of spans that compute, but are no forward, backward or optimizer's
// step, is not called other code.
func TestStepWithoutPhases(t *testing.T) {
	parts := account.Parts{account.Compute: 30e9, account.OtherCode: 10e9}
	for want, phases := range map[string]map[string]float64{
		"12.0 ms in the mean: compute 6.00, data 4.00, other code 2.00": {"host": 8, "input": 4},
		"12.0 ms in the mean: other code 6.00, data 4.00, forward 2.00": {"host": 6, "input": 4, "forward": 2},
	} {
		r := &Report{Steps: Steps{Compared: 9, Phases: phases}, Ledger: &account.Report{ProductiveParts: parts}}
		if got := r.stepSentence(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
