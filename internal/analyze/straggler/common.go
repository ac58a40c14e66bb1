package straggler

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// What all ranks lose is looked for in series that they share: the times of a transfer, and
// the least work of a kind over the ranks of a role. A series may be on another level for some
// rounds, or grow. Its noise wanders, so that only what is far beyond it counts.
const (
	episodeErrors = 7  // standard errors of the level of some rounds, or of a slope
	episodeLeast  = 8  // rounds
	smoothOver    = 5  // rounds: what lasts for fewer than half of them is no level
	growthKnots   = 8  // parts of a series at whose ends it may begin or cease to grow
	growthLeast   = 30 // rounds
)

// rise is what took longer for all ranks of a role for some rounds.
type rise struct {
	role, row     int
	at, end       int // rounds
	before, after float64
	grown         int // the round in which after is reached; at where it is from the first on
}

// factor brings work of a round back to the level that it had.
func (l rise) factor(s int) float64 {
	if s < l.at || s >= l.end || l.after <= 0 {
		return 1
	}
	level := l.after
	if s < l.grown {
		level = l.before + (l.after-l.before)*float64(s-l.at)/float64(l.grown-l.at)
	}
	return l.before / level
}

// risen finds the rounds in which x, of the judged rounds, takes longer: from one on, between
// two, or more and more.
func (j *job) risen(x []float64) (rise, bool) {
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

// rest is the sum of squares that a rise does not explain of x.
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

// window finds the rounds between which x is on a higher level than before them. What is
// high from the start on and falls later is not a loss: what follows may take its time.
func window(x []float64) (l rise, z float64, ok bool) {
	from, to, _, _, z := interval(smooth(x))
	if to-from < episodeLeast || from < episodeLeast {
		return rise{}, 0, false
	}
	in, out, raw := meansInAndOut(x, from, to)
	return rise{at: from, end: to, grown: from, before: out, after: in}, min(z, raw), true
}

// growth finds the rounds over which x grows evenly, from a level to another one.
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
	for s := range x {
		out[s] = stats.Median(slices.Clone(x[max(0, s-smoothOver/2):min(len(x), s+smoothOver/2+1)]))
	}
	return out
}

// levels finds the kinds of work that take longer for all ranks of a role in some rounds.
func (j *job) levels() (out []rise) {
	x := make([]float64, j.rounds())
	for role := range j.roles {
		for row := range rows {
			// Input has an answer of its own: what it costs in all, not since when.
			if j.row[row] == nil || row%int(phases) == int(Input) {
				continue
			}
			for s := range x {
				x[s] = j.least(row, j.from+s, role)
			}
			if l, ok := j.risen(x); ok {
				l.role, l.row = role, row
				out = append(out, l)
			}
		}
	}
	return out
}

// least is the least time of a kind of work over the ranks of a role.
func (j *job) least(row, s, role int) float64 {
	v := math.Inf(1)
	for _, r := range j.roles[role] {
		v = min(v, j.time(row, s, r))
	}
	return v
}
