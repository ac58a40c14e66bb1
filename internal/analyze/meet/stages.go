package meet

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Stages are ranks by their roles: the stages of a pipeline, whose neighbours send each other
// messages. What a rank receives before forward comes from the stage before, what it receives
// before backward from the stage after. The wait is what a message takes beyond the shortest
// one that any rank receives in that step.
type Stages struct {
	Ranks [][]int // of each role, by index
	Role  []int   // of each rank
}

// NewStages returns the ranks by role. Roles are in the order of the numbers that they end in.
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

// Peer returns the rank at the same place of the stage before (way is -1) or after (1), -1 if
// there is none.
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

// byNumber orders roles by the number that they end in.
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
