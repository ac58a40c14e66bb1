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
	if s.windowed {
		return s.buildWindows()
	}
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
		// A barrier of a later kind hides more. It must be clearly better, or the
		// first that steps enough for a verdict have: a collective once an epoch is
		// no barrier of the steps.
		few := choice != barriers && len(steps) <= minRounds
		if choice != barriers && spread < 0.002 && !few {
			break
		}
		if len(with) < 2 || float64(len(with)) < minRanks*float64(len(ids)) {
			continue
		}
		b := barrier(b)
		st := s.stepsWith(with)[b]
		if sp := s.spread(with, st, b, 1); sp < spread/2 && spread >= 0.002 || few && len(st) > minRounds && sp <= maxSpread {
			choice, spread, steps, ranks = b, sp, st, with
		}
	}
	if choice == barriers || spread > maxSpread && !s.together(ranks, steps, choice, spread) {
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
	type counted struct {
		step int64
		with [barriers]int32
	}
	// Ranks make the same steps, so that the lists of all are hardly longer than
	// that of one.
	var list, merged []counted
	for _, r := range ids {
		merged = merged[:0]
		i := 0
		for c := range s.ranks[r].steps.all() {
			for ; i < len(list) && list[i].step < c.step; i++ {
				merged = append(merged, list[i])
			}
			k := counted{step: c.step}
			if i < len(list) && list[i].step == c.step {
				k = list[i]
				i++
			}
			for b, has := range c.has {
				if has {
					k.with[b]++
				}
			}
			merged = append(merged, k)
		}
		merged = append(merged, list[i:]...)
		list, merged = merged, list
	}
	for _, st := range list {
		for b, k := range st.with {
			if k > 0 && float64(k) >= minRanks*float64(len(ids)) {
				out[b] = append(out[b], st.step)
			}
		}
	}
	return out
}

// spread gives the median of how far the ranks lie apart in the time that they
// take for so many rounds, as a share of a round.
func (s *State) spread(ids []int, steps []int64, b barrier, rounds int) float64 {
	period := newMatrix(len(ids), len(steps))
	type release struct {
		round int // and one
		at    int64
	}
	past := make([]release, rounds) // the latest ones, by round modulo their number
	for i, r := range ids {
		row := period.row(i)
		for k := range row {
			row[k] = float32(math.NaN())
		}
		clear(past)
		k := 0
		for c := range s.ranks[r].steps.all() {
			for k < len(steps) && steps[k] < c.step {
				k++
			}
			if k == len(steps) || steps[k] != c.step || !c.has[b] {
				continue
			}
			e, from := c.release(b), &past[k%rounds]
			if from.round > 0 && from.round == k+1-rounds {
				row[k] = float32(e - from.at)
			}
			*from = release{k + 1, e}
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
		periods = append(periods, robust.Median(buf)/float64(rounds))
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

// together says whether ranks that are further apart than maxSpread leave a
// barrier nevertheless. Where steps are short and processors few, a rank is let
// go when the scheduler has a slice for it, milliseconds after the others. That
// comes anew in each round, while ranks that nothing holds together
// drift apart: over ten rounds they are three times as far apart as over one.
func (s *State) together(ids []int, steps []int64, b barrier, once float64) bool {
	const rounds = 10
	often := s.spread(ids, steps, b, rounds)
	// Half way between one and three, on a scale of ratios.
	return often < math.Sqrt(3)*once && often/rounds <= maxSpread
}
