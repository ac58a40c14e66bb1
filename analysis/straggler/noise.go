package straggler

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/trainspan/trainspan/internal/robust"
)

// noise says how much the mean over n rounds of a healthy rank's excess wanders.
// Rounds are not independent: a rank that is warm now is warm in the next
// round, too, so that the mean of n rounds is worse than 1/√n suggests.
type noise struct {
	sd    float64
	z     float64   // how many standard errors a level needs to be none of chance
	means []float64 // variance of the mean of n rounds, by n
	apart []float64 // mean square of the difference of two rounds, by their distance
}

// lags of the structure function. They are powers of two, because correlation
// falls off smoothly.
var lags = [...]int{1, 2, 4, 8, 16, 32, 64}

// measureNoise estimates from the structure function of the series: the
// variance of x(s+k)-x(s) over k. Differences do not see levels, and their
// median does not see steps and spikes, so that faults do not count as noise.
// scale is the variance of what is judged over that of one series.
func measureNoise(series [][]float64, m int, scale float64) *noise {
	return measureLags(series, m, scale, lags[:])
}

// splitNoise is the noise by which one series is split, which has no peers. A
// change of its level is in every fourth of the differences of long lags, so
// that only short ones are used; what wanders slowly is then split, too, and
// must be told from a fault afterwards, by changeNoise.
func splitNoise(x []float64) *noise {
	return measureLags([][]float64{x}, len(x), 1, lags[:4])
}

// changeNoise is the noise of one series besides a change in [from, to).
func changeNoise(x []float64, from, to int) *noise {
	rest := slices.Clone(x)
	withoutChange(rest, from, to)
	return measureNoise([][]float64{rest}, len(x), 1)
}

// withoutChange takes the levels before, in and after [from, to) out of x, and
// gives the three parts the noise of the loudest: what takes longer varies more,
// and with a quiet part beside a loud one far rounds differ more than
// neighbours do, which would look like correlation.
func withoutChange(x []float64, from, to int) {
	parts := [][]float64{x[:from], x[from:to], x[to:]}
	var sds [3]float64
	for i, part := range parts {
		level := levelOf(part)
		for s := range part {
			part[s] -= level
		}
		sds[i] = neighbourSD(part)
	}
	loudest := slices.Max(sds[:])
	for i, part := range parts {
		// A part too short to have a deviation of its own keeps what it has.
		if sds[i] > 0 && len(part) >= minSegment {
			for s := range part {
				part[s] *= loudest / sds[i]
			}
		}
	}
}

// neighbourSD is the deviation of x by the differences of neighbours, 0 where
// there are none.
func neighbourSD(x []float64) float64 {
	var buf []float64
	for s := 1; s < len(x); s++ {
		if d := x[s] - x[s-1]; d == d {
			buf = append(buf, math.Abs(d))
		}
	}
	if len(buf) == 0 {
		return 0
	}
	return robust.Sigma * robust.Median(buf) / math.Sqrt2
}

// fewRanks is how many ranks of a role are too few for a fault of one of them to
// be lost among the differences of neighbours.
const fewRanks = 4

// rankNoise is the noise of the ranks of a role. Where they are few, it is for
// splitting only, as splitNoise.
func rankNoise(x matrix, ranks []int) *noise {
	use := lags[:]
	if len(ranks) <= fewRanks {
		use = lags[:4]
	}
	return measureLags(pairs(x, [][]int{ranks}), x.m, pairScale(len(ranks)), use)
}

// withoutFault is the noise of few ranks besides a fault of one in [from, to),
// which rises slowly where up has a height.
func withoutFault(x matrix, ranks []int, r, from, to int, up ramp) *noise {
	series := pairs(x, [][]int{ranks})
	for i, d := range series {
		sign := 0.0
		switch r {
		case ranks[i]:
			sign = -1
		case ranks[i+1]:
			sign = 1
		default:
			continue
		}
		for s := range d[:to] {
			d[s] -= sign * up.by * up.at(s)
		}
		withoutChange(d, from, to)
	}
	return measureNoise(series, x.m, pairScale(len(ranks)))
}

