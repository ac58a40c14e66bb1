package compare

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trainspan/trainspan/internal/robust"
)

// resamples gives 0.5 and 99.5 % quantiles with five values beyond each at the
// least; 2,000 make two runs of the comparison agree to a tenth of a percent.
const resamples = 2000

// blockLength is how many neighbouring steps are drawn together: as many as are
// correlated (Politis and White 2004, for an AR(1) process), at least 4, and at
// most a fifth of the run, so that there is something to draw from.
func blockLength(x []float64) int {
	m := len(x)
	rho := min(max(autocorrelation(x), 0), 0.99)
	l := math.Ceil(math.Cbrt(float64(m)) * math.Pow(2*rho/(1-rho*rho), 2.0/3))
	return min(max(4, int(l)), max(m/5, 1))
}

// autocorrelation gives the lag-1 autocorrelation of x around its median, with
// values beyond four deviations clipped: a pause says nothing about neighbours.
func autocorrelation(x []float64) float64 {
	mid := robust.Median(slices.Clone(x))
	limit := 4 * robust.Sigma * robust.MAD(slices.Clone(x))
	clip := func(v float64) float64 { return min(max(v-mid, -limit), limit) }
	var c0, c1 float64
	for i, v := range x {
		d := clip(v)
		c0 += d * d
		if i > 0 {
			c1 += d * clip(x[i-1])
		}
	}
	if c0 == 0 {
		return 0
	}
	return c1 / c0
}

// resampler draws blocks of a series and gives median and mean of each draw.
type resampler struct {
	x      []float64
	rank   []int32   // of each value in sorted
	sorted []float64 //
	count  []int32
	block  int
	rng    *rand.Rand
}

func newResampler(x []float64, rng *rand.Rand) *resampler {
	r := &resampler{x: x, block: blockLength(x), rng: rng, rank: make([]int32, len(x)), count: make([]int32, len(x))}
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(x[i], x[j]) })
	r.sorted = make([]float64, len(x))
	for k, i := range order {
		r.rank[i] = int32(k)
		r.sorted[k] = x[i]
	}
	return r
}

// draw counts how often each rank was drawn, so that no draw must be sorted.
func (r *resampler) draw() (median, mean float64) {
	m := len(r.x)
	clear(r.count)
	var sum float64
	for n := 0; n < m; {
		at := r.rng.IntN(m)
		for k := 0; k < r.block && n < m; k, n = k+1, n+1 {
			r.count[r.rank[at]]++
			sum += r.x[at]
			if at++; at == m {
				at = 0
			}
		}
	}
	left, k := int32((m+1)/2), 0
	for ; k < m-1; k++ {
		if left -= r.count[k]; left <= 0 {
			break
		}
	}
	return r.sorted[k], sum / float64(m)
}

// Interval is a change with its 99 % interval.
type Interval struct {
	Change float64 `json:"change"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// beyond says on which side of ±margin the whole interval lies: 1, -1 or 0.
func (iv Interval) beyond(margin float64) int {
	switch {
	case iv.Low > margin:
		return 1
	case iv.High < -margin:
		return -1
	}
	return 0
}

func (iv Interval) inside(margin float64) bool { return iv.Low > -margin && iv.High < margin }

// exp turns a difference of logarithms into a relative change.
func (iv Interval) exp() Interval {
	return Interval{math.Expm1(iv.Change), math.Expm1(iv.Low), math.Expm1(iv.High)}
}

// intervalOf gives the 0.5 and 99.5 % quantiles of draws, and the standard
// deviation that a normal distribution with that interval has.
func intervalOf(change float64, draws []float64) Interval {
	slices.Sort(draws)
	return Interval{change, robust.Quantile(draws, 0.005), robust.Quantile(draws, 0.995)}
}

func mean(x []float64) float64 {
	var s float64
	for _, v := range x {
		s += v
	}
	return s / float64(len(x))
}
