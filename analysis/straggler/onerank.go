package straggler

import (
	"maps"
	"slices"
)

// AddRank adds the steps of one rank that were collected under another number,
// as where the rank becomes known last. from must hold a single rank; it stays
// as it was.
func (s *State) AddRank(rank int, info Rank, from *State) {
	if rank < 0 || from == nil || from == s {
		return
	}
	from = s.alike(from)
	s.rank(rank).describe(info)
	if from.forgot {
		s.oldest, s.forgot = max(s.oldest, from.oldest), true
	}
	s.SetWorldSize(from.opt.WorldSize)
	for _, r := range slices.Sorted(maps.Keys(from.ranks)) {
		from.packRank(from.ranks[r])
		s.mergeRank(rank, from.ranks[r])
	}
	s.forget()
}
