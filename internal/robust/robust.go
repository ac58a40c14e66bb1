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

// Median returns the median of x, the mean of the middle two for an even number
// of values; NaN for none. It changes the order of x.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	h := len(x) / 2
	upper := nth(x, h)
	if len(x)%2 == 1 {
		return upper
	}
	return (slices.Max(x[:h]) + upper) / 2
}

// LowerMedian returns the median of x, the lower of the middle two for an even
// number of values; NaN for none. It changes the order of x.
func LowerMedian(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return nth(x, (len(x)-1)/2)
}

// SlowStart returns how many steps at the start of a run are left out where steps
// are compared: the first ones compile, allocate and fill caches. More than 1.25
// times the typical time is beyond any jitter; more than a tenth of the run would
// be a finding and not its start.
func SlowStart(periods []float64, typical float64) int {
	n := 0
	for n < len(periods)/10 && periods[n] > 1.25*typical {
		n++
	}
	return n
}

// MedianInt returns the median of x, the mean of the middle two for an even number of
// values, rounded towards the lower; none for none. It sorts x.
func MedianInt(x []int64, none int64) int64 {
	if len(x) == 0 {
		return none
	}
	slices.Sort(x)
	lower, upper := x[(len(x)-1)/2], x[len(x)/2]
	return lower + (upper-lower)/2
}

// NearestRank returns the quantile q of sorted x that is one of the values: the
// smallest that is not below the part q of them. It is the lower of the middle two
// for the half. There must be a value.
func NearestRank(x []float64, q float64) float64 {
	return x[min(max(int(math.Ceil(q*float64(len(x))))-1, 0), len(x)-1)]
}

// nth puts the value with index k of the sorted x there, smaller ones before it
// and larger ones behind it. NaN counts as the smallest.
func nth(x []float64, k int) float64 {
	lo := 0
	for i, v := range x {
		if v != v {
			x[i], x[lo] = x[lo], x[i]
			lo++
		}
	}
	if k < lo {
		return x[k]
	}
	for hi := len(x) - 1; ; {
		if hi-lo < 24 {
			slices.Sort(x[lo : hi+1])
			return x[k]
		}
		// The middle of three is far from the ends of any usual order.
		a, b, c := x[lo], x[lo+(hi-lo)/2], x[hi]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := lo, hi
		for i <= j {
			for x[i] < pivot {
				i++
			}
			for x[j] > pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return x[k]
		}
	}
}

// MAD returns the median absolute deviation from the median; it overwrites x.
func MAD(x []float64) float64 {
	m := Median(x)
	for i := range x {
		x[i] = math.Abs(x[i] - m)
	}
	return Median(x)
}

// Quantile returns the quantile q of sorted x, between its neighbours in
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

// SortNearly sorts x, which is nearly in order, as spans by their start are that were
// written when they ended. What is far from it costs what [slices.SortFunc] costs. Equal
// values may change places.
func SortNearly[T any](x []T, compare func(a, b *T) int) {
	const mostMoves = 16 // of each value
	moves := mostMoves * len(x)
	for i := 1; i < len(x); i++ {
		if compare(&x[i-1], &x[i]) <= 0 {
			continue
		}
		at := i - 1
		for at > 0 && compare(&x[at-1], &x[i]) > 0 {
			at--
			if moves--; moves < 0 {
				slices.SortFunc(x, func(a, b T) int { return compare(&a, &b) })
				return
			}
		}
		v := x[i]
		copy(x[at+1:i+1], x[at:i])
		x[at] = v
	}
}
