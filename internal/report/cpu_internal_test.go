package report

import (
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/machine"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// TestFullCPU checks that, if a job waits for data and all its processors are busy, the screen reports
// it and no action advises more workers. For other findings and free processors there is no such line.
func TestFullCPU(t *testing.T) {
	for name, c := range map[string]struct {
		diagnosis finding.Kind
		full      float64
		crowded   bool // by other programs
		want      bool
	}{
		"data":          {finding.InputSlow, 0.87, false, true},
		"room":          {finding.InputSlow, 0.3, false, false},
		"crowded":       {finding.InputSlow, 0.3, true, false},
		"other finding": {finding.Checkpoints, 0.87, true, false},
	} {
		r := &Report{Ledger: &account.Report{}, Resources: []Resource{{CPU: &rundir.CPU{Allowed: 2, Full: 0.1}}, {CPU: &rundir.CPU{Allowed: 4, Full: c.full}}}}
		r.Verdict.kind, r.Verdict.Finding = c.diagnosis, &finding.Finding{Kind: c.diagnosis}
		r.Losses = []Loss{{Category: account.DataWait, Share: 0.8}}
		if c.crowded {
			r.Verdict.Machine = &machine.Finding{Overloaded: []machine.Overload{{Host: "a", Runnable: 31, Cores: 2, Least: 0.2, Most: 0.2}}}
		}
		text := r.cpuSentence()
		if got := text == "the processors that the job may use (4) were all busy for 87.0 % of the time: more workers of the loader gain nothing"; got != c.want || !c.want && text != "" {
			t.Errorf("%s: %q, want a sentence, %v", name, text, c.want)
		}
		next, _ := r.next()
		if workers := strings.Contains(strings.Join(next, "; "), "more workers"); (c.want || c.crowded && c.diagnosis == finding.InputSlow) && (workers || !strings.Contains(strings.Join(next, "; "), "more processors")) {
			t.Errorf("%s: next = %q, want nothing about workers", name, next)
		}
	}
}
