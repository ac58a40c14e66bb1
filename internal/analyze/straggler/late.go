package straggler

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/student"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// A rank is late when its own work takes longer than that of the other ranks of its
// role, by more than chance explains. If no rank is late, the labels of the ranks say nothing:
// means of blocks of steps are taken, the labels are permuted within each block, and the search
// is repeated, for the largest mean of any rank and for the largest rise of any rank over some
// rounds. The work of ranks wanders, so that blocks last twice as long as the correlation of
// the noise (L of Politis and White for AR(1)). Few blocks are too short for that: the mean must
// also be beyond Student's quantile for as many degrees of freedom as there are independent
// values.
const (
	permutations = 5000

	leastPermutations = 1000
	leastBlocks       = 6
	mostBlocks        = 50
	lateShare         = 0.01 // of a step: less is nobody's concern
	stallShare        = 0.5  // of a step: an excess of one round that is a stall
	largeShare        = 0.05 // so much is believed of noise that is as correlated as it seems, without labels
	plainShare        = 0.25 // noise that wanders does not make so much of all steps
	steadyPart        = 0.9  // of the steps: who is late by so much in nearly all of them is late, however it varies
)

// levels are the chances below which a test holds: of the mean of all judged rounds, of what
// stalls add to it, and of a part of the run, which is chosen after looking.
type levels struct {
	mean, stall, part float64

	// doubt asks who may be late: also by what is too seldom for any test.
	doubt bool
}

var (
	beyondChance = levels{mean: 0.001, stall: 0.003, part: 0.0005}
	perhaps      = levels{mean: 0.05, stall: 0.05, part: 0.05, doubt: true}
)

// excess is own work less the median of the other ranks of the role, of the judged
// rounds, by rank. It is nil for a rank that is alone in its role.
func (j *job) excess() [][]float64 {
	if j.over != nil {
		return j.over
	}
	m := j.rounds()
	out := make([][]float64, len(j.ranks))
	for _, role := range j.roles {
		if len(role) < 2 {
			continue
		}
		for _, r := range role {
			out[r] = make([]float64, m)
		}
		x := make([]float64, len(role))
		for s := range m {
			for i, r := range role {
				x[i] = float64(j.own[j.stepIndex(j.from+s, r)])
			}
			slices.Sort(x)
			for _, r := range role {
				v := float64(j.own[j.stepIndex(j.from+s, r)])
				out[r][s] = v - medianWithout(x, v)
			}
		}
	}
	j.over = out
	return out
}

// medianWithout returns the median of x without one of its values. It is in order.
func medianWithout(x []float64, v float64) float64 {
	at := func(i int) float64 {
		if x[i] < v {
			return x[i]
		}
		return x[i+1]
	}
	n := len(x) - 1
	return (at((n-1)/2) + at(n/2)) / 2
}

// correlation is that of neighbours in x.
func correlation(x []float64) float64 {
	mean, before := stats.Mean(x), 0.0
	var a, b float64
	for _, v := range x {
		v -= mean
		a, b, before = a+v*v, b+v*before, v
	}
	if a == 0 {
		return 0
	}
	return b / a
}

// blockLength is twice the length over which n values with a correlation depend on
// each other, within bounds that leave enough blocks.
func blockLength(n int, rho float64, least int) int {
	l := 1.0
	if rho = min(rho, 0.99); rho > 0 {
		l = math.Ceil(math.Cbrt(float64(n)) * math.Pow(2*rho/(1-rho*rho), 2.0/3))
	}
	b := int(2 * l)
	return max(min(b, n/least), (n+mostBlocks-1)/mostBlocks, 1)
}

// noise is how series of the same length vary, as the excess of the ranks of a role.
type noise struct {
	rho float64   // correlation of neighbours
	sd  []float64 // of each series, from four on the median of the others: a fault of its own does not make it larger
	own []float64 // of each series itself
	df  float64   // degrees of freedom of a deviation

	block int // values in a row that depend on each other
}

