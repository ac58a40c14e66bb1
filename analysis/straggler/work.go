package straggler

import (
	"math"

	"github.com/trainspan/trainspan/internal/robust"
)

func (a *analysis) haveTokens() bool {
	for _, v := range a.rd.tokens.v {
		if v == v {
			return true
		}
	}
	return false
}

// work takes the part of forward and backward that follows the amount of work
// out of own work, and files it when it costs enough. Without tokens it changes
// nothing.
func (a *analysis) work() {
	rd := a.rd
	a.own, a.phase = rd.own, rd.phase
	if !a.haveTokens() {
		return
	}
	n, m := rd.n(), rd.m()
	ratio := a.tokenRatio()
	power := a.workPower(ratio)
	if power == 0 {
		return
	}
	fair := rd.own.clone()
	forward, backward := rd.phase[Forward].clone(), rd.phase[Backward].clone()
	extra := newMatrix(n, m) // time that is due to more work than the reference
	better := map[int][]float64{}
	for r := range n {
		better[r] = make([]float64, m)
		for s := range m {
			q := ratio.at(r, s)
			k := 1.0
			if q > 0 {
				k = math.Pow(q, -power)
			}
			f, b := rd.phase[Forward].at(r, s), rd.phase[Backward].at(r, s)
			over := (f + b) * (1 - k)
			forward.set(r, s, f*k)
			backward.set(r, s, b*k)
			fair.set(r, s, rd.own.at(r, s)-over)
			better[r][s] = fair.at(r, s)
			extra.set(r, s, over)
		}
	}
	gain := a.replay(better)
	found := a.share(gain, 0, m) >= a.opt.MinCost/2
	a.own = fair
	a.phase[Forward], a.phase[Backward] = forward, backward
	if !found {
		return
	}
	a.fileWork(ratio, extra, gain)
}

// tokenRatio gives the work of each rank over the reference of its role.
func (a *analysis) tokenRatio() matrix {
	rd := a.rd
	out := newMatrix(rd.n(), rd.m())
	for _, ranks := range rd.roles {
		ref := a.common(rd.tokens, ranks)
		for _, r := range ranks {
			for s := range ref {
				out.set(r, s, rd.tokens.at(r, s)/ref[s])
			}
		}
	}
	return out
}

// workPower gives the power with which time follows work: 1 where it is
// proportional, up to 2 where attention over long sequences prevails, 0 where
// time does not follow work at all. It is the median slope over all ranks and
// rounds with clearly different work, so that a rank that is slow for another
// reason does not matter.
func (a *analysis) workPower(ratio matrix) float64 {
	rd := a.rd
	var slopes, buf []float64
	for _, ranks := range rd.roles {
		for s := range rd.m() {
			buf = buf[:0]
			for _, r := range ranks {
				// Ranks with the usual amount of work say what it takes.
				if q := ratio.at(r, s); math.Abs(q-1) < 0.05 {
					buf = append(buf, rd.phase[Forward].at(r, s)+rd.phase[Backward].at(r, s))
				}
			}
			ref := robust.LowerMedian(buf)
			for _, r := range ranks {
				q := ratio.at(r, s)
				t := rd.phase[Forward].at(r, s) + rd.phase[Backward].at(r, s)
				// Within 5 % jitter hides what the work does.
				if t > 0 && ref > 0 && math.Abs(q-1) >= 0.05 {
					slopes = append(slopes, math.Log(t/ref)/math.Log(q))
				}
			}
		}
	}
	// Three late steps are the fewest that can be a finding.
	if len(slopes) < 3 {
		return 0
	}
	p := robust.Median(slopes)
	// A slope below a third is no proportion that would explain anything.
	if p < 1.0/3 {
		return 0
	}
	return min(p, 2)
}

// fileWork names the ranks that have more work in most steps of an interval;
// where another rank has it each time, nobody is to blame.
func (a *analysis) fileWork(ratio, extra matrix, gain []float64) {
	rd := a.rd
	var ranks []int
	from, to := rd.m(), 0
	row := make([]float64, rd.m())
	for r := range rd.n() {
		for s := range row {
			row[s] = extra.at(r, s)
		}
		for _, sg := range segments(row, splitNoise(row), splitShare*rd.typical) {
			// Three quarters of the rounds have more, by 5 %: with random
			// lengths it is about half.
			more := 0
			for s := sg.from; s < sg.to; s++ {
				if ratio.at(r, s) > 1.05 {
					more++
				}
			}
			if 4*more > 3*(sg.to-sg.from) && sg.level > hotShare*rd.typical {
				if len(ranks) == 0 || ranks[len(ranks)-1] != r {
					ranks = append(ranks, r)
				}
				from, to = min(from, sg.from), max(to, sg.to)
			}
		}
	}
	if len(ranks) == 0 || 2*len(ranks) > rd.n() {
		ranks, from, to = nil, 0, rd.m()
	}
	a.add(Finding{Kind: UnevenWork, Cause: CauseWork, Ranks: a.realRanks(ranks), Evidence: &Evidence{Affected: to - from}}, gain, from, to)
}
