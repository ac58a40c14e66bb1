package report

import (
	"fmt"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// diagnose sets the diagnosis, which is the problem that costs most, and its reason. The reason is
// the sentence of the finding if there is one.
func (r *Report) diagnose() {
	v := &r.Verdict
	v.kind, v.Finding, v.Why = r.findCostliest()
	v.Diagnosis = v.kind.Title()
	if f := v.Finding; f != nil {
		v.Diagnosis = f.Title()
		if v.Proof = f.Proof; v.Why == "" {
			v.Why = f.Sentence()
		}
	}
	if v.kind == finding.Unknown && v.Rank != nil && v.Rank.Suspected != nil {
		v.Proof = v.Rank.Suspected.Proof
	}
}

// findCostliest returns the kind of the diagnosis and its finding, which is nil if nothing costs enough time. It
// also returns the reason if there is no finding, or if the finding is about a profile.
func (r *Report) findCostliest() (kind finding.Kind, f *finding.Finding, why string) {
	v := r.Verdict.Rank
	if v != nil && v.Kind.IsOfSteps() {
		if f := r.largestLoss(); v.Kind == finding.Drift && f != nil && f.Kind == finding.Recompile {
			return f.Kind, f, "" // the cause of slower steps
		}
		return v.Kind, &v.Finding, v.Sentence
	}
	if p := r.Profile; p != nil {
		why = strings.Join(p.sentence(), " ")
		if p.Steps == 0 {
			return finding.Unknown, nil, why
		}
	} else if r.Ledger.Wall == 0 {
		return finding.Unknown, nil, "The records have no times."
	} else if r.Goodput == nil {
		return finding.Unknown, nil, fmt.Sprintf("How much of %s on %s was in steps is unknown: no training step is on record.", display.Duration(r.Ledger.Wall), display.Plural(len(r.Ranks), "rank"))
	}
	f = r.largestLoss()
	switch {
	case f != nil && f.Kind == finding.Wait && r.Profile != nil:
		if of := r.profiledWait(); of != nil && of.Sentence() != "" {
			return f.Kind, of, ""
		}
		return f.Kind, f, why
	case f != nil:
		return f.Kind, f, why
	case r.Profile != nil:
		return finding.Fine, nil, why
	}
	if v != nil && v.Kind == finding.Unknown && (len(r.Ranks) > 1 || r.Ledger.Missing != nil) {
		return finding.Unknown, nil, v.Sentence
	}
	st := &r.Steps
	why = display.Plural(st.Count, "step")
	if st.Compared > 0 {
		why = fmt.Sprintf("%s of %s (p99 %s)", why, display.Milliseconds(st.Median), display.Milliseconds(st.P99))
	}
	whose := ""
	if len(r.Ranks) > 1 {
		whose = " of all ranks"
	}
	inSteps, after := *r.Goodput, ""
	if _, start := r.startParts(); r.startIsLong() && start < r.Ledger.Categories.Sum() {
		inSteps, after = float64(r.Ledger.Categories[account.Productive])/float64(r.Ledger.Categories.Sum()-start), " after the start"
	}
	why += fmt.Sprintf("; %s of the time%s%s is in steps.", display.Percent(inSteps), whose, after)
	if st.Compared == 0 {
		return finding.Unknown, nil, why + " They are too few to compare."
	}
	if !r.measured() {
		return finding.Unknown, nil, why + " Their parts are not recorded."
	}
	if ns := r.Ledger.Unmatched; float64(ns) >= notable*float64(r.Ledger.Categories.Sum()) {
		return finding.Unknown, nil, fmt.Sprintf("%s How much of %s in collectives is waiting is unknown: not all members are on record.", why, display.Duration(ns/int64(max(len(r.Ranks), 1))))
	}
	return finding.Fine, nil, why
}

// mayWaitInCollectives reports whether most of the communication cannot be matched, so that it may be waiting.
func (r *Report) mayWaitInCollectives() bool {
	ns := r.Ledger.ProductiveParts[account.Communication]
	return ns > 0 && 2*r.Ledger.Unmatched >= ns
}

// isLoss reports whether a share is certainly a loss. Code that no span covers may be waiting if
// the records do not show who waits for whom, and so may the time of a host outside of operators.
// See also byChance.
func (r *Report) isLoss(s *Share) bool {
	v := r.Verdict.Rank
	switch s.Part {
	case partWait:
		return !r.byChance(s)
	case string(account.OtherCode):
		return len(r.Ranks) == 1 || v == nil || v.Kind != finding.Unknown || v.Suspected != nil
	case profile.Idle.String():
		return r.Profile == nil || r.Profile.Device
	}
	return true
}

// measured reports whether the records divide the steps into phases. Only then may the report
// conclude that there is no problem in them.
func (r *Report) measured() bool {
	if r.Steps.Compared == 0 {
		return false
	}
	if r.Steps.Device && len(r.Steps.Phases) > 0 {
		return true
	}
	parts := r.Ledger.ProductiveParts
	return float64(parts[account.StepUnsplit]) < notable*float64(max(r.Ledger.Categories[account.Productive], 1)) || r.firstStepsOnly()
}

// firstStepsOnly reports whether the steps that are not split are the first ones of each
// attempt, which have no usual length to compare with.
func (r *Report) firstStepsOnly() bool {
	it := &r.Ledger.Iterations
	parts := r.Ledger.ProductiveParts
	usual := float64(r.Ledger.Categories[account.Productive]) / float64(max(it.Kept, 1))
	return it.Kept > 0 && float64(parts[account.StepUnsplit]) <= 1.5*usual*float64(max(len(r.Attempts), 1)) && 2*parts[account.StepUnsplit] < r.Ledger.Categories[account.Productive]
}

// byChance reports whether waiting is the cost of random variation between steps: the ranks
// were compared, none is late, and no rank accounts for more than twice its even share of it.
func (r *Report) byChance(s *Share) bool {
	v := r.Verdict.Rank
	if s.Part != partWait || v == nil || v.Kind != finding.Fine {
		return false
	}
	var all int64
	for _, w := range r.Ledger.WaitedFor {
		all += w.Time - w.InInit
	}
	for _, w := range r.Ledger.WaitedFor {
		if float64(w.Time-w.InInit)*float64(len(r.Ranks)) > 2*float64(all) {
			return false
		}
	}
	return true
}
