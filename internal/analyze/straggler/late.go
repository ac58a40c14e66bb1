package straggler

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// A rank is late when its own work takes longer than that of the other ranks of its
// role, by more than chance explains. The work of ranks wanders, so that steps are no
// independent observations: means of blocks of steps are taken, the labels of the
// ranks are permuted within each block, and what counts is how often the largest mean
// of any rank is as large. Blocks last twice as long as the correlation of the noise
// (L of Politis and White for AR(1)).
const (
	permutations = 1000
	leastBlocks  = 6
	mostBlocks   = 50
	lateShare    = 0.01 // of a step: less is nobody's concern
	lateChance   = 0.005
	wanderChance = 0.001
	largeShare   = 0.05 // so much is believed on weaker evidence: of three checkpoints, say
	largeChance  = 0.05
	plainShare   = 0.25 // noise that wanders does not make so much of all steps
	stallShare   = 0.5  // of a step: an excess of one round that is a stall
	steadyPart   = 0.9  // of the steps: who is late by so much in nearly all of them is late, however it varies
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

// chance is how far the mean of x lies from none by chance alone, in one standard
// deviation, when its neighbours are as correlated as they are; short says that blocks of
// so many values are too short to be independent.
func chance(x []float64, size int) (se float64, short bool) {
	from, to, in, out, z := interval(x)
	if z <= changeErrors {
		from, to, in, out = 0, len(x), stats.Mean(x), 0
	}
	rest := level(x, from, to, in, out)
	return wander(rest) / math.Sqrt(float64(len(x))), size < blockLength(len(x), correlation(rest), 1)
}

// lateRank is a rank that is late, and by how much in the mean.
type lateRank struct {
	rank int
	mean float64
}

// late returns the ranks of a role that are late between two rounds, of so many tests.
func (j *job) late(e [][]float64, role []int, from, to, tests int) []lateRank {
	out := j.lateInAll(e, role, from, to, tests)
	out = append(out, j.lateInKind(e, role, out, from, to)...)
	return j.withoutChanceStalls(e, role, out, from, to)
}

// withoutChanceStalls drops the ranks whose excess consists of rare stalls, and chance may have
// given these ranks as many of the stalls of the role. A mean says little of
// rare stalls, so they are counted.
func (j *job) withoutChanceStalls(e [][]float64, role []int, late []lateRank, from, to int) []lateRank {
	if len(late) == 0 {
		return late
	}
	counts := make(map[int]int, len(role))
	rounds := make(map[int]bool) // with a stall
	total := 0
	for _, r := range role {
		for s, v := range e[r][from:to] {
			if v >= stallShare*j.typical() {
				counts[r]++
				total++
				rounds[s] = true
			}
		}
	}
	stalls := func(l lateRank) bool {
		rest := 0.0
		for _, v := range e[l.rank][from:to] {
			if v < stallShare*j.typical() {
				rest += v
			}
		}
		n := counts[l.rank]
		return n > 0 && n < (to-from)/4 && rest < lateShare*j.typical()*float64(to-from)
	}
	k, theirs := 0, 0
	for _, l := range late {
		if stalls(l) {
			k, theirs = k+1, theirs+counts[l.rank]
		}
	}
	// Stalls of the same ranks in the same rounds, as of checkpoints, are not drawn one by one.
	together := theirs == total && k*len(rounds) == total
	if k == 0 || together || stallChance(total, len(role), k, theirs) < lateChance {
		return late
	}
	return slices.DeleteFunc(late, stalls)
}

// stallChance returns how often the k ranks with the most of so many stalls have at least
// theirs, if each stall hits any of n ranks alike.
func stallChance(total, n, k, theirs int) float64 {
	const draws = 4000
	rng := rand.New(rand.NewPCG(uint64(n), uint64(total)))
	counts, hits := make([]int, n), 0
	for range draws {
		clear(counts)
		for range total {
			counts[rng.IntN(n)]++
		}
		slices.Sort(counts)
		sum := 0
		for _, c := range counts[n-k:] {
			sum += c
		}
		if sum >= theirs {
			hits++
		}
	}
	return float64(1+hits) / float64(1+draws)
}

// lateInKind returns the ranks of a role, besides those that are known, that are late in one
// kind of work, and in all together. The noise of one kind is less than that of all, so that a
// fault that several ranks share is seen where labels that are permuted say little. What a rank
// has more of one kind and less of another is the wait for others that no span shows.
func (j *job) lateInKind(e [][]float64, role []int, known []lateRank, from, to int) (out []lateRank) {
	const least = 4 // ranks: the median of the others is that of ranks without the fault
	n := len(role)
	if n < least {
		return nil
	}
	errors := 2 * math.Sqrt(2*math.Log(float64(n*rows)/wanderChance))
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
		others := j.without(slices.AppendSeq(slices.Clone(more), maps.Keys(late))).medians(row, j.roleOf[role[0]])
		x := make([]float64, to-from)
		for _, r := range more {
			for s := range x {
				x[s] = j.time(row, j.from+from+s, r) - others[from+s]
			}
			if se, _ := chance(x, len(x)); stats.Mean(x) > errors*se {
				late[r] = true
				out = append(out, lateRank{r, stats.Mean(x)})
			}
		}
	}
	return out
}