func noiseOf(series [][]float64) noise {
	const (
		pool       = 4
		rhoErrors  = 1.5
		shortLevel = 5 // values of a level that is beyond doubt
		surely     = 2
	)
	n, m := len(series), len(series[0])
	out := noise{sd: make([]float64, n), own: make([]float64, n)}
	rhos := make([]float64, n)
	for i, x := range series {
		mean := stats.Mean(x)
		out.own[i], rhos[i] = deviation(level(x, 0, m, mean, 0), 1)
		// A stall is no level, and what wanders has levels by chance.
		from, to, in, rest, z := interval(x)
		if shorter := min(to-from, m-(to-from)); z <= changeErrors || shorter < shortSegment && (shorter < shortLevel || z <= surely*changeErrors) {
			continue
		}
		sd, rho := deviation(level(x, from, to, in, rest), 2)
		out.own[i] = sd
		if n < pool {
			rhos[i] = rho // more ranks have it from those that did not change
		}
	}
	copy(out.sd, out.own)
	// What is estimated of few values may be more.
	rho := stats.Median(rhos)
	out.block = blockLength(m, rho, leastBlocks)
	out.rho = min(rho+rhoErrors*math.Sqrt((1-rho*rho)/float64(m*max(n-1, 1))), 0.99)
	out.df = max(independent(m, out.rho)-1, 1)
	if n >= pool {
		out.df *= float64(n-1) / 2
		sorted := slices.Sorted(slices.Values(out.own))
		for i, v := range out.own {
			out.sd[i] = medianWithout(sorted, v)
		}
	}
	return out
}

// quantile returns how many standard errors are exceeded with probability p in any of so many tests.
func (n noise) quantile(p, tests float64) float64 {
	return student.Quantile(1-p/tests, n.df)
}

// mean returns the standard error of the mean of k values of the i-th series: as the others have
// it, and as it has it itself if that is more.
func (n noise) mean(i, k int) (others, own float64) {
	return n.errors(i, meanVariance(k, n.rho))
}

// difference returns those of the difference of the means of k values in a row and of the rest of m.
func (n noise) difference(i, k, m int) (others, own float64) {
	a, b := float64(k), float64(m-k)
	in, out := meanVariance(k, n.rho), meanVariance(m-k, n.rho)
	both := ((a+b)*(a+b)*meanVariance(m, n.rho) - a*a*in - b*b*out) / (2 * a * b)
	return n.errors(i, in+out-2*both)
}

func (n noise) errors(i int, variance float64) (others, own float64) {
	others = max(n.sd[i]*math.Sqrt(variance), 1)
	return others, max(n.own[i]*math.Sqrt(variance), others)
}

// independent is how many independent values say as much of a mean as n correlated ones.
func independent(n int, rho float64) float64 { return 1 / meanVariance(n, rho) }

// meanVariance is the variance of the mean of k values of AR(1) with a variance of 1.
func meanVariance(k int, rho float64) float64 {
	n := float64(k)
	return ((1+rho)/(1-rho) - 2*rho*(1-math.Pow(rho, n))/(n*(1-rho)*(1-rho))) / n
}

// deviation returns the standard deviation of x and the correlation of its neighbours, of which
// so many levels were taken. What follows a level less than it wanders seems to wander
// less (Kendall): both are corrected for that.
func deviation(x []float64, levels int) (sd, rho float64) {
	n := float64(len(x))
	rho = correlation(x)
	rho = min(max(rho+float64(levels*levels)*(1+4*max(rho, 0))/n, 0), 0.99)
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum / n / max(1-meanVariance(max(len(x)/levels, 1), rho), 0.1)), rho
}

// lateRank is a rank that is late, by how much in the mean, and how often labels that are
// drawn show as much; 0 where no chance is involved.
type lateRank struct {
	rank   int
	mean   float64
	chance float64
}

