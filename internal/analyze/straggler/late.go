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

// A rank is late if its compute time exceeds that of the other ranks of its role by more than chance
// explains. Under the null hypothesis that no rank is late, the labels of the ranks are exchangeable: the
// search takes means of blocks of steps, permutes the labels within each block, and compares the largest mean
// of any rank and the largest rise of any rank over some rounds. Compute times are autocorrelated, so blocks
// last twice the correlation length of the noise (L of Politis and White for AR(1)). With few blocks that is
// too short: the mean must also exceed Student's quantile for as many degrees of freedom as there are
// independent values.
const (
	permutations = 5000

	leastPermutations = 1000
	leastBlocks       = 6
	mostBlocks        = 50
	lateShare         = 0.01 // of a step: least excess
	stallShare        = 0.5  // of a step: an excess of one round above this is a stall
	largeShare        = 0.05 // of a step: with this excess the noise estimate suffices, without permuted labels
	plainShare        = 0.25 // of a step: autocorrelated noise does not reach this mean
	steadyPart        = 0.9  // of the steps: a rank with an excess in this fraction of steps is late, however the excess varies
)

// levels are significance levels: for the mean of all judged rounds, for the contribution of stalls, and for
// a part of the run, which is selected after looking at the data.
type levels struct {
	mean, stall, part float64

	// doubt also accepts ranks that may be late but occur too rarely for any test.
	doubt bool
}

var (
	beyondChance = levels{mean: 0.001, stall: 0.003, part: 0.0005}
	perhaps      = levels{mean: 0.05, stall: 0.05, part: 0.05, doubt: true}
)

// excess returns, by rank and judged round, compute time minus the median of the other ranks of the role. It
// is nil for a rank that is alone in its role. The result is cached.
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

// medianWithout returns the median of sorted x without one value equal to v.
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

// correlation returns the lag-1 autocorrelation of x, or 0 if x is constant.
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

// blockLength returns twice the length over which n values with autocorrelation rho depend on each other,
// limited so that least to mostBlocks blocks remain.
func blockLength(n int, rho float64, least int) int {
	l := 1.0
	if rho = min(rho, 0.99); rho > 0 {
		l = math.Ceil(math.Cbrt(float64(n)) * math.Pow(2*rho/(1-rho*rho), 2.0/3))
	}
	b := int(2 * l)
	return max(min(b, n/least), (n+mostBlocks-1)/mostBlocks, 1)
}

// noise describes the variation of several series of the same length, such as the excess of the ranks of a
// role.
type noise struct {
	rho float64   // lag-1 autocorrelation
	sd  []float64 // standard deviation by series; with four or more series the median of the others, so that a fault does not inflate its own threshold
	own []float64 // standard deviation of each series itself
	df  float64   // degrees of freedom of the standard deviation

	block int // length of a block of dependent values
}

