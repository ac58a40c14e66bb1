package compare

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/trainspan/trainspan/internal/robust"
)

// comparePhases gives the change of each phase that both runs have.
func comparePhases(a, b *Run, rng *rand.Rand) []PhaseChange {
	typical := robust.Median(slices.Clone(a.Periods))
	var out []PhaseChange
	for _, name := range a.phases() {
		y, ok := b.Phases[name]
		if !ok {
			continue
		}
		x := a.Phases[name]
		p := PhaseChange{Phase: name, Base: robust.Median(slices.Clone(x)) / 1e6, New: robust.Median(slices.Clone(y)) / 1e6}
		rx, ry := newResampler(x, rng), newResampler(y, rng)
		draws := make([]float64, resamples)
		for i := range draws {
			u, _ := rx.draw()
			v, _ := ry.draw()
			draws[i] = (v - u) / typical
		}
		p.Change = intervalOf((p.New-p.Base)*1e6/typical, draws)
		p.p = tail(p.Change)
		out = append(out, p)
	}
	holm(out)
	slices.SortStableFunc(out, func(p, q PhaseChange) int {
		return cmp.Compare(math.Abs(q.Change.Change), math.Abs(p.Change.Change))
	})
	return out
}

// tail gives the two-sided probability of no change, from the side of the
// interval that lies towards zero: counting draws beyond zero would end at one
// in the number of draws, which Holm would multiply.
func tail(iv Interval) float64 {
	side := iv.Change - iv.Low
	if iv.Change < 0 {
		side = iv.High - iv.Change
	}
	if side <= 0 {
		if iv.Change == 0 {
			return 1
		}
		return 0
	}
	n := distuv.UnitNormal
	return 2 * n.Survival(math.Abs(iv.Change)/side*n.Quantile(0.995))
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