// late returns the ranks of a role that are late between two rounds.
func (j *job) late(e [][]float64, role []int, from, to int, lv levels) []lateRank {
	if len(role) < 2 || to-from < leastBlocks {
		return nil
	}
	out := j.lateInAll(e, role, from, to, lv)
	return append(out, j.lateInKind(e, role, out, from, to, lv)...)
}

// lateInKind returns the ranks of a role, besides those that are known, that are late in one
// kind of work, and in all together. The noise of one kind is less than that of all, so that a
// fault that several ranks share is seen where labels that are permuted say little. What a rank
// has more of one kind and less of another is the wait for others that no span shows.
func (j *job) lateInKind(e [][]float64, role []int, known []lateRank, from, to int, lv levels) (out []lateRank) {
	const (
		least = 4 // ranks: the median of the others is that of ranks without the fault
		times = 2 // the standard errors that one test takes
	)
	n := len(role)
	if n < least {
		return nil
	}
	late := make(map[int]bool)
	for _, l := range known {
		late[l.rank] = true
	}
	for row := range rows {
		if j.row[row] == nil {
			continue
		}
		levels := make([]float64, n)
		for i, r := range role {
			levels[i] = j.mean(row, r, j.from+from, j.from+to)
		}
		usual := stats.Median(slices.Clone(levels))
		var more []int
		for i, r := range role {
			if !late[r] && min(levels[i]-usual, stats.Mean(e[r][from:to])) >= lateShare*j.typical() {
				more = append(more, r)
			}
		}
		if len(more) == 0 {
			continue
		}
		if r := more[0]; len(more) == 1 && j.worksAlone(row, r, role, from, to) {
			late[r] = true
			out = append(out, lateRank{rank: r, mean: stats.Mean(e[r][from:to])})
			continue
		}
		others := j.without(slices.AppendSeq(slices.Clone(more), maps.Keys(late))).medians(row, j.roleOf[role[0]])
		for _, r := range more {
			x := make([]float64, to-from)
			for s := range x {
				x[s] = j.time(row, j.from+from+s, r) - others[from+s]
			}
			noise := noiseOf([][]float64{x})
			if se, _ := noise.mean(0, len(x)); stats.Mean(x) > times*noise.quantile(lv.mean, float64(n*rows))*se {
				late[r] = true
				out = append(out, lateRank{r, stats.Mean(x), lv.mean})
			}
		}
	}
	return out
}

// worksAlone reports whether only one rank of a role has recorded work of a kind, in several rounds:
// it has another task, as one that saves for all, and no chance is involved. Time in no span
// and waiting for data are no task.
func (j *job) worksAlone(row, rank int, role []int, from, to int) bool {
	const least = 3 // rounds
	if p := Phase(row % int(phases)); p == Host || p == Input {
		return false
	}
	n := 0
	for s := j.from + from; s < j.from+to; s++ {
		for _, r := range role {
			switch {
			case j.time(row, s, r) == 0:
			case r == rank:
				n++
			default:
				return false
			}
		}
	}
	return n >= least
}

// split divides the excess of ranks into what stalls have beyond others, and the rest.
func (j *job) split(e [][]float64, role []int, from, to int) (usual, stalls [][]float64) {
	most := stallShare * j.typical()
	for _, r := range role {
		u, st := make([]float64, to-from), make([]float64, to-from)
		for s, v := range e[r][from:to] {
			u[s], st[s] = min(v, most), max(v-most, 0)
		}
		usual, stalls = append(usual, u), append(stalls, st)
	}
	return usual, stalls
}

