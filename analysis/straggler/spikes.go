package straggler

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/trainspan/trainspan/internal/robust"
)

// spikes finds single rounds in which a rank is much later than its level, and
// asks whose they are.
func (a *analysis) spikes() {
	rd := a.rd
	n, m := rd.n(), rd.m()
	high := make([][]bool, n)
	better := map[int][]float64{}
	for _, ranks := range rd.roles {
		limit := a.spikeLimit(ranks)
		for _, r := range ranks {
			for s := range m {
				if a.rest.at(r, s) > limit {
					if high[r] == nil {
						high[r] = make([]bool, m)
						better[r] = make([]float64, m)
						for i := range m {
							better[r][i] = a.own.at(r, i)
						}
					}
					high[r][s] = true
					better[r][s] -= a.rest.at(r, s)
				}
			}
		}
	}
	if len(better) == 0 {
		return
	}
	gain := a.replay(better)
	var events []int
	for s := range gain {
		// The step itself must have become longer: what the device hides costs
		// nothing.
		gain[s] = min(gain[s], max(rd.p[s]-rd.typical, 0))
		if gain[s] > 0 {
			events = append(events, s)
		}
	}
	saves, others := a.splitByCause(events, high)
	a.fileSpikes(saves, true, high, gain)
	for {
		mine, rest := a.habitual(others, high, gain)
		if len(mine) == 0 {
			break
		}
		a.fileSpikes(mine, false, high, gain)
		others = rest
	}
	a.fileSpikes(others, false, high, gain)
}

// habitual takes out the events of one rank that stalls far more often than
// chance has it, where the stalls of others hide it: among many ranks short
// stalls are so frequent that they cost as much as the long ones of one rank.
func (a *analysis) habitual(events []int, high [][]bool, gain []float64) (mine, rest []int) {
	rd := a.rd
	of := make([][]int, rd.n())
	costs := make([]float64, rd.n())
	for _, s := range events {
		for _, r := range a.late(s, high) {
			of[r] = append(of[r], s)
			costs[r] += gain[s]
		}
	}
	who := 0
	for r := range costs {
		if costs[r] > costs[who] {
			who = r
		}
	}
	// The rank must be worth a finding by itself, and have three events, without
	// which there is no habit.
	if len(of[who]) < 3 || costs[who] < a.opt.MinCost*rd.total {
		return nil, events
	}
	// It is compared with the others in stalls of its own size: half of its
	// median cost and more.
	var size []float64
	for _, s := range of[who] {
		size = append(size, gain[s])
	}
	least := robust.Median(size) / 2
	k, n := 0, 0
	for _, s := range events {
		if gain[s] < least {
			continue
		}
		n++
		if slices.Contains(of[who], s) {
			k++
		}
	}
	// A rank that has most of the cost is named by fileSpikes. One that has less
	// needs evidence that no run of a thousand has by chance.
	if !unlikely(k, n, rd.n(), 0.001) {
		return nil, events
	}
	for _, s := range events {
		if slices.Contains(of[who], s) {
			mine = append(mine, s)
		} else {
			rest = append(rest, s)
		}
	}
	return mine, rest
}

// spikeLimit is how far above its level a round is a spike: six deviations that
// the ranks have in common, and 4 % of a step, so that on quiet runs nobody
// counts what nobody notices.
func (a *analysis) spikeLimit(ranks []int) float64 {
	var buf []float64
	stride := max(1, len(ranks)*a.rd.m()/40_000)
	for i, r := range ranks {
		for s := i % stride; s < a.rd.m(); s += stride {
			if x := a.rest.at(r, s); x == x {
				buf = append(buf, x)
			}
		}
	}
	return max(6*robust.MAD(buf), 0.04*a.rd.typical)
}

