package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Proof is the table that shows why the sentence about ranks is true: those that it names, and
// the others as one row. Times are medians of a step, means where single steps are late, or
// those of the whole run.
type Proof struct {
	Columns []string   `json:"columns"`
	Rows    []ProofRow `json:"rows"`
	// OfRun says that the times are those of the run.
	OfRun bool `json:"of_run,omitempty"`
}

// ProofRow is a rank, or several that are alike.
type ProofRow struct {
	Name  string  `json:"name"` // "2", "0,1,3", "7 others"
	Ranks int     `json:"ranks"`
	Named bool    `json:"named"` // by the sentence
	Times []int64 `json:"times_ns"`
	Late  string  `json:"late,omitempty"`
}

// mostNamed is how many ranks a screen has by name; more are a group.
const mostNamed = 4

// workWords are kinds of work in a sentence.
var workWords = map[string]string{
	straggler.Input.String(): "data loading", straggler.Checkpoint.String(): "saving", "compute": "forward and backward",
	straggler.Host.String(): "code outside of spans", straggler.Transfer.String(): "copies between host and device",
}

func workWord(cause string) string { return cmp.Or(workWords[cause], cause) }

// phasesOf are the phases that a cause is made of, none where it is a mixture.
func phasesOf(cause string) []string {
	if cause == "compute" {
		return []string{straggler.Forward.String(), straggler.Backward.String()}
	}
	for _, p := range straggler.Phases() {
		if p.String() == cause {
			return []string{cause}
		}
	}
	return nil
}

// groupName names ranks: by their numbers where they are few.
func groupName(ranks []int, word string) string {
	if len(ranks) <= mostNamed {
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(ranks), "[]"), " ", ",")
	}
	return fmt.Sprintf("%s %s", display.Count(len(ranks)), word)
}

// ofRanks makes the rows of a proof: a row for each rank that the finding names, or one for
// all of them, and one for the others with the medians of their times.
func ofRanks(all, named []int, times func(rank int) []int64, late func(rank int) string) (rows []ProofRow) {
	median := func(ranks []int) (out []int64) {
		var each [][]int64
		for _, rank := range ranks {
			each = append(each, times(rank))
		}
		for c := range each[0] {
			var x []float64
			for _, t := range each {
				x = append(x, float64(t[c]))
			}
			out = append(out, int64(stats.Median(x)))
		}
		return out
	}
	var are, others []int
	for _, rank := range all {
		if slices.Contains(named, rank) {
			are = append(are, rank)
		} else {
			others = append(others, rank)
		}
	}
	if len(are) == 0 || len(others) == 0 {
		return nil
	}
	if len(are) <= mostNamed {
		for _, rank := range are {
			rows = append(rows, ProofRow{Name: fmt.Sprint(rank), Ranks: 1, Named: true, Times: times(rank), Late: late(rank)})
		}
	} else {
		rows = append(rows, ProofRow{Name: groupName(are, "ranks"), Ranks: len(are), Named: true, Times: median(are), Late: late(are[0])})
	}
	return append(rows, ProofRow{Name: groupName(others, "others"), Ranks: len(others), Times: median(others)})
}

// waitsFor is the head of the column of what ranks waited for others.
func waitsFor(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("waits for %d", ranks[0])
	}
	return "waits for them"
}

// prove fills the proof of the finding about ranks, where the records have one.
func (r *Report) prove() {
	v := r.Verdict.Rank
	switch {
	case v == nil:
	case len(v.Ranks) > 0 && (v.Kind == straggler.SlowRanks || v.Kind == straggler.Imbalance):
		if r.Verdict.Proof = r.outsideOfSteps(v.Ranks, v.Cause); r.Verdict.Proof == nil {
			r.Verdict.Proof = r.inSteps(v, v.Ranks)
		}
	case v.Kind == straggler.Unknown && r.Profile != nil:
		for i := range r.Shares {
			if s := &r.Shares[i]; s.Part == partWait && s.Rank != nil && s.Share > notable {
				r.Verdict.Proof = r.inSteps(v, []int{*s.Rank})
			}
		}
	}
}

