package straggler

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/student"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// meanWithin returns the mean of values in the order of the rounds, and between what it is with 95 %;
// neighbours may depend on each other. Of the values as many as known are independent at most. The bounds
// are 0 if these are fewer than three.
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

// meanExcess fills the mean excess of the affected rounds, in the order of time.
func meanExcess(e *finding.Evidence, x []float64) {
	if len(x) == 0 {
		return
	}
	mean, low, high := meanWithin(x, len(x))
	e.Excess, e.ExcessLow, e.ExcessHigh = mean/1e3, low/1e3, high/1e3
}

// everyNth returns how many rounds apart the rounds are, at least three of them; 0 if that varies.
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

// causePhases are the phases that a cause consists of, none where it is a mixture.
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

// prove fills what the ranks of a set and the others take in the rounds in which these are late: the table,
// the levels that the sentence has, and what the steps of the first rank consist of. All are means of the
// same rounds.
func (j *job) prove(f *found, set, late []int) {
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

// stepOf is what the steps of a rank consist of in some rounds, in the mean, the largest part first.
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

// WaitedFor is the finding that the others wait for a rank, of a profile with too few steps to judge ranks. Its
// times are medians of the steps. It is nil if there is nothing to compare.
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
	f.NotKnown = []string{"whether it lasts: " + strconv.Itoa(n) + " steps were compared"}
	return f
}
