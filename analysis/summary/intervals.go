package summary

import (
	"cmp"
	"math/bits"
	"slices"
)

// interval is a stretch of time, its end excluded.
type interval struct{ start, end int64 }

// Intervals is a union of stretches of time. Stretches may come in any order.
// When more disjoint stretches than the bound remain, the smallest gaps between
// them are closed, and Closed tells how much time that added at most.
type Intervals struct {
	list    []interval // sorted, disjoint
	pending []interval // in order of arrival
	limit   int
	closed  int64
}

const minPending = 4096

// Add puts the stretch from start to end into the union.
func (s *Intervals) Add(start, end int64) {
	if start >= end {
		return
	}
	// Neighbours in the stream often touch or nest.
	if n := len(s.pending); n > 0 {
		if last := &s.pending[n-1]; start <= last.end && end >= last.start {
			last.start, last.end = min(last.start, start), max(last.end, end)
			return
		}
	}
	s.pending = append(s.pending, interval{start, end})
	if len(s.pending) >= max(minPending, len(s.list)/16) {
		s.settle()
	}
}

// settle moves the pending stretches into the sorted list.
func (s *Intervals) settle() {
	if len(s.pending) == 0 {
		return
	}
	slices.SortFunc(s.pending, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	// What lies before the first pending stretch stays where it is.
	at, _ := slices.BinarySearchFunc(s.list, s.pending[0].start, func(iv interval, t int64) int { return cmp.Compare(iv.end, t) })
	tail := slices.Clone(s.list[at:])
	s.list = s.list[:at]
	i, j := 0, 0
	for i < len(tail) || j < len(s.pending) {
		var next interval
		if j == len(s.pending) || i < len(tail) && tail[i].start <= s.pending[j].start {
			next, i = tail[i], i+1
		} else {
			next, j = s.pending[j], j+1
		}
		if n := len(s.list); n > 0 && next.start <= s.list[n-1].end {
			s.list[n-1].end = max(s.list[n-1].end, next.end)
			continue
		}
		s.list = append(s.list, next)
	}
	s.pending = s.pending[:0]
	if s.limit > 0 && len(s.list) > s.limit {
		s.coarsen()
	}
}

// coarsen closes the smallest gaps until half of the bound is free.
func (s *Intervals) coarsen() {
	var gaps [65]int
	for i := 1; i < len(s.list); i++ {
		gaps[bits.Len64(uint64(s.list[i].start-s.list[i-1].end))]++
	}
	left, width := len(s.list), 0
	for ; width < len(gaps) && left > s.limit/2; width++ {
		left -= gaps[width]
	}
	out := s.list[:1]
	for _, iv := range s.list[1:] {
		last := &out[len(out)-1]
		if gap := iv.start - last.end; bits.Len64(uint64(gap)) < width {
			s.closed += gap
			last.end = iv.end
			continue
		}
		out = append(out, iv)
	}
	s.list = out
}

// sorted returns the union as sorted disjoint stretches.
func (s *Intervals) sorted() []interval {
	if s == nil {
		return nil
	}
	s.settle()
	return s.list
}

// Closed returns an upper bound of the time by which the union is too long.
func (s *Intervals) Closed() int64 { return s.closed }

// unions has one union for each class but Other, in their order.
type unions [classCount - 1][]interval

// overlap walks over unions between from and to and returns, for every
// combination of them (bit 0 for the first), how long just these held.
func overlap(sets unions, from, to int64) (out [1 << len(unions{})]int64) {
	var next [len(unions{})]int
	for k, set := range sets {
		next[k], _ = slices.BinarySearchFunc(set, from, func(iv interval, t int64) int {
			if iv.end <= t {
				return -1
			}
			return 1
		})
	}
	for at := from; at < to; {
		mask, until := 0, to
		for k, set := range sets {
			for next[k] < len(set) && set[next[k]].end <= at {
				next[k]++
			}
			if next[k] == len(set) {
				continue
			}
			if iv := set[next[k]]; iv.start <= at {
				mask |= 1 << k
				until = min(until, iv.end)
			} else {
				until = min(until, iv.start)
			}
		}
		out[mask] += until - at
		at = until
	}
	return out
}
