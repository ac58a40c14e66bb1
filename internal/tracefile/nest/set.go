package nest

import (
	"cmp"
	"math/bits"
	"slices"
)

// Set is a union of time intervals, added in any order. The zero value is
// empty.
type Set struct {
	// Limit bounds the number of intervals; 0 means no limit. If there are more,
	// the smallest gaps between them are closed, and Closed returns an upper bound
	// of the time that this added.
	Limit int

	list    []Interval // sorted, disjoint
	pending []Interval // in order of arrival
	rested  int        // the number of intervals after the last Rest
	closed  int64
}

// minPending is how many intervals are collected before they are sorted and
// merged, unless Limit is smaller.
const minPending = 4096

// Add adds the interval from start to end.
func (s *Set) Add(start, end int64) {
	if start >= end {
		return
	}
	// Successive intervals often touch or overlap.
	if n := len(s.pending); n > 0 {
		if last := &s.pending[n-1]; start <= last.End && end >= last.Start {
			last.Start, last.End = min(last.Start, start), max(last.End, end)
			return
		}
	}
	s.pending = append(s.pending, Interval{Start: start, End: end})
	most := minPending
	if s.Limit > 0 {
		most = min(most, s.Limit)
	}
	if len(s.pending) >= max(most, len(s.list)/16) {
		s.settle()
	}
}

// settle merges the pending intervals into the sorted list.
func (s *Set) settle() {
	if len(s.pending) == 0 {
		return
	}
	slices.SortFunc(s.pending, func(a, b Interval) int { return cmp.Compare(a.Start, b.Start) })
	// Intervals before the first pending one stay where they are.
	at, _ := slices.BinarySearchFunc(s.list, s.pending[0].Start, func(iv Interval, t int64) int { return cmp.Compare(iv.End, t) })
	tail := slices.Clone(s.list[at:])
	if len(s.list)+len(s.pending) > cap(s.list) {
		s.list = slices.Grow(s.list, len(s.list)+len(s.pending)) // append grows by a quarter, and copies more
	}
	s.list = Union(s.list[:at], tail, s.pending)
	s.pending = s.pending[:0]
	if s.Limit > 0 && len(s.list) > s.Limit {
		s.coarsen()
	}
}

// NewSet returns an empty set that reuses memory from [Set.Rest], which may be
// nil.
func NewSet(memory []Interval) *Set { return &Set{pending: memory[:0]} }

// Rest reduces the memory of a set to what it needs, and to at most limit
// intervals, while nothing is added. It returns how many more intervals there
// are than after the last call, and the released memory.
func (s *Set) Rest(limit int) (more int, used []Interval) {
	s.settle()
	if s.Limit = limit; limit > 0 && len(s.list) > limit {
		s.coarsen()
	}
	more, used = len(s.list)-s.rested, s.pending
	s.pending, s.list = nil, append(make([]Interval, 0, len(s.list)), s.list...)
	s.rested = len(s.list)
	return more, used
}

// coarsen closes the smallest gaps until half of the limit is free.
func (s *Set) coarsen() {
	var gaps [65]int
	for i := 1; i < len(s.list); i++ {
		gaps[bits.Len64(uint64(s.list[i].Start-s.list[i-1].End))]++
	}
	left, width := len(s.list), 0
	for ; width < len(gaps) && left > s.Limit/2; width++ {
		left -= gaps[width]
	}
	out := s.list[:1]
	for _, iv := range s.list[1:] {
		last := &out[len(out)-1]
		if gap := iv.Start - last.End; bits.Len64(uint64(gap)) < width {
			s.closed += gap
			last.End = iv.End
			continue
		}
		out = append(out, iv)
	}
	s.list = out
}

// Sorted returns the set as sorted, disjoint intervals, valid until the next
// Add.
func (s *Set) Sorted() []Interval {
	if s == nil {
		return nil
	}
	s.settle()
	return s.list
}

// Closed returns an upper bound of the time added by closing gaps.
func (s *Set) Closed() int64 { return s.closed }

// Interval is a time interval without its end.
type Interval struct{ Start, End int64 }

// Union appends the union of two lists to dst, as disjoint intervals; intervals
// that touch are joined, also with the last of dst. Each list must be sorted by
// start. a may share the memory of dst.
func Union(dst, a, b []Interval) []Interval {
	for i, j := 0, 0; i < len(a) || j < len(b); {
		var next Interval
		if j == len(b) || i < len(a) && a[i].Start <= b[j].Start {
			next, i = a[i], i+1
		} else {
			next, j = b[j], j+1
		}
		if n := len(dst); n > 0 && next.Start <= dst[n-1].End {
			dst[n-1].End = max(dst[n-1].End, next.End)
			continue
		}
		dst = append(dst, next)
	}
	return dst
}

// Intersection appends the intersection of two lists to dst. Each list must be
// sorted and disjoint.
func Intersection(dst, a, b []Interval) []Interval {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if from, to := max(a[i].Start, b[j].Start), min(a[i].End, b[j].End); from < to {
			dst = append(dst, Interval{Start: from, End: to})
		}
		if a[i].End < b[j].End {
			i++
		} else {
			j++
		}
	}
	return dst
}

// Length returns the total length of the intervals.
func Length(list []Interval) (sum int64) {
	for _, x := range list {
		sum += x.End - x.Start
	}
	return sum
}
