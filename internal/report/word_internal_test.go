package report

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// TestPhaseWord checks that the time of steps that no span divides is not called other code: the account does not either.
func TestPhaseWord(t *testing.T) {
	for _, c := range []struct {
		parts  account.Parts
		device bool
		want   string
	}{
		{account.Parts{account.StepUnsplit: 20}, false, "not split"},
		{account.Parts{account.StepUnsplit: 20}, true, "other code"},
		{account.Parts{account.StepUnsplit: 2, account.OtherCode: 5}, false, "other code"},
		{account.Parts{account.StepUnsplit: 2, account.Compute: 50}, false, "other code"},
		{nil, false, "other code"},
	} {
		r := &Report{Ledger: &account.Report{ProductiveParts: c.parts}}
		r.Steps.Device = c.device
		if got := r.phaseWord(straggler.Host); got != c.want {
			t.Errorf("%v, device %v: %q, want %q", c.parts, c.device, got, c.want)
		}
		of := r.nameHostWork([]finding.Part{{Name: "other code", Time: 20}}, -1) // of a slow rank
		if len(of) != 1 || of[0].Name != c.want {
			t.Errorf("%v, device %v: the part of a rank's step is %+v, want %q", c.parts, c.device, of, c.want)
		}
		if got := r.phaseWord(straggler.Input); got != "data" {
			t.Errorf("input is called %q, want data", got)
		}
	}
}
