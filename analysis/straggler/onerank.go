package straggler

import (
	"maps"
	"slices"
)

// AddRank adds the steps of one rank that were collected under another number,
// as where the rank becomes known last. from must hold a single rank, and must
// not be used afterwards.
func (s *State) AddRank(rank int, info Rank, from *State) {
	if rank < 0 || from == nil || from == s {
		return
	}
	s.rank(rank).describe(info)
	for _, r := range slices.Sorted(maps.Keys(from.ranks)) {
		rs := from.ranks[r]
		delete(from.ranks, r)
		one := &State{opt: from.opt, groups: from.groups, ranks: map[int]*rankState{rank: rs}, cells: len(rs.cells), newest: from.newest, oldest: from.oldest, forgot: from.forgot}
		s.Merge(one)
	}
}
