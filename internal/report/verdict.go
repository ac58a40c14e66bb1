package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// worth is the smallest share of the time for which a loss or a finding is
// mentioned in a sentence. Smaller ones are only in the tables.
const worth = 0.01

// ofRanks returns the finding about ranks or steps, or nil if there is none.
func (v *Verdict) ofRanks() *finding.Finding {
	if v.Rank == nil || !v.Rank.Kind.IsOfSteps() {
		return nil
	}
	return &v.Rank.Finding
}

// conclude fills in the verdict.
func (r *Report) conclude() {
	v := &r.Verdict
	v.Confidence, v.Doubts = r.confidence()
	v.Outcome = r.outcomeWords()
	r.Shares = r.shares()
	r.proveOutsideOfSteps()
	r.diagnose()
	r.dropExplained()
	if v.kind.IsOfSteps() && v.Finding == v.ofRanks() {
		v.Why = strings.TrimSpace(v.Why + " " + r.processesOf(v.Rank.Ranks))
	}
	if n := len(r.Attempts); n > 0 && v.Rank != nil && v.Finding != nil && v.Finding == v.ofRanks() && v.Attempt != r.Attempts[n-1].Number {
		v.Why = fmt.Sprintf("In attempt %d: %s", v.Attempt, v.Why)
	}
	v.NotKnown = r.notKnown()
	v.Next, r.nextAt = r.next()
	var out []said
	add := func(at place, text string) { out = append(out, said{text, at}) }
	if r.Outcome != nil && r.Profile == nil {
		add(placeStarts, r.Outcome.Sentence(0))
	}
	switch {
	case r.Profile != nil:
		for _, text := range r.Profile.sentence() {
			add(placeTime, text)
		}
	case r.Ledger.Wall == 0:
		add(placeData, "The records have no times.")
	case r.Goodput == nil:
		add(placeData, fmt.Sprintf("How much of %s on %s was in steps is unknown: no training step is on record.", display.Duration(r.Ledger.Wall), display.Plural(len(r.Ranks), "rank")))
	default:
		add(placeTime, fmt.Sprintf("%s of %s on %s is in steps.", display.Percent(*r.Goodput), display.Duration(r.Ledger.Wall), display.Plural(len(r.Ranks), "rank")))
	}
	for i := range r.Shares {
		sh := &r.Shares[i]
		if r.Profile != nil || sh.Share < worth || sh.Part == string(account.Compute) || sh.Part == string(account.StepUnsplit) {
			continue
		}
		add(placeOfPart(sh.Part), fmt.Sprintf("Of all time, %s takes %s (%s%s).", sh.Name, display.Percent(sh.Share), display.Duration(sh.Time/int64(max(len(r.Ranks), 1))), perRank(len(r.Ranks))))
		break
	}
	if d := r.disruptions(); d != "" {
		add(placeStarts, "Restarts: "+d)
	}
	if v.Rank != nil && (len(r.Ranks) > 1 || v.Rank.Kind != finding.Unknown) {
		text := v.Rank.Sentence
		if len(r.Attempts) > 1 {
			text = fmt.Sprintf("In attempt %d: %s", v.Attempt, text)
		}
		add(placeOfFinding(v.Rank), text)
		if of := r.processesOf(v.Rank.Ranks); of != "" {
			add(placeRanks, of)
		}
		if v.Rank.Second != "" {
			add(placeRanks, "The next best repair: "+v.Rank.Second)
		}
	}
	for _, text := range r.machineSentences() {
		add(placeRanks, text)
	}
	if len(v.Across) > 0 {
		add(placeRanks, v.Across[0].Sentence)
	}
	if len(v.Next) > 0 {
		add(r.nextAt[0], "Next: "+v.Next[0]+".")
	}
	text := "Confidence " + v.Confidence + ": the records are complete."
	if len(v.Doubts) > 0 {
		text = "Confidence " + v.Confidence + ": " + strings.Join(v.Doubts, "; ") + "."
	}
	add(placeData, text)
	r.said = out
	texts := make([]string, len(out))
	for i := range out {
		texts[i] = out[i].text
	}
	v.Sentence = strings.Join(texts, " ")
}

