// Package findingtest checks what holds for all findings, whatever job they are about.
package findingtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// Check returns what is wrong with a finding, in words. It looks at the numbers that texts are rendered
// from, and at texts only for whether there is one.
func Check(f *finding.Finding) (bad []string) {
	say := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, string(f.Kind)+": "+fmt.Sprintf(format, args...))
		}
	}
	say(f.Kind.IsProblem(), "is no problem")
	say(f.Title() != "" && f.Name() != "", "title %q and name %q, want both", f.Title(), f.Name())
	say(f.Sentence() != "", "there is no sentence: evidence %+v, parts %v", f.Evidence, f.Parts)
	bare := *f
	bare.Evidence, bare.Parts = nil, nil
	say(bare.Sentence() == "", "without evidence it says %q", bare.Sentence())
	say(slices.IsSorted(f.Ranks) && len(slices.Compact(slices.Clone(f.Ranks))) == len(f.Ranks), "ranks %v are not sorted, or twice", f.Ranks)
	say(f.Kind != finding.SlowRanks || len(f.Ranks) > 0, "names no rank")
	for rank := range f.Causes {
		say(f.Kind == finding.Hang || slices.Contains(f.Ranks, rank), "has a cause for rank %d, and names %v", rank, f.Ranks)
	}
	say(f.ToStep < 0 || f.FromStep < f.ToStep || f.Lost > 0, "lasts from step %d to %d", f.FromStep, f.ToStep)

	within := func(low, x, high float64) bool { return low <= x*(1+1e-9)+1e-9 && x <= high*(1+1e-9)+1e-9 }
	if e := f.Evidence; e != nil {
		say(0 <= e.Affected && e.Affected <= e.Interval, "%d of %d steps are affected", e.Affected, e.Interval)
		say(e.Judged == 0 || e.Interval <= e.Judged, "the interval has %d of %d judged steps", e.Interval, e.Judged)
		say(e.ExcessHigh == 0 || within(e.ExcessLow, e.Excess, e.ExcessHigh), "the excess is %v, within %v to %v", e.Excess, e.ExcessLow, e.ExcessHigh)
		say(e.Chance >= 0 && e.Chance <= 1, "chance %v", e.Chance)
		for _, x := range [...]float64{e.Excess, e.Level, e.Others, e.Before, e.Waited} {
			say(x >= 0 && !math.IsInf(x, 0), "evidence has the time %v", x)
		}
	}
	say(f.Gain == 0 || math.Abs(f.Cost-finding.CostOf(f.Gain)) < 1e-9, "cost %v does not belong to gain %v", f.Cost, f.Gain)
	say(f.GainHigh == 0 || within(f.GainLow, f.Gain, f.GainHigh), "gain %v is not within %v to %v", f.Gain, f.GainLow, f.GainHigh)
	if f.RunTime > 0 && f.Lost == 0 && f.Kind != finding.Hang {
		say(0 <= f.RunRepaired && f.RunRepaired <= f.RunTime, "the run takes %v of %v s", f.RunRepaired, f.RunTime)
		say(f.RunHigh == 0 || within(f.RunLow, f.RunRepaired, f.RunHigh), "the run takes %v s, within %v to %v", f.RunRepaired, f.RunLow, f.RunHigh)
	}
	say(f.Lost == 0 || float64(f.Lost) <= f.RunTime*1e9*(1+1e-9), "%d ns of %v s are lost", f.Lost, f.RunTime)
	for i, p := range f.Step {
		say(p.Name != "" && p.Time >= 0 && (i == 0 || p.Time <= f.Step[i-1].Time), "part %d of the step: %+v", i, p)
	}
	if p := f.Proof; p != nil {
		named := 0
		for _, row := range p.Rows {
			say(len(row.Times) == len(p.Columns), "row %q has %d times, there are %d columns", row.Name, len(row.Times), len(p.Columns))
			for _, ns := range row.Times {
				say(ns >= 0, "row %q has the time %d", row.Name, ns)
			}
			if row.Named {
				named += row.Ranks
			}
		}
		say(named == len(f.Ranks), "the table has %d of the ranks %v", named, f.Ranks)
		if e := f.Evidence; e.Level > 0 && !p.OfRun && len(f.Ranks) == 1 {
			say(math.Abs(e.Level*1e6-float64(p.Named().Times[0])) <= 1 && math.Abs(e.Others*1e6-float64(p.Rest().Times[0])) <= 1,
				"the sentence has %v and %v ms, the table %v and %v ns", e.Level, e.Others, p.Named().Times[0], p.Rest().Times[0])
		}
	}
	return bad
}

// CheckVerdict returns what is wrong with the answer about the steps of an attempt.
func CheckVerdict(v *straggler.Verdict) (bad []string) {
	say := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	all := slices.Clone(v.Others)
	if v.Kind.IsProblem() {
		all = append(all, v.Finding)
		say(v.Sentence == v.Finding.Sentence(), "%q is not the sentence of the finding, %q", v.Sentence, v.Finding.Sentence())
	} else {
		say(len(v.Ranks) == 0 && v.Gain == 0 && len(v.Others) == 0, "%s has ranks %v, gain %v and %d other findings", v.Kind, v.Ranks, v.Gain, len(v.Others))
	}
	if v.Suspected != nil {
		all = append(all, *v.Suspected)
		say(v.Kind != finding.Fine, "fine, and something of gain %v is suspected", v.Suspected.Gain)
		say(v.Suspected.Seen() != "" && v.Suspected.Odds() != "", "a suspicion without what was seen")
	}
	if v.Kind == finding.Unknown {
		say(v.Reason != "" && v.Needed != "", "unknown for %q, needed %q", v.Reason, v.Needed)
	}
	seen := make(map[int]bool)
	for _, row := range v.Ranking {
		seen[row.Rank] = true
	}
	for i := range all {
		f := &all[i]
		bad = append(bad, Check(f)...)
		for _, rank := range f.Ranks {
			say(f.Kind == finding.Hang || seen[rank], "%s names rank %d, which has no row", f.Kind, rank)
		}
		say(f.Kind == finding.Hang || f.Evidence == nil || f.Evidence.Judged == 0 || f.Evidence.Judged == v.Coverage.Steps,
			"%s rests on %d judged steps, %d were", f.Kind, f.Evidence.Judged, v.Coverage.Steps)
	}
	return bad
}
