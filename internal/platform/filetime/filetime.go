// Package filetime tells the times in a file that can be from those that cannot:
// those of a clock that was not set, or of a damaged record.
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

// Judge judges the times of one file while it is read once. It goes by the median
// of the times so far, and knows at the end whether that of all says the same. The
// median is that of intervals of most of a day. Make it with New or With.
type Judge struct {
	apart     int64
	low, high int64 // what is accepted
	fixed     bool
	at        int64 // n when these were found
	n         int64

	shift   uint // of a time, for its interval
	counts  map[int64]int64
	bucket  int64 // the present one
	pending int64 // times in it that counts lacks

	lowIn, highIn   int64 // the first and the last time that was accepted
	lowOut, highOut int64 // the latest that was too early, the earliest that was too late
}

// maxStretches bounds the memory: there are more only where times are anything.
const maxStretches = 4096

// New returns a Judge of times in such units since the Unix epoch.
func New(unit time.Duration) *Judge {
	j := &Judge{apart: int64(MaxApart / unit), counts: make(map[int64]int64),
		low: math.MinInt64, high: math.MaxInt64, lowIn: math.MaxInt64, highIn: math.MinInt64, lowOut: math.MinInt64, highOut: math.MaxInt64}
	j.shift = uint(bits.Len64(uint64(max(j.apart/32, 1)))) - 1
	return j
}

// With returns a Judge that goes by a median that is known.
func With(unit time.Duration, median int64) *Judge {
	j := New(unit)
	j.accept(median)
	j.fixed = true
	return j
}

// Has reports whether the time of a record can be, and counts it for the median.
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

// Near reports whether another time of the record can be, such as its end.
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

// accept accepts what is near a time.
func (j *Judge) accept(t int64) {
	if j.low = t - j.apart; j.low > t {
		j.low = math.MinInt64
	}
	if j.high = t + j.apart; j.high < t {
		j.high = math.MaxInt64
	}
}

// count puts the times of the present interval to the others.
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

// Median returns about the median of the times so far, 0 without any.
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

// Right reports, at the end of the file, whether the median of all times accepts
// what was accepted, and nothing else. Where not, the file has to be judged again,
// by Median.
func (j *Judge) Right() bool {
	if j.fixed || j.n == 0 {
		return true
	}
	all := &Judge{apart: j.apart}
	all.accept(j.Median())
	return (j.lowIn > j.highIn || j.lowIn >= all.low && j.highIn <= all.high) &&
		(j.lowOut == math.MinInt64 || j.lowOut < all.low) && (j.highOut == math.MaxInt64 || j.highOut > all.high)
}
