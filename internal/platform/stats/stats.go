// Package stats provides robust order statistics, which a minority of extreme
// values does not move, and the mean.
package stats

import (
	"math"
	"slices"
	"sort"
)

// Sigma turns a median absolute deviation into the standard deviation of a
// normal distribution with that deviation.
const Sigma = 1.4826

// Median returns the median of x, the mean of the middle two for an even number
// of values; NaN if there are none. It changes the order of x.
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

// SlowStart returns how many steps at the start of a run are left out when
// steps are compared: the first steps compile, allocate and fill caches. More
// than 1.25 times the typical time is beyond normal jitter; more than a tenth
// of the run would be a finding, not a slow start.
func SlowStart(periods []float64, typical float64) int {
	n := 0
	for n < len(periods)/10 && periods[n] > 1.25*typical {
		n++
	}
	return n
}

// MedianInt returns the median of x, the mean of the middle two for an even
// number of values, rounded down; none if x is empty. It sorts x.
func MedianInt(x []int64, none int64) int64 {
	if len(x) == 0 {
		return none
	}
	slices.Sort(x)
	lower, upper := x[(len(x)-1)/2], x[len(x)/2]
	return lower + (upper-lower)/2
}

// Mean returns the mean of x, 0 if there are no values. Unlike an order
// statistic, a single extreme value changes it.
func Mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(len(x), 1))
}

// NearestRank returns the quantile q of sorted x as one of its values: the
// smallest value that is not below the fraction q of them. For q = 0.5 it is
// the lower of the middle two. x must not be empty.
func NearestRank(x []float64, q float64) float64 {
	return x[min(max(int(math.Ceil(q*float64(len(x))))-1, 0), len(x)-1)]
}

// nth moves the value with index k of the sorted x to k, smaller ones before it
// and larger ones after it. NaN counts as the smallest.
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
			for i := lo + 1; i <= hi; i++ { // there is no NaN here, which slices.Sort looks for
				v, j := x[i], i
				for ; j > lo && x[j-1] > v; j-- {
					x[j] = x[j-1]
				}
				x[j] = v
			}
			return x[k]
		}
		// The median of three is far from the ends for any usual order.
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

// Quantile returns the quantile q of sorted x by linear interpolation; NaN if x
// is empty.
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

// Runs sorts slices that consist of a few nearly sorted runs, such as spans by
// start time in the order in which threads ended them. It keeps its memory for
// the next one. The zero value is ready for use.
type Runs[T any] struct {
	begins []int
	buffer []T
}

// Sort sorts x and keeps the order of equal values.
func (r *Runs[T]) Sort(x []T, compare func(a, b *T) int) {
	const near = 16      // values this far from their place are searched for one by one
	budget := 4 * len(x) // of values that make place for others, such as the spans that hold many
	runs, begin := r.begins[:0], 0
	for i := 1; i < len(x); i++ {
		at := i
		for at > begin && i-at <= near && compare(&x[at-1], &x[i]) > 0 {
			at--
		}
		if i-at > near {
			at = begin + sort.Search(at-begin, func(k int) bool { return compare(&x[begin+k], &x[i]) > 0 })
			if budget -= i - at; budget < 0 {
				runs = append(runs, begin)
				begin, budget = i, 0
				continue
			}
		}
		if at < i {
			v := x[i]
			copy(x[at+1:i+1], x[at:i])
			x[at] = v
		}
	}
	runs = append(runs, begin)
	r.begins = runs
	for len(runs) > 1 {
		n := 0
		for k := 0; k < len(runs); k += 2 {
			if k+1 < len(runs) {
				end := len(x)
				if k+2 < len(runs) {
					end = runs[k+2]
				}
				r.merge(x[runs[k]:end], runs[k+1]-runs[k], compare)
			}
			runs[n], n = runs[k], n+1
		}
		runs = runs[:n]
	}
}

// merge merges the values of x before one index with those from it on. Both
// parts are sorted.
func (r *Runs[T]) merge(x []T, from int, compare func(a, b *T) int) {
	low := sort.Search(from, func(i int) bool { return compare(&x[i], &x[from]) > 0 })
	buffer := append(r.buffer[:0], x[low:from]...)
	r.buffer = buffer
	at := low
	for i := 0; i < len(buffer); at++ {
		if from < len(x) && compare(&x[from], &buffer[i]) < 0 {
			x[at] = x[from]
			from++
		} else {
			x[at] = buffer[i]
			i++
		}
	}
}
