package report

import (
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/machine"
)

// A limit of the control group is shown with up to three digits, never as 1.3e+02.
func TestProcessorLimit(t *testing.T) {
	for cores, want := range map[float64]string{0.25: "(0.25 processors)", 1.5: "(1.5 processors)", 100: "(100 processors)", 128: "(128 processors)"} {
		for _, got := range []string{
			causeSentence(&machine.Cause{Cause: machine.CauseLimit, Cores: cores}), overloadSentence(&machine.Overload{Limit: true, Cores: cores}),
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%v cores: %q, want %s", cores, got, want)
			}
		}
	}
}

// Ranks that may use fewer processors than their host has need not share them.
func TestAllowedProcessors(t *testing.T) {
	const want = "Each rank on host a may use at most 8 processors, and waits for one for 12.0 % to 30.0 % of the time."
	if got := overloadSentence(&machine.Overload{Host: "a", Cores: 8, Least: 0.12, Most: 0.3}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
