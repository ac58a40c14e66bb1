package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/job"
)

// ofSeconds returns the report of 4 equal ranks with a ledger in seconds. What is left of the run is compute.
func ofSeconds(wall int64, spent account.Totals, parts account.Parts) *Report {
	r := evenJob()
	led := r.Ledger
	led.Wall, led.Categories, led.ProductiveParts = wall*1e9, account.Totals{}, account.Parts{}
	for i := range led.Ranks {
		k := &led.Ranks[i]
		k.Categories, k.ProductiveParts = account.Totals{account.Productive: wall * 1e9}, account.Parts{}
		for c, s := range spent {
			k.Categories[c] = s * 1e9
			k.Categories[account.Productive] -= s * 1e9
		}
		left := k.Categories[account.Productive]
		for part, s := range parts {
			k.ProductiveParts[part] = s * 1e9
			left -= s * 1e9
		}
		k.ProductiveParts[account.Compute] = left
		for c, ns := range k.Categories {
			led.Categories[c] += ns
		}
		for part, ns := range k.ProductiveParts {
			led.ProductiveParts[part] += ns
		}
	}
	goodput := led.Ratio()
	r.Goodput, r.Losses = &goodput, losses(led)
	r.Shares = r.shares()
	r.diagnose()
	return r
}

// TestStartIsNotCompared checks that the start is the diagnosis only in a run that is not short and has no other
// problem, and that other losses are compared with the time after the start.
func TestStartIsNotCompared(t *testing.T) {
	imports := func(s int64) account.Totals { return account.Totals{account.StartupImports: s} }
	for name, c := range map[string]struct {
		wall  int64
		spent account.Totals
		parts account.Parts
		early account.Totals // the part of spent before the steps
		late  bool
		want  finding.Kind
		next  string
	}{
		"a short run":                    {wall: 100, spent: imports(80), want: finding.Fine},
		"a short run, other code":        {wall: 100, spent: imports(80), parts: account.Parts{account.OtherCode: 3}, want: finding.OtherCode, next: "between the spans of a step"},
		"a short run, data":              {wall: 100, spent: account.Totals{account.StartupImports: 60, account.DataWait: 20}, want: finding.InputSlow, next: "give the data loader"},
		"a loss of 1 % of the run":       {wall: 100, spent: account.Totals{account.StartupImports: 95, account.DataWait: 1}, want: finding.Fine},
		"a long run":                     {wall: 1200, spent: imports(480), want: finding.StartUp, next: "import less"},
		"a long run, data":               {wall: 1200, spent: account.Totals{account.StartupImports: 480, account.DataWait: 100}, want: finding.InputSlow, next: "give the data loader"},
		"a long run with a short start":  {wall: 1200, spent: imports(60), want: finding.Fine},
		"a short run, one rank is late":  {wall: 100, spent: account.Totals{account.Init: 60}, late: true, want: finding.StartUp, next: "see why rank 2 is the last to start"},
		"a late rank is absent for long": {wall: 100, spent: account.Totals{account.Init: 55, account.Absent: 10}, late: true, want: finding.StartUp, next: "see why rank 2 is the last to start"},
		"without spans before the steps": {wall: 100, spent: account.Totals{account.StartupImports: 80, account.Other: 15}, early: account.Totals{account.Other: 14}, want: finding.Fine},
		"a span before the steps":        {wall: 100, spent: account.Totals{"custom.build": 30}, early: account.Totals{"custom.build": 30}, want: finding.Fine},
		"a span, half before the steps":  {wall: 100, spent: account.Totals{"custom.build": 30}, early: account.Totals{"custom.build": 15}, want: finding.Other, next: "(at most 15.0 s of the run)"},
		"a span before many steps":       {wall: 1200, spent: account.Totals{"custom.build": 300}, early: account.Totals{"custom.build": 300}, want: finding.StartUp, next: "“build”"},
		"without spans between steps":    {wall: 100, spent: account.Totals{account.StartupImports: 80, account.Other: 11}, want: finding.Other, next: "add a span"},
	} {
		t.Run(name, func(t *testing.T) {
			r := ofSeconds(c.wall, c.spent, c.parts)
			for i := range r.Ledger.Ranks {
				r.Ledger.Ranks[i].BeforeSteps = account.Totals{}
				for category, s := range c.early {
					r.Ledger.Ranks[i].BeforeSteps[category] = s * 1e9
				}
			}
			if c.early != nil {
				r.Shares = r.shares()
				r.diagnose()
			}
			if c.late {
				r.Ledger.WaitedFor = []account.WaitedFor{{Rank: 2, Time: 3 * 50e9, InInit: 3 * 50e9}}
				r.diagnose()
			}
			if r.Verdict.kind != c.want {
				t.Fatalf("verdict %s (%q), want %s", r.Verdict.kind, r.Verdict.Why, c.want)
			}
			next, _ := r.next()
			if c.next != "" && (len(next) == 0 || !strings.Contains(next[0], c.next)) {
				t.Errorf("next is %q, want %q first", next, c.next)
			}
			if all := strings.Join(next, "; "); c.wall < 300 && strings.Contains(all, "import less") {
				t.Errorf("next is %q, want no advice about imports", all)
			}
			screen := strings.Join(r.First(80), "\n")
			if long := c.spent[account.StartupImports]*10 > c.wall; long && c.want != finding.StartUp && !strings.Contains(screen, "\nStart      ") {
				t.Errorf("no line of the screen shows the long start:\n%s", screen)
			}
			if c.want == finding.Fine && c.wall == 100 && !strings.Contains(r.Verdict.Why, "after the start") {
				t.Errorf("diagnosis %q, want the share of the time after the start", r.Verdict.Why)
			}
		})
	}
}