// lateInAll returns the ranks that are late in all work together.
func (j *job) lateInAll(e [][]float64, role []int, from, to, tests int) (out []lateRank) {
	n, m := len(role), to-from
	if n < 2 || m < leastBlocks {
		return nil
	}
	var rhos []float64
	for _, r := range role {
		rhos = append(rhos, correlation(e[r][from:to]))
	}
	size := blockLength(m, stats.Median(rhos), leastBlocks)
	blocks := m / size
	means := make([]float64, n*blocks)
	own := make([]float64, n)
	for i, r := range role {
		for b := range blocks {
			// The last one takes what is left.
			end := from + (b+1)*size
			if b == blocks-1 {
				end = to
			}
			means[b*n+i] = stats.Mean(e[r][from+b*size : end])
			own[i] += means[b*n+i] / float64(blocks)
		}
	}
	typical := j.typical()
	if slices.Max(own) < lateShare*typical {
		return nil
	}
	rng := rand.New(rand.NewPCG(uint64(n), uint64(blocks)))
	largest := make([]float64, permutations)
	sum := make([]float64, n)
	for k := range largest {
		clear(sum)
		for b := range blocks {
			row := means[b*n : (b+1)*n]
			rng.Shuffle(n, func(x, y int) { row[x], row[y] = row[y], row[x] })
			for i, v := range row {
				sum[i] += v
			}
		}
		largest[k] = slices.Max(sum) / float64(blocks)
	}
	slices.Sort(largest)
	// What the largest of the ranks has by chance: as the noise of the others says,
	// which a fault of its own does not make larger.
	ses, shorts := make([]float64, n), make([]bool, n)
	for i, r := range role {
		ses[i], shorts[i] = chance(e[r][from:to], size)
	}
	errors := math.Sqrt(2 * math.Log(float64(n)/wanderChance))
	for i, r := range role {
		k, _ := slices.BinarySearch(largest, own[i]*(1-1e-9))
		p := float64(1+len(largest)-k) / float64(1+len(largest)) * float64(tests)
		se, short := ses[i], shorts[i]
		if n >= 4 {
			se = stats.Median(slices.Delete(slices.Clone(ses), i, i+1))
		}
		t := own[i] / max(se, 1)
		switch {
		case own[i] >= plainShare*typical && steady(e[r][from:to]):
			out = append(out, lateRank{r, own[i]})
		case own[i] < plainShare*typical && short && t < errors:
			continue
		case own[i] >= lateShare*typical && p <= lateChance, own[i] >= largeShare*typical && (p <= largeChance || t > 2*errors):
			out = append(out, lateRank{r, own[i]})
		}
	}
	return out
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
