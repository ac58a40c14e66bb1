package straggler

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/robust"
)

// Shares of the time of a step. They are what synthetic runs with the noise of
// real ones separate well; docs/stragglers.md has the rates.
const (
	// hotShare is the excess from which a rank can be a straggler. Healthy
	// devices differ by half a percent, the slowest of 64 by a bit more than 1 %.
	hotShare = 0.015
	// splitShare is the smallest change of level that is looked at: half of
	// hotShare, so that a rank's level is not smeared over a finding's edge.
	splitShare = hotShare / 2
	// evidenceZ is how many deviations a rank must lie from the middle of the
	// others, where the deviation is known well.
	evidenceZ = 5
	// minRounds is how many rounds a verdict needs.
	minRounds = 20
)

// analysis is one pass over the rounds of a state.
type analysis struct {
	s   *State
	opt Options
	rd  *rounds // what is judged
	// built are the rounds that there are, be they too few to be judged.
	built *rounds

	own      matrix // own work, per token where tokens are known
	phase    [phases]matrix
	excess   matrix      // own over the reference of the role
	rest     matrix      // what is left of excess when levels are taken out
	levels   [][]segment // by rank
	medians  []float64   // of the excess, by rank
	noise    []*noise    // by role
	peerMAD  []float64   // by role: how far the ranks' levels lie apart
	findings []Finding
	remarks  []string
	suspects []int
	cleared  []string
	missing  []int
	linked   bool // roles work for each other within a step
}

// common gives per round the lower median over comparable ranks: at most half
// of them may be slow, and of two the faster one is normal.
func (a *analysis) common(x matrix, ranks []int) []float64 {
	out := make([]float64, x.m)
	buf := make([]float64, 0, len(ranks))
	for s := range out {
		buf = column(buf, x, ranks, s)
		out[s] = robust.LowerMedian(buf)
	}
	return out
}

// prepare computes the excess of each rank and splits it into levels.
func (a *analysis) prepare() {
	rd := a.rd
	n, m := rd.n(), rd.m()
	a.excess = newMatrix(n, m)
	a.levels, a.medians = make([][]segment, n), make([]float64, n)
	a.noise, a.peerMAD = make([]*noise, len(rd.roles)), make([]float64, len(rd.roles))
	for i, ranks := range rd.roles {
		var ref []float64
		if len(ranks) > 1 {
			a.noise[i] = rankNoise(a.own, ranks)
			ref = a.common(a.own, ranks)
		} else {
			a.noise[i], ref = a.ownPast(ranks[0])
		}
		for _, r := range ranks {
			for s := range m {
				a.excess.set(r, s, a.own.at(r, s)-ref[s])
			}
		}
	}
	a.rest = a.excess.clone()
	row := make([]float64, m)
	for r := range n {
		for s := range m {
			row[s] = a.excess.at(r, s)
		}
		a.levels[r] = segments(row, a.noise[rd.roleOf[r]], splitShare*rd.typical)
		a.medians[r] = levelOf(row)
		for _, sg := range a.levels[r] {
			for s := sg.from; s < sg.to; s++ {
				a.rest.set(r, s, row[s]-sg.level)
			}
		}
	}
	for i, ranks := range rd.roles {
		var lv []float64
		for _, r := range ranks {
			if x := a.medians[r]; x == x {
				lv = append(lv, x)
			}
		}
		if len(lv) > 0 {
			a.peerMAD[i] = robust.MAD(lv)
		}
	}
}

// ownPast compares a rank that has nobody to compare with to its own best
// stretch. Only a change can be seen in this way.
func (a *analysis) ownPast(r int) (*noise, []float64) {
	m := a.rd.m()
	x := make([]float64, m)
	for s := range x {
		x[s] = a.own.at(r, s)
	}
	low, worst := math.Inf(1), segment{level: math.Inf(-1)}
	for _, sg := range segments(x, splitNoise(x), splitShare*a.rd.typical) {
		if sg.level > worst.level {
			worst = sg
		}
		// A quarter of the run is long enough to be how the rank usually is.
		if 4*(sg.to-sg.from) >= m {
			low = min(low, sg.level)
		}
	}
	if math.IsInf(low, 1) {
		low = levelOf(x)
	}
	ref := make([]float64, m)
	for s := range ref {
		ref[s] = low
	}
	return changeNoise(x, worst.from, worst.to), ref
}

// replay gives by round how much shorter the step had been with other own work
// for some ranks: the step takes as long as the slowest of them.
func (a *analysis) replay(better map[int][]float64) []float64 {
	rd := a.rd
	if !a.linked {
		return a.replayAmong(a.everyone(), better)
	}
	// Ranks that work for each other in turn hand a delay on: what one of a
	// role is later than the others of that role, the step is longer.
	out := make([]float64, rd.m())
	for _, ranks := range rd.roles {
		for s, g := range a.replayAmong(ranks, better) {
			out[s] = max(out[s], g)
		}
	}
	return out
}

func (a *analysis) replayAmong(ranks []int, better map[int][]float64) []float64 {
	rd := a.rd
	out := make([]float64, rd.m())
	was, now := make([]float64, rd.m()), make([]float64, rd.m())
	for _, r := range ranks {
		row, alt := a.own.row(r), better[r]
		for s, v := range row {
			x := float64(v)
			if x != x {
				continue
			}
			was[s] = max(was[s], x)
			if alt != nil && alt[s] < x {
				x = alt[s]
			}
			now[s] = max(now[s], x)
		}
	}
	for s := range out {
		out[s] = was[s] - now[s]
	}
	return out
}