// dropExplained removes the remark about long steps if the diagnosis explains them: it has all of them.
func (r *Report) dropExplained() {
	f := r.Verdict.Finding
	if f == nil {
		return
	}
	long := make(map[[2]int64]bool) // attempts and steps
	for i := range r.Ledger.Flags {
		if l := &r.Ledger.Flags[i]; l.Kind == account.LongIteration {
			long[[2]int64{int64(l.Attempt), l.Value}] = true
		}
	}
	explained := f.Pattern == finding.SingleSteps && f.Evidence != nil && len(long) <= f.Evidence.Affected
	switch f.Kind {
	case finding.Hang:
		explained = true
		for at := range long {
			explained = explained && at[1] >= f.FromStep
		}
	case finding.Recompile:
		for i := range r.Recompiled {
			delete(long, [2]int64{int64(r.Recompiled[i].Attempt), r.Recompiled[i].Step})
		}
		explained = len(long) == 0
	}
	if explained {
		r.Quality.Remarks = slices.DeleteFunc(r.Quality.Remarks, func(text string) bool { return strings.HasPrefix(text, flagWords[account.LongIteration]) })
	}
}

// gainsInRun converts the savings of fixes per step into savings of the run. Steps that a
// restart repeated do not count. Steps of other attempts count if these have the same finding. A profile has no
// time outside of steps.
func (r *Report) gainsInRun() {
	if r.Profile != nil {
		if v := r.Verdict.Rank; v != nil {
			r.Verdict.RankCost = v.Cost
		}
		return
	}
	undone := make(map[int]int) // steps, by attempt
	for i := range r.Ledger.Disruptions {
		undone[r.Ledger.Disruptions[i].After] += r.Ledger.Disruptions[i].Iterations
	}
	kept := make([]int, len(r.Attempts))
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Straggler == nil {
			continue
		}
		kept[i] = max(a.Straggler.Coverage.Steps-undone[a.Number], 0)
	}
	more := r.savedByOthers(kept)
	c := r.Ledger.Categories
	steps := (c[account.Productive] + c[account.DataWait] + c[account.CheckpointSave]) / int64(max(len(r.Ranks), 1))
	for i := range r.Attempts {
		if v := r.Attempts[i].Straggler; v != nil {
			v.InRun(r.Ledger.Wall, steps, kept[i], more[i])
		}
	}
	if v := r.Verdict.Rank; v != nil {
		r.Verdict.RankCost = v.CostInRun()
	}
}

// savedByOthers returns, for each attempt, what fixes save in the kept steps of the other
// attempts with the same finding. It adds the attempts before and after: subtracting one
// attempt from the sum of all would not be exact.
func (r *Report) savedByOthers(kept []int) []float64 {
	more := make([]float64, len(r.Attempts))
	add := func(sums map[string]float64, i int) {
		if v := r.Attempts[i].Straggler; v != nil {
			finding := fmt.Sprint(v.Kind, v.Ranks)
			more[i] += sums[finding]
			sums[finding] += v.Saved * float64(kept[i])
		}
	}
	before, after := make(map[string]float64), make(map[string]float64)
	for i := range r.Attempts {
		add(before, i)
		add(after, len(r.Attempts)-1-i)
	}
	return more
}

func perRank(n int) string {
	if n > 1 {
		return " of each rank's time"
	}
	return ""
}

// disruptions describes the total cost of restarts, or returns "" if there were none.
func (r *Report) disruptions() string {
	var total, down, downMost, unrecorded int64
	lost, lostMost, n := 0, 0, 0
	for i := range r.Ledger.Disruptions {
		d := &r.Ledger.Disruptions[i]
		if d.Proper && d.Iterations == 0 {
			continue
		}
		n++
		total, down, lost = total+d.Total, down+d.Down, lost+d.Iterations
		downMost, lostMost = downMost+max(d.Down, d.DownMost), lostMost+max(d.Iterations, d.IterationsMost)
		unrecorded = max(unrecorded, d.Unrecorded)
	}
	if n == 0 {
		return ""
	}
	ranks := int64(max(len(r.Ranks), 1))
	restarts := ""
	if n > 1 {
		restarts = display.Plural(n, "restart") + ": "
	}
	text := restarts + stepsRange(lost, lostMost) + " repeated"
	if downMost/ranks > 0 {
		text += ", " + durationRange(down/ranks, downMost/ranks) + " down"
	}
	return fmt.Sprintf("%s; %s%s in all%s.", text, display.Duration(total/ranks), perRank(int(ranks)), missingEnd(unrecorded/ranks))
}

// stepsRange formats a number of steps with a known minimum and maximum.
func stepsRange(least, most int) string {
	if most <= least {
		return display.Plural(least, "step")
	}
	return fmt.Sprintf("%d to %s", least, display.Plural(most, "step"))
}

// durationRange formats a time with a known minimum and maximum.
func durationRange(least, most int64) string {
	from, to := display.Duration(least), display.Duration(most)
	if most <= least || from == to {
		return from
	}
	number, unit, _ := strings.Cut(from, " ")
	if strings.HasSuffix(to, " "+unit) && !strings.Contains(unit, " ") {
		from = number
	}
	return from + " to " + to
}