// TestFailedAfterStart checks that the screen of a run that failed has the error and no advice about its start.
func TestFailedAfterStart(t *testing.T) {
	for _, wall := range []int64{20, 2000} {
		r := ofSeconds(wall, account.Totals{account.StartupImports: wall / 2}, nil)
		r.Outcome = &job.Outcome{How: job.Failed, Text: "failed", Error: "RuntimeError: bad input"}
		r.diagnose()
		r.Verdict.Next, _ = r.next()
		screen := strings.Join(r.First(80), "\n")
		if !strings.Contains(screen, "RuntimeError") || strings.Contains(screen, "START-UP") || strings.Contains(screen, "NO PROBLEM") || strings.Contains(strings.Join(r.Verdict.Next, " "), "import less") {
			t.Errorf("next %q; want the error and nothing about imports:\n%s", r.Verdict.Next, screen)
		}
	}
}

// TestIdleOfDevice checks that the time in which a device is idle because of the host's code is other code, without
// the evaluations between steps.
func TestIdleOfDevice(t *testing.T) {
	r := ofSeconds(100, nil, nil)
	r.Steps = Steps{Count: 101, Compared: 100, Median: 500, Device: true, Phases: map[string]float64{"host": 600, "forward": 150, "backward": 150, "input": 100}}
	for i := range r.Ledger.Ranks {
		k := &r.Ledger.Ranks[i]
		k.Categories = account.Totals{account.Productive: 60e9, account.DataWait: 10e9, account.Validation: 30e9}
		k.ProductiveParts = account.Parts{account.StepUnsplit: 60e9}
	}
	r.Ledger.Categories = account.Totals{account.Productive: 240e9, account.DataWait: 40e9, account.Validation: 120e9}
	var got time.Duration
	for _, s := range r.shares() {
		if s.Part == string(account.OtherCode) {
			got = time.Duration(s.Time)
		}
	}
	if want := 120 * time.Second; (got - want).Abs() > time.Millisecond { // 300 of 600 ms without data and evaluation
		t.Errorf("other code takes %v of 4 ranks, want %v", got, want)
	}
}

// TestLossInFewSteps checks that a loss that is in few steps names them, and that the advice is about these.
func TestLossInFewSteps(t *testing.T) {
	s := &steps{phases: make(map[string][]float64), count: 60}
	for i := range 60 {
		host := 1e6
		if i == 9 || i == 29 || i == 44 {
			host = 1500e6
		}
		s.number, s.period = append(s.number, int64(i+1)), append(s.period, 200e6+host)
		s.phases["host"] = append(s.phases["host"], host)
	}
	r := ofSeconds(20, nil, account.Parts{account.OtherCode: 5})
	r.Steps = s.steps()
	r.diagnose()
	if want := "Other code takes 5.0 s of each rank's 20.0 s, most of it in steps 10, 30 and 45, 1.5 s each time."; r.Verdict.Why != want {
		t.Errorf("diagnosis %q, want %q", r.Verdict.Why, want)
	}
	if next, _ := r.next(); len(next) == 0 || !strings.HasPrefix(next[0], "see what the program does in these steps") {
		t.Errorf("next is %q, want advice about these steps", next)
	}
}

