package compare

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/student"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Steps depend on their neighbors. The random error of the mean of a run
// follows from the lowest frequencies of its steps (Lazarus, Lewis, Stock and
// Watson 2018), in the part that the previous step does not explain.
const (
	level     = 0.98 // of all intervals, two-sided
	mostWaves = 16   // fewer are uncertain, more contain noise that does not affect a mean
	wavesPart = 8    // of the steps, if these are few
	// Both runs have the same kind of noise, so both share one correlation, unless
	// one is larger by this.
	corrApart = 0.2
	mostCorr  = 0.97
	clipAt    = 4 // deviations: a pause does not count for the correlation
	// leastFree is the minimum number of independent steps to which a run must be
	// equivalent.
	leastFree = 8
)

// autocorrelation returns the lag-1 autocorrelation of x around its median, with
// values beyond four deviations clipped.
func autocorrelation(x []float64) float64 {
	mid := stats.Median(slices.Clone(x))
	limit := clipAt * stats.Sigma * stats.MAD(slices.Clone(x))
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

// correlations returns the autocorrelations for the noise of two runs.
// Estimates from n values are too small by (1+3ρ)/n (Kendall 1954).
func correlations(a, b []float64) (float64, float64) {
	ra, rb := autocorrelation(a), autocorrelation(b)
	n, m := float64(len(a)), float64(len(b))
	both := (ra*n + rb*m) / (n + m)
	of := func(rho, n float64) float64 {
		rho = max(both, rho-corrApart)
		return min(max(rho+(1+3*rho)/n, 0), mostCorr)
	}
	return of(ra, n), of(rb, m)
}

// free returns the number of independent steps to which n steps with
// autocorrelation rho are equivalent.
func free(n int, rho float64) float64 { return float64(n) * (1 - rho) / (1 + rho) }

func waves(n int) int { return max(min(mostWaves, n/wavesPart), 2) }

// meanVariance returns the variance of the mean of values with the
// autocorrelation rho.
func meanVariance(x []float64, rho float64) float64 {
	n := len(x)
	if n < 3 {
		return math.NaN()
	}
	m, sum := stats.Mean(x), 0.0
	for k := 1; k <= waves(n); k++ {
		w := math.Pi * float64(k) / float64(n-1)
		c, before, twice := math.Cos(w/2), math.Cos(w/2), 2*math.Cos(w) // cos((i+½)w), each from the previous two
		z := 0.0
		for i := 1; i < n; i++ {
			z += c * (x[i] - m - rho*(x[i-1]-m))
			c, before = twice*c-before, c
		}
		sum += 2 / float64(n-1) * z * z
	}
	return sum / float64(waves(n)) / (1 - rho) / (1 - rho) / float64(n)
}

// estimate is a value of a run and its random error.
type estimate struct {
	value, variance float64
	freedom         float64 // degrees of freedom of the error
}

func meanOf(x []float64, rho float64) estimate {
	return estimate{stats.Mean(x), meanVariance(x, rho), float64(waves(len(x)))}
}

// logMeanOf returns the estimate of the logarithm of the mean.
func logMeanOf(x []float64, rho float64) estimate {
	e := meanOf(x, rho)
	return estimate{math.Log(e.value), e.variance / e.value / e.value, e.freedom}
}

// medianOf returns the estimate of a median: its error is that of the mean of
// the side on which values are, divided by their density there.
func medianOf(x []float64, rho float64) estimate {
	sorted := slices.Sorted(slices.Values(x))
	n := len(x)
	e := estimate{value: stats.Quantile(sorted, 0.5), freedom: float64(waves(n))}
	h := min(1/math.Cbrt(float64(n)), 0.4)
	width := (stats.Quantile(sorted, 0.5+h) - stats.Quantile(sorted, 0.5-h)) / (2 * h)
	sides := make([]float64, n)
	for i, v := range x {
		switch {
		case v > e.value:
			sides[i] = width / 2
		case v < e.value:
			sides[i] = -width / 2
		}
	}
	e.variance = meanVariance(sides, rho)
	return e
}

// Interval is a change with its 98 % interval.
type Interval struct {
	Change float64 `json:"change"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// change returns the difference of two estimates, and its probability without a
// change. The degrees of freedom are those of Welch and Satterthwaite.
func change(a, b estimate) (iv Interval, p float64) {
	d, v := b.value-a.value, a.variance+b.variance
	switch {
	case d == 0 && v == 0:
		return Interval{}, 1
	case v == 0:
		return Interval{d, d, d}, 0
	}
	nu := v * v / (a.variance*a.variance/a.freedom + b.variance*b.variance/b.freedom)
	w := student.Quantile((1+level)/2, nu) * math.Sqrt(v)
	return Interval{d, d - w, d + w}, 2 * student.Survival(math.Abs(d)/math.Sqrt(v), nu)
}

// beyondMargin returns the direction of the change, 1 or -1, if the whole
// interval is on that side of 0 and its half nearer to the change is beyond the
// margin. 0 means that there may be no change or no relevant one.
func (iv Interval) beyondMargin(margin float64) int {
	switch {
	case iv.Low > 0 && (iv.Change+iv.Low)/2 > margin:
		return 1
	case iv.High < 0 && (iv.Change+iv.High)/2 < -margin:
		return -1
	}
	return 0
}

func (iv Interval) withinMargin(margin float64) bool { return iv.Low > -margin && iv.High < margin }

// exp converts a difference of logarithms to a relative change.
func (iv Interval) exp() Interval {
	return Interval{math.Expm1(iv.Change), math.Expm1(iv.Low), math.Expm1(iv.High)}
}
