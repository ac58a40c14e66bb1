package straggler

import (
	"maps"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/robust"
)

// build makes the rounds of the barrier at which the ranks agree best, or nil
// when there is none. spread says how well the best one did. All steps are
// packed.
func (s *State) build() (best *rounds, spread float64) {
	var ids []int
	for _, r := range slices.Sorted(maps.Keys(s.ranks)) {
		if s.ranks[r].steps.n > 0 {
			ids = append(ids, r)
		}
	}
	spread = math.Inf(1)
	choice := barriers
	var steps []int64
	var ranks []int
	for b, with := range s.ranksWith(ids) {
		// A barrier of a later kind hides more. It must be clearly better.
		if choice != barriers && spread < 0.002 {
			break
		}
		if len(with) < 2 || float64(len(with)) < minRanks*float64(len(ids)) {
			continue
		}
		b := barrier(b)
		st := s.stepsWith(with)[b]
		if sp := s.spread(with, st, b); sp < spread/2 {
			choice, spread, steps, ranks = b, sp, st, with
		}
	}
	if choice == barriers || spread > maxSpread {
		return nil, spread
	}
	rd := &rounds{barrier: choice, ids: ranks, spread: spread}
	s.fill(rd, steps)
	return rd, spread
}

// ranksWith gives the ranks that have a barrier of each kind twice, so that
// there is a period.
func (s *State) ranksWith(ids []int) (out [barriers][]int) {
	for _, r := range ids {
		var k [barriers]int
		for c := range s.ranks[r].steps.all() {
			for b, has := range c.has {
				if has {
					k[b]++
				}
			}
		}
		for b := range out {
			if k[b] >= 2 {
				out[b] = append(out[b], r)
			}
		}
	}
	return out
}

// stepsWith gives the steps at which most ranks have a barrier of each kind.
func (s *State) stepsWith(ids []int) (out [barriers][]int64) {
	count := map[int64]*[barriers]int32{}
	for _, r := range ids {
		for c := range s.ranks[r].steps.all() {
			k := count[c.step]
			if k == nil {
				k = new([barriers]int32)
				count[c.step] = k
			}
			for b, has := range c.has {
				if has {
					k[b]++
				}
			}
		}
	}
	for _, st := range slices.Sorted(maps.Keys(count)) {
		for b, k := range count[st] {
			if k > 0 && float64(k) >= minRanks*float64(len(ids)) {
				out[b] = append(out[b], st)
			}
		}
	}
	return out
}

// spread gives the median over rounds of how far the ranks' periods lie apart,
// as a share of the median period.
func (s *State) spread(ids []int, steps []int64, b barrier) float64 {
	period := newMatrix(len(ids), len(steps))
	for i, r := range ids {
		row := period.row(i)
		for k := range row {
			row[k] = float32(math.NaN())
		}
		k, at := 0, -1 // at is the index of the last release
		var release int64
		for c := range s.ranks[r].steps.all() {
			for k < len(steps) && steps[k] < c.step {
				k++
			}
			if k == len(steps) || steps[k] != c.step || !c.has[b] {
				continue
			}
			e := c.release(b)
			if at >= 0 && at == k-1 {
				row[k] = float32(e - release)
			}
			at, release = k, e
		}
	}
	all := make([]int, len(ids))
	for i := range all {
		all[i] = i
	}
	var spreads, periods, d, buf []float64
	for k := range steps {
		if d = column(d, period, all, k); len(d) < 2 {
			continue
		}
		buf = append(buf[:0], d...)
		periods = append(periods, robust.Median(buf))
		// With two or three ranks the MAD is blind for one of them.
		if len(d) < 4 {
			spreads = append(spreads, slices.Max(d)-slices.Min(d))
		} else {
			spreads = append(spreads, 2*robust.MAD(d))
		}
	}
	if len(periods) == 0 {
		return math.Inf(1)
	}
	return robust.Median(spreads) / robust.Median(periods)
}