// lateInAll returns the ranks that are late in all work together: usually, or by rare stalls. A mean
// says little of stalls, so that only the labels of those who had them are asked.
func (j *job) lateInAll(e [][]float64, role []int, from, to int, lv levels) (out []lateRank) {
	usual, stalls := j.split(e, role, from, to)
	noise := noiseOf(usual)
	least, alone := noise.quantile(lv.mean, float64(len(role))), noise.quantile(lv.part, float64(len(role)))
	large := func(x []float64) float64 { // the mean, if that is large
		if mean := stats.Mean(x); mean >= lateShare*j.typical() {
			return mean
		}
		return 0
	}
	much := func(blocks [][]float64, most float64) []float64 {
		own := make([]float64, len(blocks))
		for i, x := range blocks {
			own[i] = large(x)
		}
		return chances(blocks, own, most, permutedMeans)
	}
	most, means := lv, blockMeans(usual, noise.block)
	untested := false
	if lv.doubt {
		most.mean, most.stall = 1, 1 // a doubt has its chance
		untested = untestable(len(role), len(means[0]), beyondChance.mean)
		if untestable(len(role), countStalls(stalls), beyondChance.stall) {
			lv.stall = 1
		}
	}
	p := much(means, most.mean)
	stalled := much(blockMeans(stalls, noiseOf(stalls).block), most.stall)
	level := make([]float64, len(role))
	for i, x := range usual {
		level[i] = stats.Mean(x)
	}
	sorted := slices.Sorted(slices.Values(level))
	for i, r := range role {
		own, mean := stats.Mean(e[r][from:to]), level[i]
		plain := own >= plainShare*j.typical()
		// The mean of what is skewed is above none on each rank.
		more := mean - max(medianWithout(sorted, level[i]), 0)
		errors, errorsAlone := noise.mean(i, to-from)
		chance := min(p[i], stalled[i])
		switch {
		case own < lateShare*j.typical():
		case plain && steady(e[r][from:to]), stalled[i] <= lv.stall && large(stalls[i]) > 0,
			mean >= largeShare*j.typical() && (untested || more > alone*errorsAlone), mean >= lateShare*j.typical() && (p[i] <= lv.mean && (plain || more > least*errors)):
			out = append(out, lateRank{r, own, chance})
		}
	}
	return out
}

// untestable reports whether labels of so many ranks that are permuted in so many places cannot show
// that a rank is late: if it were the same one in all of them, that would still be chance.
func untestable(ranks, places int, chance float64) bool {
	return math.Pow(float64(ranks), float64(1-places)) > chance
}

// countStalls is how many rounds of ranks have a stall.
func countStalls(stalls [][]float64) (n int) {
	for _, x := range stalls {
		for _, v := range x {
			if v > 0 {
				n++
			}
		}
	}
	return n
}

// latePart finds the part of the run in which ranks are late, by the rank of the role whose excess changes
// most; ok is false if none changes by more than chance explains.
func (j *job) latePart(e [][]float64, role []int, lv levels) (from, to int, errors float64) {
	m := j.rounds()
	if len(role) < 2 || m < leastBlocks {
		return 0, m, 0
	}
	series, _ := j.split(e, role, 0, m)
	noise := noiseOf(series)
	n := independent(m, noise.rho)
	least := noise.quantile(lv.part, float64(len(role))*max(n*n/2, 1))
	type part struct {
		from, to int
		others   float64 // standard errors, of the noise of the others
		own      float64
	}
	parts := make([]part, len(role))
	smoothed := make([][]float64, len(role)) // stalls, which are no level, end in the medians
	for i, x := range series {
		smoothed[i] = smooth(x)
		from, to, _, _, _ := interval(smoothed[i])
		if to-from < shortSegment || to-from == m {
			continue
		}
		in, out, _ := meansInAndOut(x, from, to)
		if min(in, in-out) <= lateShare*j.typical() {
			continue
		}
		others, own := noise.difference(i, to-from, m)
		if pt := (part{from, to, (in - out) / others, (in - out) / own}); pt.others > least {
			parts[i] = pt
		}
	}
	blocks, rises := blockMeans(smoothed, noise.block), make([]float64, len(role))
	for i, x := range blocks {
		if parts[i].others > 0 && parts[i].own <= least {
			rises[i] = largestRise(x)
		}
	}
	p := chances(blocks, rises, lv.part, permutedRises)
	to = m
	for i, pt := range parts {
		if pt.others > errors && (pt.own > least || p[i] <= lv.part) {
			from, to, errors = pt.from, pt.to, pt.others
		}
	}
	return from, to, errors
}

