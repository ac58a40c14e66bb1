package straggler

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Slowdowns that all ranks share are searched in common time series: the times of a transfer, and for each
// role the minimum over its ranks of one kind of work. A series may shift to another level for some rounds,
// grow, or spike in single rounds. Its noise is autocorrelated, so the thresholds are high.
const (
	episodeErrors = 7  // standard errors of a level shift or a slope
	episodeLeast  = 8  // rounds
	smoothOver    = 5  // rounds: a running median of this width removes anything shorter than half of it
	growthKnots   = 8  // parts of a series; growth may start or stop at their ends
	growthLeast   = 30 // rounds

	burstErrors = 6    // standard deviations of the logarithm, because times are about lognormal
	burstShare  = 0.05 // of a step: least excess of a burst
	burstTimes  = 1.2  // least ratio of a burst to the usual value
	burstLeast  = 3    // least number of bursts
	burstMost   = 0.4  // of the rounds: above this it is a level, not bursts
)

// rise is an increase of one kind of work that all ranks of a role share for some rounds.
type rise struct {
	role, row     int
	at, end       int // rounds: from at until before end
	before, after float64
	grown         int // the round in which the level reaches after; equal to at for a step change
	// For bursts: the repair factor of each judged round starting at first, the number of affected rounds,
	// and the distance in rounds between the starts of bursts (0 if it varies).
	single             []float64
	first, many, apart int
}

// factor returns the factor that restores the work of round s to the level before the rise.
func (l rise) factor(s int) float64 {
	if l.single != nil {
		return l.single[max(s-l.first, 0)]
	}
	if s < l.at || s >= l.end || l.after <= 0 {
		return 1
	}
	level := l.after
	if s < l.grown {
		level = l.before + (l.after-l.before)*float64(s-l.at)/float64(l.grown-l.at)
	}
	return l.before / level
}

// excess returns by how much the rise lengthens a step, as the mean over the given number of rounds.
func (l rise) excess(rounds int) float64 {
	n := l.end - l.at
	if l.single != nil {
		n = l.many
	}
	return (l.after - l.before) * float64(n) / float64(rounds)
}

// risen finds the rounds in which x, a series over the judged rounds, is higher: from one round on, between
// two rounds, growing, or in bursts.
func (j *job) risen(x []float64) (rise, bool) {
	if l, ok := j.bursts(x); ok {
		return l, true
	}
	least := lateShare * j.typical()
	at, before, after, z := change(x, changeLeast)
	step := rise{at: at, end: len(x), grown: at, before: before, after: after}
	found, best := step, math.Inf(1)
	take := func(l rise, z, errors float64) {
		if z <= errors || l.after-l.before <= least || l.before <= 0 {
			return
		}
		if e := l.rest(x); e < best {
			found, best = l, e
		}
	}
	take(step, z, changeErrors)
	if l, z, ok := window(x); ok {
		take(l, z, episodeErrors)
	}
	if l, z, ok := growth(x); ok {
		take(l, z, episodeErrors)
	}
	found.at, found.end, found.grown = j.from+found.at, j.from+found.end, j.from+found.grown
	return found, !math.IsInf(best, 1)
}

// bursts finds rounds, single or a few in a row, in which x is repeatedly far above its usual value.
func (j *job) bursts(x []float64) (rise, bool) {
	logs := make([]float64, 0, len(x))
	for _, v := range x {
		if v > 0 {
			logs = append(logs, math.Log(v))
		}
	}
	if len(logs) < growthLeast {
		return rise{}, false
	}
	usual := math.Exp(stats.Median(slices.Clone(logs)))
	from := usual * max(math.Exp(burstErrors*stats.Sigma*stats.MAD(logs)), burstTimes)
	from = max(from, usual+burstShare*j.typical())
	l := rise{at: j.from, end: j.from + len(x), grown: j.from, before: usual, first: j.from, single: make([]float64, len(x))}
	var begins []int
	sum := 0.0
	for s, v := range x {
		l.single[s] = 1
		if v <= from {
			continue
		}
		if s == 0 || x[s-1] <= from {
			begins = append(begins, s)
		}
		l.single[s] = usual / v
		sum, l.many = sum+v, l.many+1
	}
	if len(begins) < burstLeast || float64(l.many) > burstMost*float64(len(logs)) {
		return rise{}, false
	}
	l.after = sum / float64(l.many)
	l.apart = begins[1] - begins[0]
	for i, s := range begins[1:] {
		if s-begins[i] != l.apart {
			l.apart = 0
		}
	}
	return l, true
}