// share gives the sum of gains as a share of the time of the rounds [from, to).
func (a *analysis) share(gain []float64, from, to int) float64 {
	var g, p float64
	for s := from; s < to; s++ {
		g += gain[s]
		p += a.rd.p[s]
	}
	if p == 0 {
		return 0
	}
	return g / p
}

// add completes a finding over the rounds [from, to) and files it when it costs
// enough of the time of its interval. What has ended must matter for the run as
// well: half of that, since it will cost no more.
func (a *analysis) add(f Finding, gain []float64, from, to int) bool {
	f.gain = a.share(gain, from, to)
	f.Cost = f.gain * sum(a.rd.p[from:to]) / a.rd.total
	least := a.opt.MinCost
	if a.rd.prefetch && len(f.Ranks) > 0 && (f.Cause == CauseCompute || f.Cause == Forward.String() || f.Cause == Backward.String()) {
		// A rank that is ahead waits in each collective for as long as it is
		// ahead and computes on, so that a small excess counts several times.
		least *= 2
	}
	if f.gain < least || to < a.rd.m() && f.Cost < a.opt.MinCost/2 {
		return false
	}
	f.Slowdown = 1 / (1 - min(f.gain, 0.999))
	// What follows the barrier in a step is in the round that ends with the next.
	late := 0
	if (f.Cause == Optimizer.String() || f.Cause == Checkpoint.String()) && a.rd.barrier != atOptimizer {
		late = 1
	}
	f.FromStep, f.ToStep = a.stepAt(max(from-late, 0)), -1
	if to < a.rd.m() {
		f.ToStep = a.rd.steps[max(to-late, 0)]
	}
	if f.Evidence != nil {
		f.Evidence.Interval = to - from
	}
	a.findings = append(a.findings, f)
	return true
}

func sum(x []float64) (t float64) {
	for _, v := range x {
		t += v
	}
	return t
}

// stepAt gives the step of a round. What holds from the first judged round on
// holds from the first step: before it lies only the slow start.
func (a *analysis) stepAt(round int) int64 {
	if round == 0 && a.rd.m() > 0 {
		return a.s.firstStep()
	}
	return a.rd.steps[round]
}

func (s *State) firstStep() int64 {
	first := int64(math.MaxInt64)
	for _, rs := range s.ranks {
		if rs.steps.n > 0 {
			first = min(first, rs.steps.blocks[0].first)
		}
	}
	return first
}

func (a *analysis) realRanks(ranks []int) []int {
	out := make([]int, len(ranks))
	for i, r := range ranks {
		out[i] = a.rd.ids[r]
	}
	slices.Sort(out)
	return out
}

// cause names the phase that holds the excess. excess is by phase, usual is
// what the phase takes on comparable ranks.
func cause(excess, usual [phases]float64) string {
	var total float64
	for _, x := range excess {
		total += max(x, 0)
	}
	if total <= 0 {
		return CauseMixed
	}
	order := []Phase{Host, Input, Transfer, Forward, Backward, Optimizer, Checkpoint}
	slices.SortStableFunc(order, func(p, q Phase) int { return cmp.Compare(excess[q], excess[p]) })
	// Two thirds of the excess in one phase leave no doubt which to look at.
	const most = 0.65
	f, b := max(excess[Forward], 0), max(excess[Backward], 0)
	if f+b >= most*total && f > 0 && b > 0 && usual[Forward] > 0 && usual[Backward] > 0 {
		// A slow device is slow in both, by about the same factor: 2.5 covers
		// the different mix of kernels.
		if q := f / usual[Forward] / (b / usual[Backward]); q <= 2.5 && q >= 1/2.5 {
			return CauseCompute
		}
	}
	if excess[order[0]] >= most*total {
		return order[0].String()
	}
	return CauseMixed
}

// excessByPhase gives the mean excess of a rank in the rounds of a mask, and
// the mean of the reference, by phase.
func (a *analysis) excessByPhase(r int, in []bool) (excess, usual [phases]float64) {
	ranks := a.rd.roles[a.rd.roleOf[r]]
	buf := make([]float64, 0, len(ranks))
	var ref, diff []float64
	for p := range phases {
		ref, diff = ref[:0], diff[:0]
		past := math.NaN()
		if len(ranks) == 1 { // compared with its own past, as in ownPast
			for s, use := range in {
				if !use {
					ref = append(ref, a.phase[p].at(r, s))
				}
			}
			past, ref = levelOf(ref), ref[:0]
		}
		for s, use := range in {
			x := a.phase[p].at(r, s)
			if !use || x != x {
				continue
			}
			buf = column(buf, a.phase[p], ranks, s)
			m := robust.LowerMedian(buf)
			if past == past {
				m = past
			}
			ref, diff = append(ref, m), append(diff, x-m)
		}
		if len(ref) == 0 {
			continue
		}
		usual[p] = sum(ref) / float64(len(ref))
		excess[p] = sum(diff) / float64(len(diff))
	}
	return excess, usual
}
