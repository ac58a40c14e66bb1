package meet

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Stages holds the ranks of a pipeline by stage. Ranks with the same role form a stage, and
// neighbour stages send messages to each other. A message received before a forward pass comes
// from the stage before, and one received before a backward pass from the stage after. The wait
// is the duration of a message beyond the shortest one that any rank receives in that step.
type Stages struct {
	Ranks [][]int // by stage: its ranks in order
	Role  []int   // by rank: the index of its stage
}

// NewStages returns the stages of ranks with these roles. Stages are ordered by the number at
// the end of their role.
func NewStages(roles []string) *Stages {
	names := slices.Clone(roles)
	slices.SortFunc(names, byNumber)
	names = slices.Compact(names)
	s := &Stages{Ranks: make([][]int, len(names))}
	for i, role := range roles {
		k := slices.Index(names, role)
		s.Ranks[k] = append(s.Ranks[k], i)
		s.Role = append(s.Role, k)
	}
	return s
}

// Peer returns the rank at the same position in the stage before (way is -1) or after (way is 1),
// or -1 if there is none.
func (s *Stages) Peer(rank, way int) int {
	to := s.Role[rank] + way
	if way == 0 || to < 0 || to >= len(s.Ranks) {
		return -1
	}
	if place := slices.Index(s.Ranks[s.Role[rank]], rank); place < len(s.Ranks[to]) {
		return s.Ranks[to][place]
	}
	return -1
}

// byNumber compares roles by the number at their end.
func byNumber(a, b string) int {
	number := func(s string) int {
		n, err := strconv.Atoi(s[len(strings.TrimRight(s, "0123456789")):])
		if err != nil {
			return -1
		}
		return n
	}
	return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b))
}
