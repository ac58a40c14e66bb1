package straggler

import (
	"bytes"
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
	rd     reducer
	cells  int
	newest int64 // the largest step of any rank
	oldest int64 // steps before this one were forgotten
	forgot bool

	windowed bool // most steps are in windows
}

type rankState struct {
	info Rank
	// names are those of the sub-groups, in the order in which the rank met
	// them: cells number them from 1.
	names   []string
	steps   store
	windows windows
	last    tail
	any     bool
	// disputed counts steps that came twice and differed, as from two writers.
	disputed int
}

// New makes an empty State. Nil options are valid.
func New(opt *Options) *State {
	return &State{opt: opt.orDefault(), ranks: map[int]*rankState{}}
}

func (s *State) rank(r int) *rankState {
	rs := s.ranks[r]
	if rs == nil {
		rs = &rankState{}
		s.ranks[r] = rs
	}
	return rs
}

// group numbers a sub-group from 1; what is beyond the numbers is in none.
func (rs *rankState) group(name string) uint16 {
	i := slices.Index(rs.names, name)
	if i < 0 && len(rs.names) < 1<<16-1 {
		i = len(rs.names)
		rs.names = append(rs.names, name)
	}
	return uint16(i + 1)
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
	rs := s.rank(st.Rank)
	c, t := s.rd.reduce(st, rs.group)
	rs.addTail(t)
	s.insert(rs, &c)
	s.forget()
}

// Pack makes the steps that wait to be packed take less memory. It changes
// nothing else; call it when no more steps are expected soon.
func (s *State) Pack() {
	for _, rs := range s.ranks {
		s.packRank(rs)
	}
}

func (s *State) packRank(rs *rankState) {
	was := rs.steps.n
	rs.disputed += rs.steps.pack()
	s.cells += rs.steps.n - was
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

func (s *State) insert(rs *rankState, c *cell) {
	if s.forgot && c.step < s.oldest {
		return
	}
	s.newest = max(s.newest, c.step)
	more, disputed := rs.steps.add(c)
	s.cells += more
	rs.disputed += disputed
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
	s.Pack()
	if s.cells <= s.opt.MaxCells {
		return
	}
	keep := int64(max(s.opt.MaxCells/max(len(s.ranks), 1), 1))
	s.oldest, s.forgot = max(s.oldest, s.newest-keep+1), true
	s.forgetBefore()
}

func (s *State) forgetBefore() {
	s.cells = 0
	for _, rs := range s.ranks {
		rs.steps.cut(s.oldest)
		s.cells += rs.steps.n
	}
}

// Merge adds what other knows; other stays as it was. It gives what one State
// would be that had been given all the steps, in any order.
func (s *State) Merge(other *State) {
	if other == nil || other == s {
		return
	}
	other = s.alike(other)
	if other.forgot {
		s.oldest, s.forgot = max(s.oldest, other.oldest), true
	}
	s.SetWorldSize(other.opt.WorldSize)
	for _, r := range slices.Sorted(maps.Keys(other.ranks)) {
		other.packRank(other.ranks[r])
		s.mergeRank(r, other.ranks[r])
	}
	s.trim()
	if s.forgot {
		s.forgetBefore()
	}
}

// alike windows s or a copy of other where only one of them has windows.
func (s *State) alike(other *State) *State {
	if s.windowed == other.windowed {
		return other
	}
	if !s.windowed && s.cells == 0 {
		s.windowed = true
	}
	if other.windowed {
		s.Window()
		return other
	}
	all := New(&other.opt)
	all.Merge(other)
	all.Window()
	return all
}

// mergeRank adds the steps of a rank. Those of a rank that has none yet are
// taken over as they are packed.
func (s *State) mergeRank(r int, from *rankState) {
	to := s.rank(r)
	to.describe(from.info)
	to.disputed += from.disputed
	if from.any {
		to.addTail(from.last)
	}
	if to.windows.n == 0 {
		to.windows = from.windows
	} else if from.windows.n > 0 && !bytes.Equal(to.windows.data, from.windows.data) {
		// Two writers: the windows of one count, always of the same.
		to.disputed++
		if bytes.Compare(from.windows.data, to.windows.data) > 0 {
			to.windows = from.windows
		}
	}
	if from.steps.n == 0 {
		return
	}
	if to.steps.n == 0 && (len(to.names) == 0 || slices.Equal(to.names, from.names)) {
		to.names, to.steps = slices.Clone(from.names), store{blocks: slices.Clone(from.steps.blocks), n: from.steps.n}
		s.cells += to.steps.n
		s.newest = max(s.newest, to.steps.blocks[len(to.steps.blocks)-1].last)
		return
	}
	ids := []uint16{0}
	for _, name := range from.names {
		ids = append(ids, to.group(name))
	}
	for c := range from.steps.all() {
		for i := range c.groups {
			c.groups[i].id = ids[c.groups[i].id]
		}
		s.insert(to, c)
	}
}

// Len is how many steps the State holds, those of each rank counted, those in
// windows as well.
func (s *State) Len() int {
	s.Pack()
	n := s.cells
	for _, rs := range s.ranks {
		for _, w := range rs.windows.open() {
			n += int(w[wCount])
		}
	}
	return n
}
