package summary

import (
	"slices"

	"github.com/trainspan/trainspan/internal/nest"
)

// unions has one union for each class but Other, in their order.
type unions [classCount - 1][]nest.Interval

// overlap walks over unions between from and to and returns, for every
// combination of them (bit 0 for the first), how long just these held.
func overlap(sets unions, from, to int64) (out [1 << len(unions{})]int64) {
	var next [len(unions{})]int
	for k, set := range sets {
		next[k], _ = slices.BinarySearchFunc(set, from, func(iv nest.Interval, t int64) int {
			if iv.End <= t {
				return -1
			}
			return 1
		})
	}
	for at := from; at < to; {
		mask, until := 0, to
		for k, set := range sets {
			for next[k] < len(set) && set[next[k]].End <= at {
				next[k]++
			}
			if next[k] == len(set) {
				continue
			}
			if iv := set[next[k]]; iv.Start <= at {
				mask |= 1 << k
				until = min(until, iv.End)
			} else {
				until = min(until, iv.Start)
			}
		}
		out[mask] += until - at
		at = until
	}
	return out
}

// use adds up one interval.
func use(sets unions, from, to int64) Use {
	t := overlap(sets, from, to)
	bit := func(c Class) int { return 1 << (c - 1) }
	sum := func(with, without int) (n int64) {
		for mask, d := range t {
			if mask&with == with && mask&without == 0 {
				n += d
			}
		}
		return n
	}
	return Use{Wall: to - from, Compute: sum(bit(Compute), 0), IO: sum(bit(IO), 0), IOStall: sum(bit(IO), bit(Compute)),
		Comm: sum(bit(Comm), 0), CommStall: sum(bit(Comm), bit(Compute)), Copies: sum(bit(Copy), 0), Idle: t[0]}
}