// TestExplainedLongSteps checks that no remark is about long steps that the diagnosis explains.
func TestExplainedLongSteps(t *testing.T) {
	const remark = "a step took more than ten times the usual time (rank 0)"
	again := []Recompilation{{Attempt: 1, Step: 10}, {Attempt: 1, Step: 30}}
	for name, c := range map[string]struct {
		f    finding.Finding
		kept bool
	}{
		"recompiled":            {finding.Finding{Kind: finding.Recompile}, false},
		"another finding":       {finding.Finding{Kind: finding.SlowRanks, Pattern: finding.MostSteps}, true},
		"in two steps":          {finding.Finding{Kind: finding.InputSlow, Pattern: finding.SingleSteps, Evidence: &finding.Evidence{Affected: 2}}, false},
		"in one step of two":    {finding.Finding{Kind: finding.InputSlow, Pattern: finding.SingleSteps, Evidence: &finding.Evidence{Affected: 1}}, true},
		"a hang after them":     {finding.Finding{Kind: finding.Hang, FromStep: 40}, true},
		"a hang in the last":    {finding.Finding{Kind: finding.Hang, FromStep: 10}, false},
		"an imbalance of steps": {finding.Finding{Kind: finding.Imbalance, Pattern: finding.InTurn, Evidence: &finding.Evidence{Affected: 9}}, true},
	} {
		r := &Report{Ledger: &account.Report{}, Recompiled: again}
		for _, step := range []int64{10, 30} {
			r.Ledger.Flags = append(r.Ledger.Flags, account.Flag{Kind: account.LongIteration, Attempt: 1, Value: step})
		}
		r.Quality.Remarks, r.Verdict.Finding = []string{remark, "another"}, &c.f
		r.dropExplained()
		if got := r.Quality.Remarks[0] == remark; got != c.kept || len(r.Quality.Remarks) == 0 {
			t.Errorf("%s: remarks %q, want the one about long steps: %v", name, r.Quality.Remarks, c.kept)
		}
	}
}

// TestLongSteps checks that the sentence about a step leaves out a few long ones, and counts them.
func TestLongSteps(t *testing.T) {
	s := &steps{phases: map[string][]float64{"forward": nil, "host": nil}, count: 20}
	for i := range 20 {
		period, host := 10e6, 2e6
		if i == 7 {
			period, host = 700e6, 692e6
		}
		s.number, s.attempt, s.period = append(s.number, int64(i)), append(s.attempt, 0), append(s.period, period)
		s.wait, s.transfer = append(s.wait, math.NaN()), append(s.transfer, math.NaN())
		s.phases["forward"], s.phases["host"] = append(s.phases["forward"], 8e6), append(s.phases["host"], host)
	}
	for _, c := range []struct {
		longest float64
		want    string
	}{{700e6, "10.0 ms in the mean, without 1 long step: forward 8.00, other code 2.00"}, {45e6, "11.8 ms in the mean: forward 8.00, other code 3.75"}} {
		s.period[7], s.phases["host"][7] = c.longest, c.longest-8e6
		r := &Report{Ledger: &account.Report{}, Steps: s.steps()}
		if got := r.stepSentence(); got != c.want {
			t.Errorf("with a step of %v ns: got %q, want %q", c.longest, got, c.want)
		}
	}
	for i := range 5 { // more than a tenth of the steps: they are not left out
		s.period[i], s.phases["host"][i] = 700e6, 692e6
	}
	r := &Report{Ledger: &account.Report{}, Steps: s.steps()}
	if got := r.stepSentence(); strings.Contains(got, "without") || !strings.Contains(got, "other code") {
		t.Errorf("with 5 long steps of 20: got %q, want all steps", got)
	}
}
