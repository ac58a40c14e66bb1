package straggler

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/student"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// meanWithin returns the mean of values in round order and its 95 % confidence bounds, corrected for
// autocorrelation. At most known values count as independent. The bounds are 0 if known is less than three.
func meanWithin(x []float64, known int) (mean, low, high float64) {
	mean = stats.Mean(x)
	if known < 3 {
		return mean, 0, 0
	}
	rest := slices.Clone(x)
	for i := range rest {
		rest[i] -= mean
	}
	se := student.Quantile(0.975, float64(known-1)) * wander(rest) / math.Sqrt(float64(known-1))
	return mean, mean - se, mean + se
}

// meanExcess sets the mean excess of the affected rounds, given in time order.
func meanExcess(e *finding.Evidence, x []float64) {
	if len(x) == 0 {
		return
	}
	mean, low, high := meanWithin(x, len(x))
	e.Excess, e.ExcessLow, e.ExcessHigh = mean/1e3, low/1e3, high/1e3
}

// everyNth returns the constant distance between the given rounds, or 0 if it varies or there are fewer than
// three rounds.
func everyNth(rounds []int) int {
	if len(rounds) < 3 {
		return 0
	}
	apart := rounds[1] - rounds[0]
	for i := 2; i < len(rounds); i++ {
		if rounds[i]-rounds[i-1] != apart {
			return 0
		}
	}
	return apart
}

// causePhases returns the phases that a cause consists of, or nil for a mixture.
func causePhases(cause string) []Phase {
	if cause == finding.CauseCompute || cause == finding.CauseWork {
		return []Phase{Forward, Backward}
	}
	for _, p := range Phases() {
		if p.String() == cause {
			return []Phase{p}
		}
	}
	return nil
}

// prove fills the table, the levels used in the sentence, and the composition of the steps of the first rank.
// All values are means over the rounds in which the ranks of set are late.
func (j *job) prove(f *finding.Finding, set, late []int) {
	t := j.t
	if t == nil || len(late) == 0 {
		return
	}
	mean := func(at func(s int) float64) int64 {
		sum := 0.0
		for _, s := range late {
			sum += at(s)
		}
		return int64(math.Round(sum / float64(len(late))))
	}
	phases := causePhases(f.Cause)
	columns := []string{"own work"}
	if phases != nil {
		columns = []string{finding.Word(f.Cause), "other work"}
	}
	if t.Meets {
		columns = append(columns, "waits")
	}
	index := make(map[int]int)
	for i, rank := range j.ranks {
		index[rank] = i
	}
	times := make(map[int][]int64)
	f.Proof = finding.NewProof(columns, j.ranks, f.Ranks, func(rank int) []int64 {
		if out := times[rank]; out != nil {
			return out
		}
		r := index[rank]
		out := []int64{mean(func(s int) float64 { return t.Own(r, s) })}
		if phases != nil {
			part := mean(func(s int) (sum float64) {
				for _, p := range phases {
					sum += t.Phase(p, r, s)
				}
				return sum
			})
			out = []int64{part, max(out[0]-part, 0)}
		}
		if t.Meets {
			out = append(out, mean(func(s int) float64 { w, _ := t.Communication(r, s); return zeroNaN(w) }))
		}
		times[rank] = out
		return out
	})
	f.Proof.SetLate(f.Evidence)
	f.Step = j.stepOf(slices.Min(set), late)
	if f.Proof != nil && phases != nil && len(set) == 1 {
		f.Evidence.Level, f.Evidence.Others = float64(f.Proof.Named().Times[0])/1e6, float64(f.Proof.Rest().Times[0])/1e6
	}
}

// stepOf returns the composition of the steps of a rank, as means over the given rounds, the largest part
// first.
func (j *job) stepOf(r int, rounds []int) (out []finding.Part) {
	t := j.t
	add := func(name string, at func(s int) float64) {
		sum := 0.0
		for _, s := range rounds {
			sum += zeroNaN(at(s))
		}
		if ns := int64(math.Round(sum / float64(len(rounds)))); ns > 0 {
			out = append(out, finding.Part{Name: name, Time: ns})
		}
	}
	for _, p := range Phases() {
		add(finding.Word(p.String()), func(s int) float64 { return t.Phase(p, r, s) })
	}
	add("waits", func(s int) float64 { w, _ := t.Communication(r, s); return w })
	add("collectives", func(s int) float64 { _, c := t.Communication(r, s); return c })
	slices.SortStableFunc(out, func(a, b finding.Part) int { return cmp.Compare(b.Time, a.Time) })
	return out
}

func zeroNaN(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// WaitedFor returns the finding that the others wait for a rank. It is for profiles with too few steps to
// judge ranks. Times are medians over the steps. It returns nil if there is nothing to compare.
func (v *Verdict) WaitedFor(rank int) *finding.Finding {
	rows := make(map[int]*RankRow)
	var all []int
	for i := range v.Ranking {
		rows[v.Ranking[i].Rank] = &v.Ranking[i]
		all = append(all, v.Ranking[i].Rank)
	}
	row := rows[rank]
	if row == nil {
		return nil
	}
	ns := func(ms float64) int64 { return int64(math.Round(ms * 1e6)) }
	f := &finding.Finding{Kind: finding.Wait, Ranks: []int{rank}, FromStep: v.Coverage.FirstStep, ToStep: -1, Job: v.Job}
	f.Proof = finding.NewProof([]string{"own work", "waits"}, all, f.Ranks, func(rank int) []int64 { return []int64{ns(rows[rank].Own), ns(rows[rank].Wait)} })
	if f.Proof == nil {
		return nil
	}
	n := v.Coverage.Steps
	f.Evidence = &finding.Evidence{Affected: int(math.Round(row.Last * float64(n))), Interval: n, Judged: n, Level: row.Own, Others: float64(f.Proof.Rest().Times[0]) / 1e6}
	f.Proof.SetLate(f.Evidence)
	f.Step = []finding.Part{{Name: "own work", Time: ns(row.Own)}, {Name: "collectives and waits", Time: ns(max(v.StepTime-row.Own, 0))}}
	were := "were"
	if n == 1 {
		were = "was"
	}
	f.NotKnown = []string{"whether it lasts: " + display.Plural(n, "step") + " " + were + " compared. To find out, record " + needed[reasonTooFewSteps]}
	return f
}
