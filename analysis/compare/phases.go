package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/robust"
)

// PhaseChange is the change of one phase as a share of the step of the base run.
type PhaseChange struct {
	Phase  string   `json:"phase"`
	Base   float64  `json:"base_ms"` // median
	New    float64  `json:"new_ms"`
	Change Interval `json:"change"`
	// Sure says that the change is none of chance, at 1 % over all phases
	// together (Holm).
	Sure bool `json:"sure"`

	p float64
}

// comparePhases returns the change of each phase that both runs have.
func comparePhases(a, b *Run) []PhaseChange {
	typical := robust.Median(slices.Clone(a.Periods))
	var out []PhaseChange
	for _, name := range a.phases() {
		y, ok := b.Phases[name]
		if !ok {
			continue
		}
		x := a.Phases[name]
		rx, ry := correlations(x, y)
		ex, ey := medianOf(x, rx), medianOf(y, ry)
		p := PhaseChange{Phase: name, Base: ex.value / 1e6, New: ey.value / 1e6}
		iv, chance := change(ex, ey)
		p.Change, p.p = Interval{iv.Change / typical, iv.Low / typical, iv.High / typical}, chance
		out = append(out, p)
	}
	holm(out)
	slices.SortStableFunc(out, func(p, q PhaseChange) int {
		return cmp.Compare(math.Abs(q.Change.Change), math.Abs(p.Change.Change))
	})
	return out
}

// holm marks the phases whose change is none of chance, at 1 % over all of them
// together (Holm 1979): the smallest probability is multiplied by their number,
// the next by one less.
func holm(ps []PhaseChange) {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(ps[i].p, ps[j].p) })
	for k, i := range order {
		if ps[i].p*float64(len(ps)-k) >= 0.01 {
			return
		}
		ps[i].Sure = true
	}
}
