// Package robust has the order statistics that analysis uses: they are not
// moved by a minority of wild values, as pauses and faults are.
package robust

import (
	"math"
	"slices"
)

// Sigma turns a median absolute deviation into the standard deviation of a
// normal distribution with that deviation.
const Sigma = 1.4826

// Median sorts x and gives its median, the mean of the middle two for an even
// number of values; NaN for none.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	slices.Sort(x)
	h := len(x) / 2
	if len(x)%2 == 1 {
		return x[h]
	}
	return (x[h-1] + x[h]) / 2
}

// LowerMedian sorts x and gives its median, the lower of the middle two for an
// even number of values; NaN for none.
func LowerMedian(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	slices.Sort(x)
	return x[(len(x)-1)/2]
}

// MAD gives the median absolute deviation from the median; it overwrites x.
func MAD(x []float64) float64 {
	m := Median(x)
	for i := range x {
		x[i] = math.Abs(x[i] - m)
	}
	return Median(x)
}

// Quantile gives the quantile q of sorted x, between its neighbours in
// proportion; NaN for none.
func Quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	at := q * float64(len(x)-1)
	i := int(at)
	if i+1 >= len(x) {
		return x[len(x)-1]
	}
	return x[i] + (at-float64(i))*(x[i+1]-x[i])
}