// missingEnd explains why figures are ranges, or returns "" for a time of 0.
func missingEnd(ns int64) string {
	if ns <= 0 {
		return ""
	}
	return ": up to " + display.Duration(ns) + " before a kill are not on record"
}

func (r *Report) figure(name string) float64 {
	for i := range r.Figures {
		if r.Figures[i].Name == name {
			return r.Figures[i].Value
		}
	}
	return 0
}

// confidence returns how far the records can be trusted, and the doubts about them.
func (r *Report) confidence() (string, []string) {
	rank := 0 // 0 high, 1 medium, 2 low
	var why []string
	doubt := func(n int, text string) {
		rank = max(rank, n)
		if !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	for i := range r.Ledger.Flags {
		f := &r.Ledger.Flags[i]
		switch f.Kind {
		case account.TwoWriters:
			doubt(2, "several processes have the same rank")
		case account.LostWorkUnknown:
			doubt(2, "no record has the step at which an attempt resumed")
		case account.NoIterations:
			doubt(2, "an attempt has no training steps")
		case account.NoHeartbeat:
			doubt(1, "an attempt ended without a heartbeat after its last record")
		case account.SpansDropped:
			doubt(1, "spans were dropped")
		case account.ClockSkew:
			doubt(1, "clocks of attempts overlap")
		case account.ResumeInferred:
			doubt(1, "the step at which an attempt resumed is inferred")
		case account.MissingEnds:
			doubt(1, "spans lack their ends")
		case account.WarmupUnknown:
			doubt(1, "too few steps to separate warm-up from training")
		}
	}
	q := &r.Quality
	for _, text := range q.Missing {
		doubt(2, text)
	}
	if q.Waiting > 0 {
		doubt(1, display.Plural(q.Waiting, "span")+" not in a file yet: run trainspan trace import")
	}
	if len(q.Skipped) > 0 {
		doubt(1, display.Plural(len(q.Skipped), "file")+" left out")
	}
	if q.Torn > 0 {
		doubt(0, display.Plural(q.Torn, "file")+" truncated")
	}
	if o := r.Outcome; o != nil && o.How == job.Lost && r.Profile == nil {
		doubt(1, "how the run ended is unknown")
	}
	if q.BadLines > 0 {
		doubt(1, display.Plural(q.BadLines, "line")+" unreadable")
	}
	if v := r.Verdict.Rank; v != nil && v.Coverage.Disputed > 0 {
		doubt(2, "two records of the same rank and step differ")
	}
	return [...]string{"high", "medium", "low"}[rank], why
}

// processesOf identifies the processes of ranks that have no recorded rank number. It returns
// "" if all have one.
func (r *Report) processesOf(ranks []int) string {
	var list []string
	for i := range r.Ranks {
		if k := &r.Ranks[i]; k.PID != 0 && slices.Contains(ranks, k.Rank) {
			list = append(list, strings.TrimSuffix(fmt.Sprintf("rank %d is pid %d, %s", k.Rank, k.PID, k.File), ", "))
		}
	}
	if len(list) == 0 {
		return ""
	}
	const most = 3
	if n := len(list) - most; n > 0 {
		list = append(list[:most], fmt.Sprintf("%d more", n))
	}
	return sentence(strings.Join(list, "; "))
}

// sections returns the sections of the documentation about what the records lack.
func (r *Report) sections() (out []string) {
	if q := &r.Quality; len(q.Remarks)+len(q.Skipped)+len(r.Verdict.Doubts) > 0 {
		out = append(out, helptopic.Remarks)
	}
	if v := r.Verdict.Rank; v != nil && v.Kind == finding.Unknown && len(r.Ranks) > 1 {
		out = append(out, helptopic.NoRank)
	} else if v != nil && v.Kind == finding.Hang {
		out = append(out, helptopic.Hang)
	}
	return out
}

// ExitCode returns the exit status for CI: 0 if no rank slows the others down, 3 if
// a finding of package straggler costs time, and 4 if the records are not
// sufficient. A complete job of one rank cannot have a straggler.
func (r *Report) ExitCode() int {
	v := r.Verdict.Rank
	if v == nil || r.Goodput == nil || r.Steps.Compared == 0 {
		return 4
	}
	code := 0
	for i := range r.Attempts {
		if s := r.Attempts[i].Straggler; s != nil && s.Kind != finding.Unknown {
			code = max(code, s.ExitCode())
		}
	}
	if single := len(r.Ranks) == 1 && r.Ledger.Missing == nil; code == 0 && v.Kind == finding.Unknown && !(single && v.Reason == straggler.ReasonSingleRank) {
		return 4
	}
	return code
}
