package replay

import "github.com/trainspan/trainspan/internal/robust"

// reference is what is usual for ranks that are not in a set, found once for each kind of
// work and role.
type reference struct {
	w      *ownWork
	set    []bool
	series map[[2]int][]float64
}

func (w *ownWork) without(set []int) *reference {
	f := &reference{w: w, set: make([]bool, len(w.ranks)), series: make(map[[2]int][]float64)}
	for _, r := range set {
		f.set[r] = true
	}
	return f
}

// of returns the medians of a kind of work in each judged round.
func (f *reference) of(row, role int) []float64 {
	k := [2]int{row, role}
	x := f.series[k]
	if x == nil {
		x = make([]float64, f.w.rounds())
		for s := range x {
			x[s] = f.w.common(row, f.w.from+s, role, f.set)
		}
		f.series[k] = x
	}
	return x
}

// time is what a kind of work took a rank in a round.
func (w *ownWork) time(row, s, r int) float64 {
	if w.row[row] == nil {
		return 0
	}
	return float64(w.row[row][w.at(s, r)])
}

// mean is that of a kind of work of a rank in some rounds.
func (w *ownWork) mean(row, r, from, to int) float64 {
	sum := 0.0
	for s := from; s < to; s++ {
		sum += w.time(row, s, r)
	}
	return sum / float64(to-from)
}

// means are those of the judged rounds, of all ranks.
func (w *ownWork) means(row int) []float64 {
	out := make([]float64, len(w.ranks))
	for r := range out {
		out[r] = w.mean(row, r, w.from, len(w.steps))
	}
	return out
}

// common is the median time of a kind of work over the ranks of a role, but for those that
// are without.
func (w *ownWork) common(row, s, role int, without []bool) float64 {
	x := make([]float64, 0, len(w.roles[role]))
	for _, r := range w.roles[role] {
		if without == nil || !without[r] {
			x = append(x, float64(w.row[row][w.at(s, r)]))
		}
	}
	if len(x) == 0 {
		return 0
	}
	return robust.Median(x)
}