// pairScale is the variance of the excess of a rank over that of the difference
// of two: the excess has the noise of the rank and that of the reference, a
// median of all; of two ranks all of the other's.
func pairScale(ranks int) float64 {
	if ranks == 2 {
		return 1
	}
	return 0.5 * (1 + math.Pi/2/float64(ranks))
}

func measureLags(series [][]float64, m int, scale float64, lags []int) *noise {
	if m == 0 {
		return &noise{z: evidenceZ, means: []float64{0}}
	}
	// Differences of lags up to a quarter of the run come from at least three
	// independent stretches of it.
	var v []float64 // half the variance of the difference, by lag
	var ks []int
	var buf []float64
	for _, k := range lags {
		if k > 1 && k > m/4 {
			break
		}
		buf = buf[:0]
		// 40,000 differences put the error of a variance below 1 %.
		stride := max(1, len(series)*m/40_000)
		for i, x := range series {
			for s := i % stride; s+k < len(x); s += stride {
				if d := x[s+k] - x[s]; d == d {
					buf = append(buf, math.Abs(d))
				}
			}
		}
		sd := robust.Sigma * robust.Median(buf)
		if math.IsNaN(sd) {
			sd = 0
		}
		v, ks = append(v, sd*sd/2), append(ks, k)
	}
	var sill float64 // of uncorrelated rounds
	for _, x := range v {
		sill = max(sill, x)
	}
	// Autocovariance by lag, linear between the lags measured, 0 behind them.
	cov := make([]float64, m+1)
	cov[0] = sill
	for i, k := range ks {
		prevK, prevC := 0, sill
		if i > 0 {
			prevK, prevC = ks[i-1], max(sill-v[i-1], 0)
		}
		c := max(sill-v[i], 0)
		for j := prevK + 1; j <= k && j <= m; j++ {
			cov[j] = prevC + (c-prevC)*float64(j-prevK)/float64(k-prevK)
		}
	}
	out := &noise{sd: math.Sqrt(sill * scale), means: make([]float64, m+1), apart: make([]float64, 2*sideRounds)}
	for i, prev, at := 0, 0.0, 0; i < len(ks); i++ {
		for k := at + 1; k <= ks[i] && k < len(out.apart); k++ {
			from := prev
			if i == 0 {
				from = v[0]
			}
			out.apart[k] = 2 * scale * (from + (v[i]-from)*float64(k-at)/float64(ks[i]-at))
		}
		prev, at = v[i], ks[i]
		for k := at + 1; k < len(out.apart); k++ {
			out.apart[k] = 2 * scale * sill
		}
	}
	// var(mean of n) = (c0 + 2 Σ (1-k/n) c_k) / n, by running sums.
	var sum, weighted float64
	for n := 1; n <= m; n++ {
		if n > 1 {
			sum += cov[n-1]
			weighted += float64(n-1) * cov[n-1]
		}
		out.means[n] = scale * (sill + 2*(sum-weighted/float64(n))) / float64(n)
	}
	// The deviation itself is an estimate, from as many independent values as
	// there are stretches of correlated rounds in all series. Few of them, as
	// of two ranks, need more evidence.
	free := 1.0
	if out.means[m] > 0 {
		free = max(1, float64(len(series))*scale*sill/out.means[m])
	}
	out.z = distuv.StudentsT{Sigma: 1, Nu: free}.Quantile(1 - chance)
	return out
}

// chance is the probability that a level of a healthy rank counts as evidence.
// With a thousand ranks and ten places for an interval, one in a hundred runs
// has one; it must be large and costly as well to be reported.
const chance = 1e-6

// mean gives the standard deviation of the mean of n rounds.
func (ns *noise) mean(n int) float64 {
	n = min(max(n, 1), len(ns.means)-1)
	if n < 1 {
		return 0
	}
	return math.Sqrt(max(ns.means[n], 0))
}

// sideRounds is how many rounds on either side of a sudden change are compared:
// twice the shortest level.
const sideRounds = 2 * minSegment