// blockMeans returns the means of blocks of so many values of series.
func blockMeans(series [][]float64, size int) [][]float64 {
	m := len(series[0])
	out := make([][]float64, len(series))
	for i, x := range series {
		out[i] = make([]float64, m/size)
		for b := range out[i] {
			end := (b + 1) * size
			if b == len(out[i])-1 {
				end = m // the last one takes what is left
			}
			out[i][b] = stats.Mean(x[b*size : end])
		}
	}
	return out
}

// chances returns for each series how often any of them has as large a statistic if their values
// are permuted among them, position by position; 1 where that is certain to be more often than most, or its
// own statistic is not above 0. prepare gets the values of each position.
func chances(series [][]float64, own []float64, most float64, prepare func(positions [][]float64) permuted) []float64 {
	n := len(series)
	p, hits := make([]float64, n), make([]int, n)
	open := 0
	for i := range p {
		p[i] = 1
		if own[i] > 0 {
			open++
		}
	}
	if open == 0 {
		return p
	}
	positions := make([][]float64, len(series[0]))
	for b := range positions {
		positions[b] = make([]float64, n)
		for i, x := range series {
			positions[b][i] = x[b]
		}
	}
	largest := prepare(positions)
	rng := rand.New(rand.NewPCG(uint64(n), uint64(len(positions))))
	draws := min(max(int(20/most), leastPermutations), permutations)
	for k := 0; k < draws && open > 0; k++ {
		least := math.Inf(1)
		for i, v := range own {
			if v > 0 && hits[i] >= 0 {
				least = min(least, v*(1-1e-9))
			}
		}
		found := largest(rng, least)
		for i := range own {
			if own[i] <= 0 || hits[i] < 0 || found < own[i]*(1-1e-9) {
				continue
			}
			if hits[i]++; float64(1+hits[i]) > most*float64(1+draws) {
				hits[i], open = -1, open-1
			}
		}
	}
	for i := range p {
		if own[i] > 0 && hits[i] >= 0 {
			p[i] = float64(1+hits[i]) / float64(1+draws)
		}
	}
	return p
}

// permuted returns the largest statistic of any series after the values of each position are
// permuted among them, or any lower value if it is less than least.
type permuted func(rng *rand.Rand, least float64) float64

// permutedMeans is for the mean of a series. Series that cannot reach the least mean any more are
// dropped position by position, and the positions with the largest values come first: few series
// are left after two or three of them, so that thousands of ranks cost little.
func permutedMeans(positions [][]float64) permuted {
	slices.SortStableFunc(positions, func(a, b []float64) int { return cmp.Compare(slices.Max(b), slices.Max(a)) })
	n, m := len(positions[0]), len(positions)
	rest := make([]float64, m+1) // the most that the positions from here on add
	for b := m - 1; b >= 0; b-- {
		rest[b] = rest[b+1] + slices.Max(positions[b])
	}
	sums := make([]float64, n)
	return func(rng *rand.Rand, least float64) float64 {
		left := append(sums[:0], positions[0]...) // which series has which of the first values is irrelevant
		for b := range positions {
			bound := least*float64(m) - rest[b+1]
			bound -= 1e-12 * math.Abs(bound)
			kept := 0
			for i, sum := range left {
				if b > 0 {
					o := i + rng.IntN(n-i)
					x := positions[b]
					x[i], x[o] = x[o], x[i]
					sum += x[i]
				}
				if sum >= bound {
					left[kept] = sum
					kept++
				}
			}
			if left = left[:kept]; kept == 0 {
				return math.Inf(-1)
			}
		}
		return slices.Max(left) / float64(m)
	}
}