// proveDoubt fills the proof of an answer that is unknown because what was seen may be chance.
func (r *Report) proveDoubt() {
	v := r.Verdict.Rank
	if v == nil || v.Suspected == nil || len(v.Suspected.Ranks) == 0 || r.Verdict.Diagnosis != diagnosisUnknown {
		return
	}
	seen := *v
	seen.Finding = *v.Suspected
	r.Verdict.Proof = r.inSteps(&seen, seen.Ranks)
}

// waitedMostFor returns the rank for which nearly all of a budget of waiting was.
func waitedMostFor(w *straggler.Waits) (rank int, ok bool) {
	if w == nil || w.By != "rank" {
		return 0, false
	}
	of := make([]int64, len(w.Names))
	for _, c := range w.Cells {
		of[c.For] += c.Time
	}
	for i, us := range of {
		if float64(us) >= ofOneRank*float64(w.Total) && us > 0 {
			_, err := fmt.Sscan(w.Names[i], &rank)
			return rank, err == nil
		}
	}
	return 0, false
}

// inSteps is what a step of the ranks is made of.
func (r *Report) inSteps(v *straggler.Verdict, named []int) *Proof {
	rows := make(map[int]*straggler.RankRow)
	var all []int
	for i := range v.Ranking {
		rows[v.Ranking[i].Rank] = &v.Ranking[i]
		all = append(all, v.Ranking[i].Rank)
	}
	slices.Sort(all)
	ms := func(x float64) int64 { return int64(x * 1e6) }
	// Medians do not show what single steps have.
	cause, usual := phasesOf(v.Cause), steady(v) || v.Evidence == nil
	p := &Proof{}
	switch {
	case usual && cause != nil:
		p.Columns = []string{straggler.PhaseWords(v.Cause), "other work"}
	case usual:
		p.Columns = []string{"own work"}
	}
	waited := r.waitedMean(v, named)
	p.Columns = append(p.Columns, "waits")
	if waited != nil {
		p.Columns[len(p.Columns)-1] = waitsFor(named)
	}
	p.Rows = ofRanks(all, named, func(rank int) (out []int64) {
		k := rows[rank]
		part := 0.0
		for _, name := range cause {
			part += k.Phases[name]
		}
		switch {
		case usual && cause != nil:
			out = []int64{ms(part), ms(max(k.Own-part, 0))}
		case usual:
			out = []int64{ms(k.Own)}
		}
		if waited != nil {
			return append(out, waited[rank])
		}
		return append(out, ms(k.Wait))
	}, func(int) string {
		e := v.Evidence
		if e == nil || e.Interval == 0 {
			return ""
		}
		text := fmt.Sprintf("%d of %s", e.Affected, display.Plural(e.Interval, "step"))
		if !steady(v) {
			text += fmt.Sprintf(", by %s", display.Milliseconds(e.Excess))
		}
		return text
	})
	if p.Rows == nil {
		return nil
	}
	return p
}

// steady reports whether the ranks of a finding are late in nearly all of the judged steps, so
// that medians of all of them show it.
func steady(v *straggler.Verdict) bool {
	return v.Evidence != nil && v.Pattern != "single_steps" && 10*v.Evidence.Affected >= 9*v.Coverage.Steps
}

// waitedMean is how long each rank waited for those of a finding in a step, the mean; nil
// where that is not known by rank.
func (r *Report) waitedMean(v *straggler.Verdict, ranks []int) map[int]int64 {
	w := v.Waits
	if w == nil || w.By != "rank" || v.Coverage.Steps == 0 || v.Coverage.WindowSteps > 0 {
		return nil
	}
	number := func(i int) (rank int) { _, _ = fmt.Sscan(w.Names[i], &rank); return rank }
	out := make(map[int]int64)
	for _, c := range w.Cells {
		if slices.Contains(ranks, number(c.For)) {
			out[number(c.Waiter)] += c.Time * 1000 / int64(v.Coverage.Steps)
		}
	}
	return out
}