// sudden is how many deviations the rounds after a change must lie from those
// before it. Six would be one chance in a thousand million; what is left is for
// the deviation, which is an estimate.
const sudden = 7

// jumps says whether x rises at a round by more than noise does at once. Noise
// that wanders does so slowly, so that a sudden change is evidence where the
// level itself is none.
func (ns *noise) jumps(x []float64, at int) bool {
	n := min(sideRounds, at, len(x)-at)
	if n < minSegment || len(ns.apart) == 0 {
		return false
	}
	// The variance of the difference of two means side by side, from the mean
	// squares of the differences of rounds alone.
	var v float64
	for i := range n {
		for j := range n {
			v += ns.apart[n+j-i] - ns.apart[max(i-j, j-i)]
		}
	}
	sd := math.Sqrt(max(v, 0)) / float64(n)
	sm := smooth(x) // spikes are none of the level
	return (sum(sm[at:at+n])-sum(sm[at-n:at]))/float64(n) > sudden*sd && sd > 0
}

// pairs gives the differences of neighbours among comparable ranks: what all
// ranks share falls out, and a rank with a fault is in two of them only.
func pairs(x matrix, roles [][]int) [][]float64 {
	var out [][]float64
	for _, ranks := range roles {
		for i := 1; i < len(ranks); i++ {
			a, b := x.row(ranks[i-1]), x.row(ranks[i])
			d := make([]float64, len(a))
			for s := range a {
				d[s] = float64(b[s]) - float64(a[s])
			}
			out = append(out, d)
			// 256 pairs are more than the estimate needs.
			if len(out) == 256 {
				return out
			}
		}
	}
	return out
}

// segment is a stretch of rounds [from, to) with one level.
type segment struct {
	from, to int
	level    float64
}

// minSegment is the shortest stretch that has a level: with fewer rounds, a
// couple of spikes would be one.
const minSegment = 8

// segments splits a series where its level changes by more than step and
// by more than 4 standard errors of what noise explains. A split is no finding:
// what is reported must pass stricter rules. NaNs are left out.
func segments(x []float64, ns *noise, step float64) []segment {
	sm := smooth(x)
	sum := make([]float64, len(sm)+1)
	for i, v := range sm {
		sum[i+1] = sum[i] + v
	}
	var out []segment
	var split func(lo, hi, depth int)
	split = func(lo, hi, depth int) {
		best, at := 0.0, -1
		if depth > 0 {
			for c := lo + minSegment; c <= hi-minSegment; c++ {
				left := (sum[c] - sum[lo]) / float64(c-lo)
				right := (sum[hi] - sum[c]) / float64(hi-c)
				d := math.Abs(right - left)
				if d < step {
					continue
				}
				se := math.Sqrt(ns.means[c-lo] + ns.means[hi-c])
				if z := d / max(se, 1e-9); z > 4 && z > best {
					best, at = z, c
				}
			}
		}
		if at < 0 {
			out = append(out, segment{lo, hi, levelOf(x[lo:hi])})
			return
		}
		split(lo, at, depth-1)
		split(at, hi, depth-1)
	}
	// Four levels allow three faults that come and go.
	split(0, len(x), 4)
	return out
}

// smooth is the running median of five: it takes spikes out and leaves edges
// where they are. NaN takes the value before it.
func smooth(x []float64) []float64 {
	out := make([]float64, len(x))
	var w [5]float64
	last := levelOf(x)
	if math.IsNaN(last) {
		last = 0
	}
	for i := range x {
		k := 0
		for j := max(0, i-2); j <= min(len(x)-1, i+2); j++ {
			if v := x[j]; v == v {
				w[k] = v
				k++
			}
		}
		if k > 0 {
			last = robust.Median(w[:k])
		}
		out[i] = last
	}
	return out
}

// levelOf gives the median of the values that are there.
func levelOf(x []float64) float64 {
	return robust.Median(slices.DeleteFunc(slices.Clone(x), math.IsNaN))
}
