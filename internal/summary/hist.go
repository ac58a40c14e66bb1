package summary

import "math/bits"

const (
	subBits = 6 // 64 buckets per power of two
	subs    = 1 << subBits
)

// Histogram counts durations in buckets that are narrow in proportion to their
// value: numbers below 64 have one each, others share one with numbers that
// differ by less than 1.6 %. The zero Histogram is empty. It takes memory for
// the powers of two that occur only.
type Histogram struct {
	octaves  [64 - subBits + 1]*[subs]uint64
	n        uint64
	min, max int64
}

// Add counts one value; negative ones count as 0.
func (h *Histogram) Add(v int64) {
	v = max(v, 0)
	if h.n == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.n++
	octave, sub := bucket(uint64(v))
	if h.octaves[octave] == nil {
		h.octaves[octave] = new([subs]uint64)
	}
	h.octaves[octave][sub]++
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	if other.n == 0 {
		return
	}
	if h.n == 0 || other.min < h.min {
		h.min = other.min
	}
	h.max = max(h.max, other.max)
	h.n += other.n
	for i, from := range other.octaves {
		if from == nil {
			continue
		}
		if h.octaves[i] == nil {
			h.octaves[i] = new([subs]uint64)
		}
		for j, n := range from {
			h.octaves[i][j] += n
		}
	}
}

// Quantile returns the value at rank ceil(q*n) of the sorted values, by the
// middle of its bucket. It is 0 when the histogram is empty.
func (h *Histogram) Quantile(q float64) int64 {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q * float64(h.n))
	if float64(rank) < q*float64(h.n) {
		rank++
	}
	rank = min(max(rank, 1), h.n)
	var seen uint64
	for i, counts := range h.octaves {
		if counts == nil {
			continue
		}
		for j, n := range counts {
			if seen += n; n > 0 && seen >= rank {
				low, width := bounds(i, j)
				return min(max(int64(low+(width-1)/2), h.min), h.max)
			}
		}
	}
	return h.max
}

// bucket returns where a value is counted.
func bucket(v uint64) (octave, sub int) {
	if v < subs {
		return 0, int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift + 1, int(v>>shift) - subs
}

// bounds returns the lowest value of a bucket and how many values share it.
func bounds(octave, sub int) (low, width uint64) {
	if octave == 0 {
		return uint64(sub), 1
	}
	shift := octave - 1
	return uint64(subs+sub) << shift, 1 << shift
}