// outsideOfSteps is what the ranks of a finding do longer than the others beside forward,
// backward and optimizer, where spans of the run say so. It has to be half of what the
// others wait for them.
func (r *Report) outsideOfSteps(ranks []int, cause string) *Proof {
	if cause != straggler.Host.String() || len(ranks) != 1 {
		return nil
	}
	var waited int64
	for _, w := range r.Ledger.WaitedFor {
		if w.Rank == ranks[0] {
			waited = w.Time
		}
	}
	var all []int
	of := make(map[int]*account.RankReport)
	for i := range r.Ledger.Ranks {
		k := &r.Ledger.Ranks[i]
		of[k.Rank], all = k, append(all, k.Rank)
	}
	if len(all) < 2 || waited == 0 || of[ranks[0]] == nil {
		return nil
	}
	var best account.Category
	most := waited / int64(len(all)-1) / 2
	for c, ns := range of[ranks[0]].Categories {
		if !c.IsCustom() && c != account.Validation && c != account.Testing && c != account.CheckpointSave && c != account.DataWait {
			continue
		}
		var others []float64
		for _, rank := range all {
			if rank != ranks[0] {
				others = append(others, float64(of[rank].Categories[c]))
			}
		}
		if over := ns - int64(stats.Median(others)); over > most || over == most && c < best {
			best, most = c, over
		}
	}
	if best == "" {
		return nil
	}
	p := &Proof{Columns: []string{strings.Trim(PartName(string(best)), "“”"), "in steps", "waits"}, OfRun: true}
	p.Rows = ofRanks(all, ranks, func(rank int) []int64 {
		k := of[rank]
		wait := k.ProductiveParts[account.WaitInStep]
		return []int64{k.Categories[best], k.Categories[account.Productive] - wait, k.Categories[account.Wait] + wait}
	}, func(int) string {
		if e := r.Verdict.Rank.Evidence; e != nil && e.Interval > 0 {
			return fmt.Sprintf("%d of %s", e.Affected, display.Plural(e.Interval, "step"))
		}
		return ""
	})
	return p
}

// slowSentence says what delays the steps, with the figures of the proof; empty where it has
// none to say it with.
func (r *Report) slowSentence() string {
	v, p := r.Verdict.Rank, r.Verdict.Proof
	if p == nil || v.Kind != straggler.SlowRanks || len(v.Ranks) != 1 || v.Cause == straggler.Checkpoint.String() {
		return ""
	}
	who, host := fmt.Sprintf("Rank %d", v.Ranks[0]), ""
	if len(v.Hosts) == 1 && r.hosts() != 1 {
		host = " (" + v.Hosts[0] + ")"
	}
	named, others := &p.Rows[0], &p.Rows[len(p.Rows)-1]
	written := func(ns int64) string { return display.Milliseconds(float64(ns) / 1e6) }
	if p.OfRun {
		written = display.Duration
	}
	most, rest := written(named.Times[0]), written(others.Times[0])
	end := v.Sooner("at the others' speed")
	switch {
	case p.OfRun:
		return fmt.Sprintf("%s%s is %s in “%s”, the others %s: they wait for it in %d of %s.", who, host, most, p.Columns[0], rest, v.Evidence.Affected, display.Plural(v.Evidence.Interval, "step")) + end
	case phasesOf(v.Cause) == nil || !steady(v) || named.Times[0] <= others.Times[0]:
		return ""
	}
	delays := "delays"
	if v.Cause == "compute" {
		delays = "delay"
	}
	in := "every step"
	if v.Evidence.Affected < v.Evidence.Interval {
		in = fmt.Sprintf("%d of %d steps", v.Evidence.Affected, v.Evidence.Interval)
	}
	return fmt.Sprintf("%s's %s%s %s %s: %s, other ranks %s.", who, workWord(v.Cause), host, delays, in, most, rest) + end
}

// hosts is how many hosts the ranks are on, 0 where that is not known of all.
func (r *Report) hosts() int {
	seen := make(map[string]bool)
	for i := range r.Ranks {
		host := r.Ranks[i].Host
		if host == "" || strings.Contains(host, "unknown-host") {
			return 0
		}
		seen[host] = true
	}
	return len(seen)
}