// permutedRises is for the largest rise of a series, which is that of largestRise.
func permutedRises(positions [][]float64) permuted {
	n := len(positions[0])
	mean, sum, low, best := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	return func(rng *rand.Rand, _ float64) float64 {
		clear(mean)
		for _, x := range positions {
			for i := n - 1; i > 0; i-- {
				o := rng.IntN(i + 1)
				x[i], x[o] = x[o], x[i]
			}
			for i, v := range x {
				mean[i] += v
			}
		}
		for i := range mean {
			mean[i] /= float64(len(positions))
		}
		clear(sum)
		clear(low)
		clear(best)
		for _, x := range positions {
			for i, v := range x {
				sum[i] += v - mean[i]
				low[i], best[i] = min(low[i], sum[i]), max(best[i], sum[i]-low[i])
			}
		}
		return slices.Max(best)
	}
}

// largestRise is how far the cumulative sum of x, less its mean, rises between any two places.
func largestRise(x []float64) float64 {
	mean := stats.Mean(x)
	sum, low, best := 0.0, 0.0, 0.0
	for _, v := range x {
		sum += v - mean
		low, best = min(low, sum), max(best, sum-low)
	}
	return best
}

// steady reports whether a rank has an excess in nearly all rounds.
func steady(x []float64) bool {
	n := 0
	for _, v := range x {
		if v > 0 {
			n++
		}
	}
	return float64(n) >= steadyPart*float64(len(x))
}

// interval finds the rounds in which x lies highest above the rest, by the extremes of
// its cumulative sum.
func interval(x []float64) (from, to int, in, out, z float64) {
	mean := stats.Mean(x)
	sum, low, best := 0.0, 0.0, 0.0
	lowAt := 0
	for i, v := range x {
		if sum += v - mean; sum-low > best {
			best, from, to = sum-low, lowAt, i+1
		}
		if sum < low {
			low, lowAt = sum, i+1
		}
	}
	if to-from == 0 || to-from == len(x) {
		return 0, len(x), mean, mean, 0
	}
	in, out, z = meansInAndOut(x, from, to)
	return from, to, in, out, max(z, 0)
}

// change finds where the mean of x changes most, by the cumulative sum.
func change(x []float64, least int) (at int, before, after, z float64) {
	n := len(x)
	if n < 2*least {
		return 0, 0, 0, 0
	}
	mean := stats.Mean(x)
	sum, best := 0.0, -1.0
	for i := range n - 1 {
		sum += x[i] - mean
		if i+1 < least || n-i-1 < least {
			continue
		}
		a, b := float64(i+1), float64(n-i-1)
		if d := math.Abs(sum) * math.Sqrt(float64(n)/(a*b)); d > best {
			best, at = d, i+1
		}
	}
	after, before, z = meansInAndOut(x, at, n)
	return at, before, after, z
}

// meansInAndOut returns the mean of x in an interval and that of the rest; z is how far they lie
// apart in standard errors of series as correlated as x is.
func meansInAndOut(x []float64, from, to int) (in, out, z float64) {
	n, k := float64(len(x)), float64(to-from)
	in = stats.Mean(x[from:to])
	out = (stats.Mean(x)*n - in*k) / (n - k)
	if in == out {
		return in, out, 0
	}
	return in, out, (in - out) / (wander(level(x, from, to, in, out)) * math.Sqrt(1/k+1/(n-k)))
}

// level returns x without the mean of an interval, and without that of the rest.
func level(x []float64, from, to int, in, out float64) []float64 {
	rest := slices.Clone(x)
	for i := range rest {
		if i >= from && i < to {
			rest[i] -= in
		} else {
			rest[i] -= out
		}
	}
	return rest
}

// wander is the standard deviation that x, whose mean is none, would have for the mean of
// many values to lie as far from none if they were independent.
func wander(x []float64) float64 {
	rho := min(max(correlation(x), 0), 0.99)
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum / float64(max(len(x), 1)) * (1 + rho) / (1 - rho))
}

const (
	changeErrors = 6  // standard errors that a change of level of all must have
	changeLeast  = 10 // rounds on either side of it
)
