package straggler

import (
	"math"
	"slices"
)

// change is a stretch of a common series in which it is higher than before.
type change struct {
	from, to      int
	level, before float64
}

// rise finds where x goes up for good, or for an interval, by the factor and by
// the share of a step. Of several steps upwards the first one counts as the
// beginning.
func (a *analysis) rise(x []float64, factor, share float64) (change, bool) {
	segs := segments(x, splitNoise(x), share*a.rd.typical/2)
	for i := 1; i < len(segs); i++ {
		// Before is how it was so far, at its best.
		before, n := math.Inf(1), segs[i].from
		for _, sg := range segs[:i] {
			before = min(before, sg.level)
		}
		j, total := i, 0.0
		for j < len(segs) && segs[j].level >= factor*before && segs[j].level-before >= share*a.rd.typical {
			total += segs[j].level * float64(segs[j].to-segs[j].from)
			j++
		}
		if j == i {
			continue
		}
		from, to := segs[i].from, segs[j-1].to
		level := total / float64(to-from)
		begin, rest := from, x
		if up, ok := findRamp(smooth(x[:to]), from); ok && up.by > 0 {
			// What rises slowly would look like noise that wanders.
			begin, rest = up.from, slices.Clone(x)
			for s := range rest[:to] {
				rest[s] -= up.by * up.at(s)
			}
		}
		ns := changeNoise(rest, begin, to)
		if level-before > ns.z*math.Sqrt(ns.means[to-from]+ns.means[n]) || ns.jumps(x, begin) {
			return change{begin, to, level, before}, true
		}
	}
	return change{}, false
}

// input finds that all ranks wait for data.
func (a *analysis) input() {
	rd := a.rd
	x := a.common(a.phase[Input], a.everyone())
	const (
		// A tenth of the time spent waiting for data is worth a faster loader.
		share = 0.10
		// A wait for data has 30 % of jitter, so that it must rise by half.
		factor, rise = 1.5, 0.03
	)
	c, rises := a.rise(x, factor, rise)
	if !rises {
		c = change{from: 0, to: rd.m(), level: levelOf(x)}
		if c.level < share*rd.typical {
			return
		}
	}
	a.fileCommon(Finding{Kind: InputBound, Cause: Input.String()}, c, Input)
}

// fileCommon files a finding on a phase of all ranks: what the steps would have
// taken with the phase as it was before, or without it.
func (a *analysis) fileCommon(f Finding, c change, ps ...Phase) {
	rd := a.rd
	better := map[int][]float64{}
	for r := range rd.n() {
		alt := make([]float64, rd.m())
		for s := range alt {
			alt[s] = a.own.at(r, s)
			if s < c.from || s >= c.to {
				continue
			}
			var now float64
			for _, p := range ps {
				now += a.phase[p].at(r, s)
			}
			if over := now - c.before; over > 0 {
				alt[s] -= over
			}
		}
		better[r] = alt
	}
	f.Evidence = &Evidence{Affected: c.to - c.from, Level: c.level / 1e6, Before: c.before / 1e6}
	a.add(f, a.replay(better), c.from, c.to)
}

func (a *analysis) everyone() []int {
	out := make([]int, a.rd.n())
	for i := range out {
		out[i] = i
	}
	return out
}

// slowdown finds that a phase of all ranks takes longer from a step on.
func (a *analysis) slowdown() {
	// All ranks share a part of their jitter, which no peer averages out: 6 %
	// and 2 % of a step are beyond it.
	const factor, share = 1.06, 0.02
	everyone := a.everyone()
	type found struct {
		p Phase
		c change
	}
	var all []found
	for _, p := range []Phase{Transfer, Forward, Backward, Optimizer, Host} {
		if slices.Contains(a.rd.hides, p) {
			continue
		}
		x := a.common(a.phase[p], everyone)
		if c, ok := a.rise(x, factor, share); ok {
			all = append(all, found{p, c})
		}
	}
	if len(all) == 2 && all[0].p == Forward && all[1].p == Backward {
		f, b := all[0].c, all[1].c
		c := change{min(f.from, b.from), max(f.to, b.to), f.level + b.level, f.before + b.before}
		a.fileCommon(Finding{Kind: SlowdownAll, Cause: CauseCompute}, c, Forward, Backward)
		return
	}
	for _, f := range all {
		a.fileCommon(Finding{Kind: SlowdownAll, Cause: f.p.String()}, f.c, f.p)
	}
}

// transfers looks at the time that the ranks need for the collectives
// themselves: the shortest time of all ranks is the one of the rank that nobody
// had to wait for.
func (a *analysis) transfers() {
	if a.rd.barrier != atCollective {
		return
	}
	a.groupTransfers()
	x := a.shortest(a.rd.world, a.everyone())
	if math.IsNaN(levelOf(x)) {
		return // there is no collective of all ranks
	}
	const (
		share        = 0.30 // of a step: then communication is what there is to improve
		factor, rise = 1.2, 0.015
	)
	c, rises := a.rise(x, factor, rise)
	if !rises {
		c = change{to: a.rd.m(), level: levelOf(x)}
		if c.level < share*a.rd.typical {
			return
		}
	}
	if len(a.missing) > 0 {
		// The shortest time of those with data is no transfer when all of them
		// wait for the one without.
		a.remark(ReasonMissingRank)
		return
	}
	gain := make([]float64, a.rd.m())
	for s := c.from; s < c.to; s++ {
		gain[s] = max(x[s]-c.before, 0)
	}
	a.add(Finding{Kind: SlowCommunication, Cause: CauseCommunication,
		Evidence: &Evidence{Affected: c.to - c.from, Level: c.level / 1e6, Before: c.before / 1e6}}, gain, c.from, c.to)
}

// shortest gives the minimum over ranks by round.
func (a *analysis) shortest(x matrix, ranks []int) []float64 {
	out := make([]float64, x.m)
	for s := range out {
		out[s] = math.Inf(1)
		for _, r := range ranks {
			if v := x.at(r, s); v < out[s] {
				out[s] = v
			}
		}
		if math.IsInf(out[s], 1) {
			out[s] = math.NaN()
		}
	}
	return out
}