func noiseOf(series [][]float64) noise {
	const (
		pool       = 4
		rhoErrors  = 1.5
		shortLevel = 5 // values of a level shift that is certain
		surely     = 2
	)
	n, m := len(series), len(series[0])
	out := noise{sd: make([]float64, n), own: make([]float64, n)}
	rhos := make([]float64, n)
	for i, x := range series {
		mean := stats.Mean(x)
		out.own[i], rhos[i] = deviation(level(x, 0, m, mean, 0), 1)
		// A stall is not a level shift, and an autocorrelated series shifts by chance.
		from, to, in, rest, z := interval(x)
		if shorter := min(to-from, m-(to-from)); z <= changeErrors || shorter < shortSegment && (shorter < shortLevel || z <= surely*changeErrors) {
			continue
		}
		sd, rho := deviation(level(x, from, to, in, rest), 2)
		out.own[i] = sd
		if n < pool {
			rhos[i] = rho // with more ranks, the unchanged ones provide the estimate
		}
	}
	copy(out.sd, out.own)
	// An estimate from few values may be too low, so use its upper bound.
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

// quantile returns the number of standard errors that any of the given number of tests exceeds with
// probability p.
func (n noise) quantile(p, tests float64) float64 {
	return student.Quantile(1-p/tests, n.df)
}

// mean returns the standard error of the mean of k values of the i-th series: with the deviation of the other
// series, and with its own if that is larger.
func (n noise) mean(i, k int) (others, own float64) {
	return n.errors(i, meanVariance(k, n.rho))
}

// difference returns the standard errors, as mean does, of the difference between the mean of k
// consecutive values and the mean of the rest of m.
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

// independent returns the effective sample size of n values with autocorrelation rho.
func independent(n int, rho float64) float64 { return 1 / meanVariance(n, rho) }

// meanVariance returns the variance of the mean of k values of an AR(1) series with variance 1.
func meanVariance(k int, rho float64) float64 {
	n := float64(k)
	return ((1+rho)/(1-rho) - 2*rho*(1-math.Pow(rho, n))/(n*(1-rho)*(1-rho))) / n
}

// deviation returns the standard deviation and the lag-1 autocorrelation of x, from which the given number of
// level means was subtracted. Subtracting fitted levels biases both downwards (Kendall); the results are
// corrected for it.
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

// lateRank is a late rank, its mean excess, and the probability that permuted labels show as much; 0 if no
// test was needed.
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

// lateInKind returns the ranks of a role, besides the known ones, that are late in one kind of work and also
// in total. One kind has less noise than the total, so a fault that several ranks share is visible where
// permuted labels lack power. A rank with more of one kind but not in total only waits for others without a
// span.
func (j *job) lateInKind(e [][]float64, role []int, known []lateRank, from, to int, lv levels) (out []lateRank) {
	const (
		least = 4 // ranks: the median of the others must come from ranks without the fault
		times = 2 // multiple of the quantile of a single test
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

// worksAlone reports whether only one rank of a role recorded a kind of work, in several rounds. Such a rank
// has another task, for example saving for all ranks, so no test is needed. Time in no span and waiting for
// data do not count as tasks.
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

// split divides the excess of ranks into the part up to the stall threshold and the part above it.
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

// lateInAll returns the ranks that are late in total compute time, either usually or by rare stalls. A mean
// has little power for stalls, so only permuted labels test them.
func (j *job) lateInAll(e [][]float64, role []int, from, to int, lv levels) (out []lateRank) {
	usual, stalls := j.split(e, role, from, to)
	noise := noiseOf(usual)
	least, alone := noise.quantile(lv.mean, float64(len(role))), noise.quantile(lv.part, float64(len(role)))
	large := func(x []float64) float64 { // the mean, or 0 if it is small
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
		most.mean, most.stall = 1, 1 // a doubt reports its own chance
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
		// The mean of a skewed series is above 0 on every rank, so subtract the median of the others.
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

// untestable reports whether labels permuted over the given ranks and places cannot be significant: even the
// same rank in all places has a higher probability than chance.
func untestable(ranks, places int, chance float64) bool {
	return math.Pow(float64(ranks), float64(1-places)) > chance
}

// countStalls returns the number of rank-rounds with a stall.
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

// latePart returns the part of the run in which a rank of the role is late, chosen by the rank whose excess
// changes most, with that change in standard errors. If no change exceeds chance, it returns the whole run
// and 0 errors.
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
	smoothed := make([][]float64, len(role)) // running medians, which remove stalls
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

// blockMeans returns the means of consecutive blocks of size values of each series.
func blockMeans(series [][]float64, size int) [][]float64 {
	m := len(series[0])
	out := make([][]float64, len(series))
	for i, x := range series {
		out[i] = make([]float64, m/size)
		for b := range out[i] {
			end := (b + 1) * size
			if b == len(out[i])-1 {
				end = m // the last block takes the remainder
			}
			out[i][b] = stats.Mean(x[b*size : end])
		}
	}
	return out
}

// chances returns for each series the probability that any series has at least its statistic if values are
// permuted among the series at each position. The result is 1 if the probability certainly exceeds most, or
// if the statistic is not positive. prepare receives the values of each position.
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

// permuted permutes the values of each position among the series and returns the largest statistic of any
// series. If that is less than least, it may return any lower value.
type permuted func(rng *rand.Rand, least float64) float64

// permutedMeans tests the mean of a series. It drops series that cannot reach the least mean any more,
// position by position, starting with the positions of the largest values. Few series remain after two or
// three positions, so thousands of ranks are cheap.
func permutedMeans(positions [][]float64) permuted {
	slices.SortStableFunc(positions, func(a, b []float64) int { return cmp.Compare(slices.Max(b), slices.Max(a)) })
	n, m := len(positions[0]), len(positions)
	rest := make([]float64, m+1) // the most that the positions from here on can add
	for b := m - 1; b >= 0; b-- {
		rest[b] = rest[b+1] + slices.Max(positions[b])
	}
	sums := make([]float64, n)
	return func(rng *rand.Rand, least float64) float64 {
		left := append(sums[:0], positions[0]...) // the first position needs no permutation
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

// permutedRises tests the largest rise of a series, as largestRise defines it.
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

// largestRise returns the largest rise, between any two positions, of the cumulative sum of x minus its mean.
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

// interval returns the rounds in which x is highest above the rest, found by the extremes of its cumulative
// sum, with the means inside and outside and their difference in standard errors.
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

// change returns the position at which the mean of x changes most, found by the cumulative sum, with the
// means before and after and their difference in standard errors. Both sides have at least least values.
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

// meansInAndOut returns the mean of x inside and outside an interval. z is their difference in standard
// errors, corrected for the autocorrelation of x.
func meansInAndOut(x []float64, from, to int) (in, out, z float64) {
	n, k := float64(len(x)), float64(to-from)
	in = stats.Mean(x[from:to])
	out = (stats.Mean(x)*n - in*k) / (n - k)
	if in == out {
		return in, out, 0
	}
	return in, out, (in - out) / (wander(level(x, from, to, in, out)) * math.Sqrt(1/k+1/(n-k)))
}

// level returns x with in subtracted inside the interval and out subtracted outside it.
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

// wander returns the standard deviation of zero-mean x, inflated for its autocorrelation, so that the mean of
// n values has a standard error of wander/sqrt(n).
func wander(x []float64) float64 {
	rho := min(max(correlation(x), 0), 0.99)
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum / float64(max(len(x), 1)) * (1 + rho) / (1 - rho))
}

const (
	changeErrors = 6  // least standard errors of a level change that all ranks share
	changeLeast  = 10 // least rounds on either side of it
)