// rest returns the sum of squared residuals of x after the rise is fitted.
func (l rise) rest(x []float64) float64 {
	sum := 0.0
	for s, v := range x {
		level := l.before
		if f := l.factor(s); s >= l.at && s < l.end {
			level = l.before / f
		}
		sum += (v - level) * (v - level)
	}
	return sum
}

// window finds an interval in which x is on a higher level than before it. A series that is high from the
// start and falls later is not a loss: the later work may simply be shorter.
func window(x []float64) (l rise, z float64, ok bool) {
	from, to, _, _, z := interval(smooth(x))
	if to-from < episodeLeast || from < episodeLeast {
		return rise{}, 0, false
	}
	in, out, raw := meansInAndOut(x, from, to)
	return rise{at: from, end: to, grown: from, before: out, after: in}, min(z, raw), true
}

// growth finds the rounds over which x grows linearly from one level to another.
func growth(x []float64) (l rise, z float64, ok bool) {
	n := len(x)
	if n < growthLeast {
		return rise{}, 0, false
	}
	best := math.Inf(1)
	shape, rest := make([]float64, n), make([]float64, n)
	mean := stats.Mean(x)
	for a := range growthKnots {
		for b := a + 2; b <= growthKnots; b++ {
			at, grown := a*(n-1)/growthKnots, b*(n-1)/growthKnots
			for s := range shape {
				shape[s] = min(max(float64(s-at)/float64(grown-at), 0), 1)
			}
			m := stats.Mean(shape)
			var xy, xx, left float64
			for s, v := range shape {
				xy, xx = xy+(v-m)*(x[s]-mean), xx+(v-m)*(v-m)
			}
			slope := xy / xx
			for s, v := range shape {
				rest[s] = x[s] - mean - slope*(v-m)
				left += rest[s] * rest[s]
			}
			if left >= best || slope <= 0 {
				continue
			}
			best = left
			before := mean - slope*m
			l = rise{at: at, end: n, grown: grown, before: before, after: before + slope}
			z = slope / (wander(rest) / math.Sqrt(xx))
		}
	}
	return l, z, !math.IsInf(best, 1)
}

// smooth returns the running median of x.
func smooth(x []float64) []float64 {
	out := make([]float64, len(x))
	var near []float64
	for s := range x {
		near = append(near[:0], x[max(0, s-smoothOver/2):min(len(x), s+smoothOver/2+1)]...)
		out[s] = stats.Median(near)
	}
	return out
}

// levels finds the kinds of work that take longer in some rounds for all ranks of a role.
func (j *job) levels() (out []rise) {
	x := make([]float64, j.rounds())
	for role := range j.roles {
		for row := range rows {
			// Input has its own finding, which reports the total cost and not when it began.
			if j.row[row] == nil || row%int(phases) == int(Input) {
				continue
			}
			for s := range x {
				x[s] = j.least(row, j.from+s, role)
			}
			l, ok := j.risen(x)
			// Bursts of a rank that is alone in its role are that rank's own. Bursts of checkpoint and host
			// work (such as evaluation or generation between the phases) are intended; the goodput accounting
			// covers them.
			if p := Phase(row % int(phases)); ok && l.single != nil && (len(j.roles[role]) < 2 || p == Checkpoint || p == Host) {
				continue
			}
			if ok {
				l.role, l.row = role, row
				out = append(out, l)
			}
		}
	}
	return out
}

// least returns the minimum time of a kind of work over the ranks of a role.
func (j *job) least(row, s, role int) float64 {
	v := math.Inf(1)
	for _, r := range j.roles[role] {
		v = min(v, j.time(row, s, r))
	}
	return v
}
