package spanstats

import (
	"math/bits"
)

// Result is the result of an Aggregator. All times are microseconds; Start and
// End since the Unix epoch.
type Result struct {
	Events     int64         `json:"events"`
	Counters   int64         `json:"counters"`
	Metadata   int64         `json:"metadata"`
	Start      int64         `json:"start_us"`
	End        int64         `json:"end_us"`
	Categories []NameStat    `json:"categories"`
	Names      []NameStat    `json:"names"`
	Processes  []ProcessStat `json:"processes"`
	Epochs     []EpochStat   `json:"epochs"`
	// UnionError is the maximum time by which any of the unions is too long because
	// of the memory limit; 0 means that they are exact.
	UnionError int64 `json:"union_error_us"`
	// TooDeep is the number of spans that were nested in more than 4096 others and
	// dropped: spans nested in them may count for the self time of two names.
	TooDeep int64 `json:"too_deep,omitempty"`
}

// NameStat is the time of one category, or of one name in it.
type NameStat struct {
	Category string  `json:"category"`
	Name     string  `json:"name,omitempty"`
	Count    int64   `json:"count"`
	Total    int64   `json:"total_us"`
	Self     int64   `json:"self_us"` // without nested spans on the same lane
	Mean     float64 `json:"mean_us"`
	P50      int64   `json:"p50_us"`
	P99      int64   `json:"p99_us"`
	Max      int64   `json:"max_us"`
}

// Use is the use of an interval of one process's time. Each number is a union:
// a moment counts once for any number of spans. The stalls are the times that
// the job waits: they count only without computing.
type Use struct {
	Wall      int64 `json:"wall_us"`
	Compute   int64 `json:"compute_us"`
	IO        int64 `json:"io_us"`
	IOStall   int64 `json:"io_stall_us"` // I/O without computing
	Comm      int64 `json:"comm_us"`
	CommStall int64 `json:"comm_stall_us"` // communication without computing
	Copies    int64 `json:"copies_us"`     // data between host and device
	Idle      int64 `json:"idle_us"`       // none of the four
}

// ProcessStat is one process. Rank is "" if the trace has none.
type ProcessStat struct {
	HostHash string `json:"host_hash,omitempty"`
	Host     string `json:"host,omitempty"` // set by the caller
	PID      int64  `json:"pid"`
	Rank     string `json:"rank,omitempty"`
	Run      string `json:"run,omitempty"` // if the files have several
	Attempt  int64  `json:"attempt"`       // of its rank, from 1
	Label    string `json:"label,omitempty"`
	Kernels  bool   `json:"compute_is_kernels,omitempty"` // computing is that of a device
	Events   int64  `json:"events"`
	Lanes    int    `json:"lanes"`
	Start    int64  `json:"start_us"`
	End      int64  `json:"end_us"`
	Use

	beside int64
}

// EpochStat is one epoch of one process.
type EpochStat struct {
	HostHash string `json:"host_hash,omitempty"`
	Epoch    int64  `json:"epoch"`
	PID      int64  `json:"pid"`
	Rank     string `json:"rank,omitempty"`
	Run      string `json:"run,omitempty"`
	Attempt  int64  `json:"attempt"`
	Events   int64  `json:"events"`
	Steps    int64  `json:"steps"`
	Start    int64  `json:"start_us"`
	End      int64  `json:"end_us"`
	Use

	beside int64
}

func (s *NameStat) fill(h *Histogram) {
	s.Count = int64(h.n)
	s.Mean = float64(s.Total) / float64(max(h.n, 1))
	s.P50, s.P99, s.Max = h.Quantile(0.50), h.Quantile(0.99), h.max
}

const (
	subBits = 6 // 64 buckets per power of two
	subs    = 1 << subBits
)

// Histogram counts durations in buckets whose width is proportional to their
// value: numbers below 64 have one each, others share one with numbers that
// differ by less than 1.6 %. The zero Histogram is empty. It uses memory only
// for powers of two that occur.
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

// Merge adds the counts of other.
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

// Quantile returns the middle of the bucket of the value at rank ceil(q*n) of
// the sorted values. It is 0 if the histogram is empty.
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

// bucket returns the bucket of a value.
func bucket(v uint64) (octave, sub int) {
	if v < subs {
		return 0, int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift + 1, int(v>>shift) - subs
}

// bounds returns the lowest value of a bucket and the number of its values.
func bounds(octave, sub int) (low, width uint64) {
	if octave == 0 {
		return uint64(sub), 1
	}
	shift := octave - 1
	return uint64(subs+sub) << shift, 1 << shift
}
