package straggler

import (
	"cmp"
	"maps"
	"slices"
)

// State holds what is known of one attempt of a job, reduced to what a verdict
// needs. Its memory is bounded by Options.MaxCells. The order in which steps
// are added is irrelevant, and a step added twice counts once. A State is not
// safe for concurrent use; States that were filled side by side can be merged.
type State struct {
	opt    Options
	ranks  map[int]*rankState
	groups map[string]uint16
	rd     reducer
	cells  int
	newest int64 // the largest step of any rank
	oldest int64 // steps before this one were forgotten
	forgot bool
}

type rankState struct {
	info  Rank
	cells []cell // by step
	last  tail
	any   bool
	// disputed counts steps that came twice and differed, as from two writers.
	disputed int
}

// New makes an empty State. Nil options are valid.
func New(opt *Options) *State {
	return &State{opt: opt.orDefault(), ranks: map[int]*rankState{}, groups: map[string]uint16{}}
}

func (s *State) rank(r int) *rankState {
	rs := s.ranks[r]
	if rs == nil {
		rs = &rankState{}
		s.ranks[r] = rs
	}
	return rs
}

// SetRank tells what is known of a rank. Fields that are empty change nothing.
func (s *State) SetRank(rank int, info Rank) {
	if rank < 0 {
		return
	}
	s.rank(rank).describe(info)
}

// describe is symmetric in what was known and what is new, so that merged
// states do not depend on an order.
func (rs *rankState) describe(info Rank) {
	rs.info.Host = max(rs.info.Host, info.Host)
	rs.info.Role = max(rs.info.Role, info.Role)
	rs.info.LastSeen = max(rs.info.LastSeen, info.LastSeen)
}

// SetWorldSize tells the number of ranks the job was started with, when it
// becomes known after New. The larger number counts.
func (s *State) SetWorldSize(n int) { s.opt.WorldSize = max(s.opt.WorldSize, n) }

// Add adds one step of one rank. It keeps nothing of st. A negative rank is
// ignored, and so is a step without a span.
func (s *State) Add(st *Step) {
	if st.Rank < 0 || len(st.Spans) == 0 {
		return
	}
	c, t := s.rd.reduce(st, s.group)
	s.rank(st.Rank).addTail(t)
	s.insert(s.rank(st.Rank), c)
	s.forget()
}

func (s *State) group(name string) uint16 {
	id, ok := s.groups[name]
	if !ok && len(s.groups) < 1<<16-1 {
		id = uint16(len(s.groups) + 1)
		s.groups[name] = id
	}
	return id
}

func (rs *rankState) addTail(t tail) {
	if rs.any && (t.step < rs.last.step || t.step == rs.last.step && !t.after(rs.last)) {
		return
	}
	rs.any, rs.last = true, t
}

// after orders what two records say of the same step: the one that knows more.
func (t tail) after(u tail) bool {
	if t.done != u.done {
		return t.done
	}
	return cmp.Or(cmp.Compare(t.started, u.started), cmp.Compare(t.lastEnd, u.lastEnd)) > 0
}

func (s *State) insert(rs *rankState, c cell) {
	if s.forgot && c.step < s.oldest {
		return
	}
	s.newest = max(s.newest, c.step)
	n := len(rs.cells)
	if n == 0 || rs.cells[n-1].step < c.step {
		rs.cells = append(rs.cells, c)
		s.cells++
		return
	}
	i, found := slices.BinarySearchFunc(rs.cells, c.step, func(c cell, step int64) int { return cmp.Compare(c.step, step) })
	if !found {
		rs.cells = slices.Insert(rs.cells, i, c)
		s.cells++
		return
	}
	if rs.cells[i] != c {
		rs.disputed++
		if compareCells(&c, &rs.cells[i]) > 0 {
			rs.cells[i] = c
		}
	}
}

// compareCells is any order that does not depend on which came first; of two
// writers' versions of a step the one that ends later is kept.
func compareCells(a, b *cell) int {
	return cmp.Or(cmp.Compare(a.split, b.split), slices.Compare(a.before[:], b.before[:]), slices.Compare(a.after[:], b.after[:]),
		slices.Compare(a.wait[:], b.wait[:]), slices.Compare(a.shift[:], b.shift[:]), slices.Compare(a.comm[:], b.comm[:]),
		cmp.Compare(a.world, b.world), cmp.Compare(a.tokens, b.tokens), slices.Compare(a.device[:], b.device[:]),
		slices.Compare(a.covered[:], b.covered[:]), cmp.Compare(a.first, b.first), compareGroups(a, b))
}

func compareGroups(a, b *cell) int {
	for i := range a.groups {
		if c := cmp.Compare(a.groups[i].dur, b.groups[i].dur); c != 0 {
			return c
		}
	}
	return 0
}

// forget drops the oldest steps of all ranks when there are too many. The
// window depends on the newest step and the number of ranks alone, so that the
// order of adding and merging changes nothing. It is cut once a quarter of it
// is over, not at every step.
func (s *State) forget() {
	if s.cells <= s.opt.MaxCells+s.opt.MaxCells/4 {
		return
	}
	s.trim()
}

func (s *State) trim() {
	if s.cells <= s.opt.MaxCells {
		return
	}
	keep := int64(max(s.opt.MaxCells/max(len(s.ranks), 1), 1))
	s.oldest, s.forgot = max(s.oldest, s.newest-keep+1), true
	for _, rs := range s.ranks {
		i, _ := slices.BinarySearchFunc(rs.cells, s.oldest, func(c cell, step int64) int { return cmp.Compare(c.step, step) })
		s.cells -= i
		rs.cells = slices.Delete(rs.cells, 0, i)
	}
}

// Merge adds what other knows; other stays as it was. It gives what one State
// would be that had been given all the steps, in any order.
func (s *State) Merge(other *State) {
	if other == nil || other == s {
		return
	}
	ids := make([]uint16, len(other.groups)+1)
	for _, name := range slices.Sorted(maps.Keys(other.groups)) {
		ids[other.groups[name]] = s.group(name)
	}
	if other.forgot {
		s.oldest, s.forgot = max(s.oldest, other.oldest), true
	}
	s.SetWorldSize(other.opt.WorldSize)
	for _, r := range slices.Sorted(maps.Keys(other.ranks)) {
		from := other.ranks[r]
		to := s.rank(r)
		to.describe(from.info)
		to.disputed += from.disputed
		if from.any {
			to.addTail(from.last)
		}
		for _, c := range from.cells {
			for i := range c.groups {
				c.groups[i].id = ids[c.groups[i].id]
			}
			s.insert(to, c)
		}
	}
	s.trim()
}
