// Package filetime detects impossible times in a file, from a clock that was
// not set or from a damaged record.
package filetime

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"
)

// MaxApart is how far a time may be from the median of the times of its file.
const MaxApart = 30 * 24 * time.Hour

// Judge judges the times of one file while it is read once. It compares with
// the median of the times so far, and knows at the end whether the median of
// all times gives the same result. The median is that of intervals of most of a
// day. Create a Judge with New or With.
type Judge struct {
	apart     int64
	low, high int64 // the accepted range
	fixed     bool
	at        int64 // n when the range was computed
	n         int64

	shift   uint // time>>shift is the interval
	counts  map[int64]int64
	bucket  int64 // the current interval
	pending int64 // times in it that are not in counts yet

	lowIn, highIn   int64 // the first and the last accepted time
	lowOut, highOut int64 // the latest time before the range, the earliest after it
}

// maxStretches bounds the memory: only random times have more intervals.
const maxStretches = 4096

// New returns a Judge of times in this unit since the Unix epoch.
func New(unit time.Duration) *Judge {
	j := &Judge{apart: int64(MaxApart / unit), counts: make(map[int64]int64),
		low: math.MinInt64, high: math.MaxInt64, lowIn: math.MaxInt64, highIn: math.MinInt64, lowOut: math.MinInt64, highOut: math.MaxInt64}
	j.shift = uint(bits.Len64(uint64(max(j.apart/32, 1)))) - 1
	return j
}

// With returns a Judge with a known median.
func With(unit time.Duration, median int64) *Judge {
	j := New(unit)
	j.accept(median)
	j.fixed = true
	return j
}

// Has reports whether the time of a record is possible, and counts it for the
// median.
func (j *Judge) Has(t int64) bool {
	if s := t >> j.shift; s != j.bucket {
		j.count()
		j.bucket = t >> j.shift
	}
	j.pending++
	j.n++
	if in := t >= j.low && t <= j.high; !j.fixed && (j.n >= 2*j.at || !in && j.n-j.at > j.at/20) {
		j.accept(j.Median())
		j.at = j.n
	}
	return j.Near(t)
}

// Near reports whether another time of the record is possible, such as its end.
func (j *Judge) Near(t int64) bool {
	in := t >= j.low && t <= j.high
	switch {
	case in:
		j.lowIn, j.highIn = min(j.lowIn, t), max(j.highIn, t)
	case t < j.low:
		j.lowOut = max(j.lowOut, t)
	default:
		j.highOut = min(j.highOut, t)
	}
	return in
}

// accept sets the accepted range around a time.
func (j *Judge) accept(t int64) {
	if j.low = t - j.apart; j.low > t {
		j.low = math.MinInt64
	}
	if j.high = t + j.apart; j.high < t {
		j.high = math.MaxInt64
	}
}

// count adds the times of the current interval to the counts.
func (j *Judge) count() {
	if j.pending == 0 {
		return
	}
	j.counts[j.bucket] += j.pending
	j.pending = 0
	for len(j.counts) > maxStretches {
		wider := make(map[int64]int64)
		for s, n := range j.counts {
			wider[s>>1] += n
		}
		j.counts = wider
		j.shift++
	}
}

// Median returns approximately the median of the times so far, or 0.
func (j *Judge) Median() int64 {
	if j.n == 0 {
		return 0
	}
	shift := j.shift
	j.count()
	j.bucket >>= j.shift - shift
	left := (j.n + 1) / 2
	for _, s := range slices.SortedFunc(maps.Keys(j.counts), cmp.Compare[int64]) {
		if left -= j.counts[s]; left <= 0 {
			return s<<j.shift + 1<<(j.shift-1)
		}
	}
	return 0
}

// Right reports, at the end of the file, whether the median of all times
// accepts exactly what was accepted. If not, the file has to be read again with
// Median.
func (j *Judge) Right() bool {
	if j.fixed || j.n == 0 {
		return true
	}
	all := &Judge{apart: j.apart}
	all.accept(j.Median())
	return (j.lowIn > j.highIn || j.lowIn >= all.low && j.highIn <= all.high) &&
		(j.lowOut == math.MinInt64 || j.lowOut < all.low) && (j.highOut == math.MaxInt64 || j.highOut > all.high)
}
