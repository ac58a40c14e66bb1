package straggler

import (
	"math"

	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Several process groups may share a name, for example those of data parallel ranks. The rank that enters a collective
// last does not wait, so with the right division into groups the shortest durations of the collectives are transfers;
// with a wrong one, groups in which all ranks wait are among them. If one group has slow transfers, a wrong division may
// have shorter durations, too. Then the ranks of a group do not leave their collectives together.

const (
	// strideLess is by how much the sum of the shortest durations must be less than with groups of neighbors.
	strideLess = 0.1
	// Ranks of a group may leave their collectives strideTimes as far apart as neighbors, and strideApart more.
	strideTimes = 2
	strideApart = 50 // us
)

// sharedName is a name that several process groups have.
type sharedName struct {
	size  int
	ranks []int       // by index, in order; -1 for a rank that is not judged
	took  [][]int64   // by place in ranks: the durations of the collectives of a step
	left  []leaving   // by place in ranks
	sums  []int64     // by stride: of the shortest durations
	apart [][]float64 // by stride: how differently members of a group leave their collectives
}

// leaving has when a rank left the first and the last collective of a step, and the last one of the step before.
type leaving struct{ first, last, before int64 }

// findStrides returns the strides of process groups that share a name, or nil if all these are groups of neighbors.
func (g *graph) findStrides() meet.Strides {
	names := make(map[string]*sharedName)
	for k := range g.groups {
		of := &g.groups[k]
		if of.parts < 2 || of.size < 2 {
			continue
		}
		n := names[of.shared]
		if n == nil {
			n = &sharedName{size: of.size, sums: make([]int64, of.parts+1), apart: make([][]float64, of.parts+1)}
			names[of.shared] = n
		}
		n.ranks = append(n.ranks, of.users...)
		n.took = append(n.took, make([][]int64, len(of.users))...)
		n.left = append(n.left, make([]leaving, len(of.users))...)
	}
	if len(names) == 0 || g.st.windowed {
		return nil
	}
	rd := g.read()
	for range min(len(g.steps), clockRounds) {
		rd.round()
		for name, n := range names {
			for i, r := range n.ranks {
				if r < 0 {
					continue
				}
				n.took[i], n.left[i] = n.took[i][:0], leaving{before: n.left[i].last}
				rd.programs[r].eachCollective(func(pc *piece, end int64) {
					if g.groups[g.gid[r][pc.group]].shared == name {
						n.took[i] = append(n.took[i], pc.dur)
						n.left[i].add(end)
					}
				})
			}
			n.add()
		}
	}
	var out meet.Strides
	for name, n := range names {
		by := 1
		for d := 2; d < len(n.sums); d++ {
			if n.divides(d) && n.sums[d] < n.sums[by] {
				by = d
			}
		}
		if by > 1 && float64(n.sums[by]) < (1-strideLess)*float64(n.sums[1]) && n.together(by) {
			if out == nil {
				out = make(meet.Strides)
			}
			out[name] = by
		}
	}
	return out
}

// divides reports whether groups with this stride contain all ranks.
func (n *sharedName) divides(by int) bool { return len(n.ranks)%(by*n.size) == 0 }

// add adds the shortest durations of a step for each stride.
func (n *sharedName) add() {
	for by := 1; by < len(n.sums); by++ {
		if !n.divides(by) {
			continue
		}
		for i := range n.ranks {
			if i%(by*n.size) < by {
				n.sums[by] += n.shortest(i, by)
				continue
			}
			first := &n.left[i/(by*n.size)*by*n.size+i%by]
			if l := &n.left[i]; l.before != 0 && first.before != 0 && l.last != 0 && first.last != 0 {
				within, since := l.last-l.first-(first.last-first.first), l.last-l.before-(first.last-first.before)
				n.apart[by] = append(n.apart[by], math.Abs(float64(within))+math.Abs(float64(since)))
			}
		}
	}
}

// together reports whether the ranks of groups with this stride leave their collectives together, as far as those of
// neighbors do.
func (n *sharedName) together(by int) bool {
	if len(n.apart[by]) == 0 || len(n.apart[1]) == 0 {
		return false
	}
	return stats.Median(n.apart[by]) <= strideTimes*stats.Median(n.apart[1])+strideApart
}

// add notes that a rank left a collective.
func (l *leaving) add(end int64) {
	if l.first == 0 {
		l.first = end
	}
	l.last = max(l.last, end)
}

// shortest returns the sum of the shortest durations of a group, by its first rank. It is over the
// judged members.
func (n *sharedName) shortest(first, by int) (sum int64) {
	for k := 0; ; k++ {
		least := int64(math.MaxInt64)
		for i := first; i < first+by*n.size; i += by {
			if n.ranks[i] < 0 {
				continue
			}
			if k >= len(n.took[i]) {
				return sum
			}
			least = min(least, n.took[i][k])
		}
		if least == math.MaxInt64 {
			return 0 // no member is judged
		}
		sum += least
	}
}
