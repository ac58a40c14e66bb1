package account

import "slices"

// history is the own times of the iterations of one attempt that count, kept
// so that a resume can undo them: one by one since the last point, and in sums
// before. Its memory is bounded. The zero value is empty.
type history struct {
	Points []point `json:"points,omitempty"`
	Tail   []past  `json:"tail,omitempty"`
	Sum    int64   `json:"sum_ns"`                  // of all that have a number
	Lowest int64   `json:"lowest"`                  // number of an iteration, none came before it
	Loose  int64   `json:"unnumbered_ns,omitempty"` // of those that have none, which nothing can undo
}

// point says how much time the iterations up to one took.
type point struct {
	Through int64 `json:"through"`
	Sum     int64 `json:"sum_ns"`
}

// past is a finished iteration.
type past struct {
	Number int64 `json:"number"`
	Own    int64 `json:"own_ns"`
	End    int64 `json:"end_ns"`
}

const (
	maxTail   = 4096
	maxPoints = 1024
)

// add appends an iteration. Numbers rise.
func (h *history) add(p past) {
	if p.Number < 0 {
		h.Loose += p.Own
		return
	}
	if h.Tail == nil {
		h.Tail, h.Points = make([]past, 0, maxTail), make([]point, 0, maxPoints)
		h.Lowest = p.Number
	}
	h.Lowest = min(h.Lowest, p.Number)
	if len(h.Tail) == maxTail {
		h.fold(h.Tail[maxTail/2].Number)
	}
	h.Tail = append(h.Tail, p)
	h.Sum += p.Own
}

// fold makes a point of what is in the tail up to an iteration.
func (h *history) fold(through int64) {
	n := 0
	for n < len(h.Tail) && h.Tail[n].Number <= through {
		n++
	}
	if n == 0 {
		return
	}
	if len(h.Points) >= maxPoints {
		keep := h.Points[:0]
		for i := range h.Points {
			if i%2 == 1 {
				keep = append(keep, h.Points[i])
			}
		}
		h.Points = keep
	}
	sum := h.timeBeforeTail()
	for i := range n {
		sum += h.Tail[i].Own
	}
	h.Points = append(h.Points, point{h.Tail[n-1].Number, sum})
	h.Tail = h.Tail[:copy(h.Tail, h.Tail[n:])]
}

// timeBeforeTail is the time of what is not in the tail.
func (h *history) timeBeforeTail() int64 {
	if n := len(h.Points); n > 0 {
		return h.Points[n-1].Sum
	}
	return 0
}

// upTo is the time of the iterations up to one. It is not exact where the
// sums do not tell that iteration from the next.
func (h *history) upTo(through int64) (sum int64, exact bool) {
	if through < h.Lowest {
		return 0, true
	}
	if n := len(h.Points); n == 0 || h.Points[n-1].Through <= through {
		sum = h.timeBeforeTail()
		for i := range h.Tail {
			if h.Tail[i].Number <= through {
				sum += h.Tail[i].Own
			}
		}
		return sum, true
	}
	i, _ := slices.BinarySearchFunc(h.Points, through, func(p point, t int64) int { return int(min(max(p.Through-t, -1), 1)) })
	low := point{Through: h.Lowest - 1}
	if i > 0 {
		low = h.Points[i-1]
	}
	high := h.Points[i]
	if high.Through == through {
		return high.Sum, true
	}
	part := float64(through-low.Through) / float64(high.Through-low.Through)
	return low.Sum + int64(part*float64(high.Sum-low.Sum)), false
}

// undo removes the iterations from one on and gives their time; each, if it
// is not nil, is called with those that are known one by one.
func (h *history) undo(from int64, each func(past)) (lost int64, exact bool) {
	keep, exact := h.upTo(from - 1)
	lost = h.Sum - keep
	if lost == 0 {
		return 0, true
	}
	n := 0
	for _, p := range h.Tail {
		if p.Number < from {
			h.Tail[n] = p
			n++
		} else if each != nil {
			each(p)
		}
	}
	h.Tail = h.Tail[:n]
	for len(h.Points) > 0 && h.Points[len(h.Points)-1].Through >= from {
		h.Points = h.Points[:len(h.Points)-1]
	}
	h.Sum = keep
	if rest := keep - h.timeBeforeTail(); n == 0 && rest != 0 {
		h.Points = append(h.Points, point{from - 1, keep})
	}
	return lost, exact
}

// shorten keeps sums only, for an attempt that is over.
func (h *history) shorten() {
	step := max(1, 2*len(h.Tail)/maxPoints)
	for len(h.Tail) > 0 {
		h.fold(h.Tail[min(step, len(h.Tail))-1].Number)
	}
}

// sample keeps values for their median: all up to a number, beyond that every
// second one, fourth one, and so on.
type sample struct {
	values       []int64
	stride, skip int
	seen         int
	sorted       []int64
}

const maxSample = 1 << 16

func (s *sample) add(v int64) {
	if s.values == nil {
		s.values, s.stride = make([]int64, 0, maxSample), 1
	}
	s.seen++
	if s.skip++; s.skip < s.stride {
		return
	}
	s.skip = 0
	if len(s.values) == maxSample {
		for i := range maxSample / 2 {
			s.values[i] = s.values[2*i]
		}
		s.values = s.values[:maxSample/2]
		s.stride *= 2
	}
	s.values = append(s.values, v)
}

// median does not change the sample.
func (s *sample) median() (int64, int) {
	s.sorted = append(s.sorted[:0], s.values...)
	m, _ := usualOf(s.sorted)
	return m, s.seen
}
