package straggler

import (
	"math"

	"github.com/trainspan/trainspan/internal/analyze/meet"
)

// Several process groups may share a name, for example those of data parallel ranks. The rank that enters a collective
// last does not wait, so with the right division into groups the shortest durations of the collectives are transfers;
// with a wrong one, groups in which all ranks wait are among them.

// strideLess is by how much the sum of the shortest durations must be less than with groups of neighbors.
const strideLess = 0.1

// Strides returns the strides of process groups that share a name, or nil if all these are groups of neighbors.
func (s *State) Strides() meet.Strides {
	s.Pack()
	return newGraph(s).strides
}

// sharedName is a name that several process groups have.
type sharedName struct {
	size  int
	ranks []int     // by index, in order
	took  [][]int64 // by place in ranks: the durations of the collectives of a step
	sums  []int64   // by stride: of the shortest durations
}

func (g *graph) findStrides() meet.Strides {
	names := make(map[string]*sharedName)
	for k := range g.groups {
		of := &g.groups[k]
		if of.parts < 2 || of.size < 2 {
			continue
		}
		n := names[of.shared]
		if n == nil {
			n = &sharedName{size: of.size, sums: make([]int64, of.parts+1)}
			names[of.shared] = n
		}
		n.ranks = append(n.ranks, of.members...)
		n.took = append(n.took, make([][]int64, len(of.members))...)
	}
	if len(names) == 0 || g.st.windowed {
		return nil
	}
	rd := g.read()
	for range min(len(g.steps), clockRounds) {
		rd.round()
		for name, n := range names {
			for i, r := range n.ranks {
				n.took[i] = n.took[i][:0]
				rd.programs[r].eachPiece(func(pc *piece) {
					if pc.kind == collective && pc.group != hiddenGroup && g.groups[g.gid[r][pc.group]].shared == name {
						n.took[i] = append(n.took[i], pc.dur)
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
		if by > 1 && float64(n.sums[by]) < (1-strideLess)*float64(n.sums[1]) {
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
			}
		}
	}
}

// shortest returns the sum of the shortest durations of the group of which the given rank is the first.
func (n *sharedName) shortest(first, by int) (sum int64) {
	for k := range n.took[first] {
		least := int64(math.MaxInt64)
		for i := first; i < first+by*n.size; i += by {
			if k >= len(n.took[i]) {
				return sum
			}
			least = min(least, n.took[i][k])
		}
		sum += least
	}
	return sum
}
