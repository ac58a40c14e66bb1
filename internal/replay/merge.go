package replay

import (
	"maps"
	"slices"
)

// AddRank adds the steps of one rank that were collected under another number, as
// where the rank becomes known last. from must hold a single rank; it stays as it
// was.
func (s *State) AddRank(rank int, info Rank, from *State) {
	s.SetRank(rank, info)
	from = s.alike(from)
	from.Pack()
	for _, rs := range from.ranks {
		s.mergeRank(rank, rs)
	}
	s.trim()
}

// Merge adds what other knows; other stays as it was. It gives what one State would
// be that had been given all the steps, in any order.
func (s *State) Merge(other *State) {
	if other == nil || other == s {
		return
	}
	if other.forgot {
		s.oldest, s.forgot = max(s.oldest, other.oldest), true
	}
	s.SetWorldSize(other.opt.WorldSize)
	other = s.alike(other)
	other.Pack()
	for _, r := range slices.Sorted(maps.Keys(other.ranks)) {
		s.mergeRank(r, other.ranks[r])
	}
	s.trim()
	if s.forgot {
		s.Pack()
		s.cutOldest()
	}
}

// alike windows s or a copy of other where only one of them has windows.
func (s *State) alike(other *State) *State {
	switch {
	case s.windowed == other.windowed:
		return other
	case other.windowed:
		s.Window()
		return other
	}
	whole := New(&other.opt)
	whole.Merge(other)
	whole.Window()
	return whole
}

// mergeRank adds the steps of a rank. Those of a rank that has none yet are taken
// over as they are packed.
func (s *State) mergeRank(r int, from *rankState) {
	to := s.rank(r)
	to.describe(from.info)
	to.disputed += from.disputed
	ids := make([]uint16, len(from.groups))
	for i, g := range from.groups {
		ids[i] = to.group(g.name, g.size)
		to.groups[ids[i]].launched += g.launched
		to.groups[ids[i]].ran += g.ran
	}
	if from.any {
		to.addTail(from.last.renumber(ids))
	}
	if to.device.before(from.device) {
		to.device = from.device
	}
	if from.steps.n == 0 {
		return
	}
	same := true
	for i, id := range ids {
		same = same && int(id) == i
	}
	if to.steps.n == 0 && same {
		to.steps = store{blocks: slices.Clone(from.steps.blocks), n: from.steps.n}
		s.cells += to.steps.n
		s.newest = max(s.newest, to.steps.blocks[len(to.steps.blocks)-1].last)
		return
	}
	for c := from.steps.open(); c.ok; c.next() {
		c.p.renumber(ids)
		s.insert(to, &c.p)
	}
	s.packRank(to)
}