// late gives the ranks that share in the spike of a round: those at least half
// as late as the latest, since putting right one of them alone changes little.
func (a *analysis) late(s int, high [][]bool) []int {
	var top float64
	for r := range high {
		if high[r] != nil && high[r][s] {
			top = max(top, a.rest.at(r, s))
		}
	}
	var out []int
	for r := range high {
		if high[r] != nil && high[r][s] && a.rest.at(r, s) >= top/2 {
			out = append(out, r)
		}
	}
	return out
}

// splitByCause separates the rounds in which a checkpoint is the excess.
func (a *analysis) splitByCause(events []int, high [][]bool) (saves, other []int) {
	one := make([]bool, a.rd.m())
	for _, s := range events {
		one[s] = true
		save := false
		for _, r := range a.late(s, high) {
			ex, us := a.excessByPhase(r, one)
			save = save || cause(ex, us) == Checkpoint.String()
		}
		one[s] = false
		if save {
			saves = append(saves, s)
		} else {
			other = append(other, s)
		}
	}
	return saves, other
}

func (a *analysis) fileSpikes(events []int, saves bool, high [][]bool, gain []float64) {
	// Three events are the fewest that can be called a habit. Checkpoints come
	// at intervals that somebody chose: two of them are a pattern.
	if len(events) < 2 || !saves && len(events) < 3 {
		return
	}
	rd := a.rd
	only := make([]float64, rd.m())
	var total float64
	costs, counts := make([]float64, rd.n()), make([]int, rd.n())
	for _, s := range events {
		only[s] = gain[s]
		total += gain[s]
		for _, r := range a.late(s, high) {
			costs[r] += gain[s]
			counts[r]++
		}
	}
	// A rank is named for most of the cost, when so many of the events are not
	// chance: among few ranks one of them easily has most. Who saves is no
	// matter of chance.
	var ranks []int
	for r := range costs {
		if costs[r] >= 0.6*total && (saves || unlikely(counts[r], len(events), rd.n(), 0.02)) {
			ranks = append(ranks, r)
		}
	}
	var excess, usual [phases]float64
	var size []float64
	for r := range high {
		if high[r] == nil || len(ranks) > 0 && !slices.Contains(ranks, r) {
			continue
		}
		in := make([]bool, rd.m())
		any := false
		for _, s := range events {
			if high[r][s] {
				in[s], any = true, true
				size = append(size, a.rest.at(r, s))
			}
		}
		if !any {
			continue
		}
		ex, us := a.excessByPhase(r, in)
		for p := range phases {
			excess[p] += ex[p] * float64(counts[r])
			usual[p] += us[p] * float64(counts[r])
		}
	}
	f := Finding{Kind: RotatingStalls, Cause: cause(excess, usual), Ranks: a.realRanks(ranks), Evidence: &Evidence{
		Affected: len(events), Last: 1, Excess: robust.Median(size) / 1e6, ExcessMAD: robust.MAD(size) / 1e6,
	}}
	switch {
	case f.Cause == Checkpoint.String():
		f.Kind = CheckpointStall
	case len(ranks) > 0:
		f.Kind = Intermittent
	}
	from, to := extent(events, rd.m())
	a.add(f, only, from, to)
}

// extent gives the interval in which events happen. One that begins later, or
// ends earlier, than the usual distance between events explains is cut there.
func extent(events []int, m int) (from, to int) {
	first, last := events[0], events[len(events)-1]
	gap := float64(last-first) / float64(len(events)-1)
	// Events at random keep away for five times their mean distance in less
	// than one run of a hundred.
	from, to = 0, m
	if float64(first) > 5*gap {
		from = first
	}
	if float64(m-1-last) > 5*gap {
		to = last + 1
	}
	return from, to
}

// unlikely says whether k of n events at one of ranks would happen by chance
// with less than this probability: three of three at one of eight ranks is 0.016.
func unlikely(k, n, ranks int, chance float64) bool {
	if k == 0 {
		return false
	}
	b := distuv.Binomial{N: float64(n), P: 1 / float64(ranks)}
	return float64(ranks)*math.Max(1-b.CDF(float64(k-1)), 0) < chance
}
