package finding

import (
	"cmp"
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
		}, "delays every step from 20 to 44: "},
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

// TestLastStepOfAdvice checks that advice about an interval ends with the last affected step.
func TestLastStepOfAdvice(t *testing.T) {
	f := Finding{Kind: Drift, FromStep: 20, ToStep: 45, Evidence: &Evidence{Affected: 25, Interval: 25}}
	if got, want := f.Next(), "during steps 20 to 44: "; !strings.Contains(got, want) {
		t.Errorf("Next() = %q, want %q in it", got, want)
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

// TestLoss covers whose time a loss takes, and of what it consists.
func TestLoss(t *testing.T) {
	save := []Part{{Name: "saving", Time: 5e9}}
	both := []Part{{Name: "saving", Time: 4e9}, {Name: "loading", Time: 1e9}}
	for name, c := range map[string]struct {
		f    Finding
		want string
	}{
		"of one of several ranks": {Finding{OfOne: true, Ranks: []int{3}, Parts: save, Job: Job{Ranks: 4}}, "5.0 s of rank 3's 50.0 s: saving."},
		"of each rank":            {Finding{Parts: save, Job: Job{Ranks: 4}}, "Saving takes 5.0 s of each rank's 50.0 s."},
		"of a job of one rank":    {Finding{Parts: save, Job: Job{Ranks: 1}}, "Saving takes 5.0 s of 50.0 s."},
		"of each other rank":      {Finding{Kind: Wait, Ranks: []int{3}, Parts: save, Job: Job{Ranks: 4}}, "Saving: 5.0 s of each other rank's 50.0 s."},
		"of two parts":            {Finding{Parts: both, Job: Job{Ranks: 4}}, "5.0 s of each rank's 50.0 s: saving 4.0 s, loading 1.0 s."},
		"a wait for one":          {Finding{Parts: both, Ranks: []int{3}, Job: Job{Ranks: 4}, Evidence: &Evidence{Waited: 2e3}}, "5.0 s of each rank's 50.0 s: saving 4.0 s, loading 1.0 s; 2.0 s of it is waiting for rank 3."},
	} {
		c.f.Lost, c.f.RunTime = 5e9, 50
		if got := c.f.loss(); got != c.want {
			t.Errorf("%s: loss() = %q, want %q", name, got, c.want)
		}
	}
}

// TestHangSentence covers which ranks stopped where, and which wait.
func TestHangSentence(t *testing.T) {
	last := int64(6)
	for name, c := range map[string]struct {
		f    Finding
		want string
	}{
		"in a phase":        {Finding{Ranks: []int{2}, Cause: "input"}, "Rank 2 stopped in input in step 7; the other ranks wait for 5.0 s."},
		"for long":          {Finding{Ranks: []int{2}, Evidence: &Evidence{Waited: 8 * 3600e3}}, "Rank 2 stopped in step 7; the other ranks wait for 8h 00m."},
		"in several phases": {Finding{Ranks: []int{1, 2}, Cause: CauseMixed}, "Ranks 1, 2 stopped in step 7; the other ranks wait for 5.0 s."},
		"between steps":     {Finding{Ranks: []int{2}, Cause: causeHost, Evidence: &Evidence{LastStep: &last}}, "Rank 2 began no step after step 6; the other ranks wait in step 7 for 5.0 s."},
		"at its end":        {Finding{Ranks: []int{2}, Cause: CauseUneven, Evidence: &Evidence{LastStep: &last}}, "Rank 2 ended after step 6 without an error, and the other ranks wait in step 7 for 5.0 s: the ranks have different numbers of steps."},
		"all came": {Finding{Job: Job{Ranks: 4}}, "All 4 ranks wait in a collective since step 7 for 5.0 s. Whether one of them called another is unknown: " +
			"sequence numbers, sizes and types are not on record."},
		"all that run": {Finding{}, "All ranks that still run wait in a collective since step 7 for 5.0 s. Whether one of them called another is unknown: " +
			"sequence numbers, sizes and types are not on record."},
		"in another one": {Finding{Ranks: []int{2}, Cause: CauseMismatch, Causes: map[int]string{1: "all_reduce", 2: "barrier"}},
			"The ranks wait for each other in different collectives since step 7 for 5.0 s: rank 1 in all_reduce, rank 2 in barrier. Most ranks entered the same one, rank 2 did not."},
		"another source": {Finding{Ranks: []int{2}, Evidence: &Evidence{Seen: "it was killed."}}, "The other ranks wait for rank 2 since step 7: it was killed."},
	} {
		c.f.Kind, c.f.FromStep, c.f.ToStep = Hang, 7, -1
		if c.f.Evidence == nil {
			c.f.Evidence = &Evidence{}
		}
		c.f.Evidence.Waited = cmp.Or(c.f.Evidence.Waited, 5000)
		if got := c.f.Sentence(); got != c.want {
			t.Errorf("%s: Sentence() = %q, want %q", name, got, c.want)
		}
	}
}

// TestName checks that the name of a finding has at most the first ranks.
func TestName(t *testing.T) {
	for _, c := range []struct {
		ranks []int
		cause string
		want  string
	}{
		{nil, "", "slow ranks"},
		{[]int{3}, "backward", "slow ranks 3 (backward)"},
		{[]int{1, 2, 3, 4}, string(SlowRanks), "slow ranks 1, 2, 3, 4"},
	} {
		if got := (&Finding{Kind: SlowRanks, Ranks: c.ranks, Cause: c.cause}).Name(); got != c.want {
			t.Errorf("Name() with ranks %v = %q, want %q", c.ranks, got, c.want)
		}
	}
	many := make([]int, mostNamed+2)
	if got, want := (&Finding{Kind: SlowRanks, Ranks: many}).Name(), "slow ranks "+strings.Repeat("0, ", mostNamed-1)+"0 and 2 more"; got != want {
		t.Errorf("Name() with %d ranks = %q, want %q", len(many), got, want)
	}
}
