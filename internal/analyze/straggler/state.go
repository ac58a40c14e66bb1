package straggler

import (
	"maps"
	"slices"
)

// State holds the steps of one attempt of a job. Options.MaxCells bounds its memory. Steps may be added in
// any order, and a step added twice counts once. A State is not safe for concurrent use; States filled
// concurrently can be merged.
type State struct {
	opt    Options
	ranks  map[int]*rankState
	rd     reducer
	cells  int
	newest int64 // the largest step of any rank
	oldest int64 // steps before this one were discarded
	forgot bool
	live   bool // the job is running

	windowed bool // steps are means of windows, numbered by window
}

// New returns an empty State. Nil options are valid.
func New(opt *Options) *State {
	return &State{opt: opt.orDefault(), ranks: map[int]*rankState{}}
}

func (s *State) rank(r int) *rankState {
	if s.ranks[r] == nil {
		s.ranks[r] = &rankState{steps: store{spill: s.opt.Spill}}
	}
	return s.ranks[r]
}

// SetRank adds information on a rank. Empty fields change nothing. Negative ranks are ignored.
func (s *State) SetRank(rank int, info Rank) {
	if rank < 0 {
		return
	}
	s.rank(rank).describe(info)
}

// SetWorldSize sets the number of ranks that the job was started with. The larger number wins.
func (s *State) SetWorldSize(n int) { s.opt.WorldSize = max(s.opt.WorldSize, n) }

// Add adds one step of one rank. It does not retain st. Negative ranks are ignored. The time of a step without
// spans is host time; it does not show where the rank stands.
func (s *State) Add(st *Step) {
	if st.Rank < 0 {
		return
	}
	rs := s.rank(st.Rank)
	p, t, complete := s.rd.reduce(st, rs)
	if len(st.Spans) > 0 {
		rs.addTail(t)
	}
	if complete {
		s.insert(rs, p)
	}
	s.forget()
}

func (s *State) insert(rs *rankState, p *program) {
	if s.forgot && p.step < s.oldest {
		return
	}
	s.newest = max(s.newest, p.step)
	was := rs.steps.n
	rs.disputed += rs.steps.add(p)
	s.cells += rs.steps.n - was
}

// Pack compresses the pending steps. It changes nothing else. Call it when no more steps are expected soon.
func (s *State) Pack() {
	s.rd = reducer{} // free the buffers: most States of a job get no more steps
	for _, rs := range s.ranks {
		s.packRank(rs)
	}
}

func (s *State) packRank(rs *rankState) {
	was := rs.steps.n
	rs.disputed += rs.steps.pack()
	s.cells += rs.steps.n - was
}

// Len returns the number of steps held, summed over ranks.
func (s *State) Len() int {
	s.Pack()
	return s.cells
}

// forget discards the oldest steps of all ranks once the bound is exceeded by a quarter, so that it does not
// run at every step. The steps kept depend only on the newest step and the number of ranks, so the order of
// adding and merging does not matter.
func (s *State) forget() {
	if s.cells > s.opt.MaxCells+s.opt.MaxCells/4 {
		s.trim()
	}
}

func (s *State) trim() {
	if s.cells <= s.opt.MaxCells { // packing never increases cells
		return
	}
	s.Pack()
	if s.cells <= s.opt.MaxCells {
		return
	}
	keep := int64(max(s.opt.MaxCells/max(len(s.ranks), 1), 1))
	s.oldest, s.forgot = max(s.oldest, s.newest-keep+1), true
	s.cutOldest()
}

func (s *State) cutOldest() {
	s.cells = 0
	for _, rs := range s.ranks {
		rs.steps.cut(s.oldest)
		s.cells += rs.steps.n
	}
}

// AddRank adds the steps of one rank that were collected under another rank number, for example because the
// rank was not known earlier. from must hold a single rank; it is not changed.
func (s *State) AddRank(rank int, info Rank, from *State) {
	s.SetRank(rank, info)
	from = s.alike(from)
	from.Pack()
	for _, rs := range from.ranks {
		s.mergeRank(rank, rs)
	}
	s.trim()
}

// Merge adds the steps of other, which it does not change. The result equals a State to which all the steps
// were added, in any order.
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

// alike converts s or a copy of other to windows if only one of them has windows. It returns other or that
// copy.
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

// mergeRank adds the steps of a rank. If the rank has no steps yet, it shares the packed blocks.
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
	if to.device.isBefore(from.device) {
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
		to.steps = store{spill: s.opt.Spill, blocks: slices.Clone(from.steps.blocks), n: from.steps.n}
		s.cells += to.steps.n
		s.newest = max(s.newest, to.steps.blocks[len(to.steps.blocks)-1].last)
		return
	}
	for c := from.steps.cursor(); c.ok; c.next() {
		c.p.renumber(ids)
		s.insert(to, &c.p)
	}
	s.packRank(to)
}

// WindowSteps is the number of steps in a window. Windows begin at the same step numbers on all ranks.
const WindowSteps = 100

// Window replaces the steps by the mean step of each window of [WindowSteps] steps, which takes as much
// memory as one step. It is for jobs with very many steps. The mean is taken over the steps with the most
// common sequence of operations, among those with the work of the device if any has it. Deviations of single
// steps and incomplete windows are lost.
func (s *State) Window() {
	s.Pack()
	s.windowed, s.cells = true, 0
	for _, rs := range s.ranks {
		out := store{spill: s.opt.Spill}
		var list []program
		for c := rs.steps.cursor(); c.ok; c.next() {
			if len(list) > 0 && list[0].step/WindowSteps != c.p.step/WindowSteps {
				list = list[:0]
			}
			var p program
			p.copy(&c.p)
			if list = append(list, p); len(list) == WindowSteps {
				out.follow(meanStep(list))
			}
		}
		out.pack()
		rs.steps = out
		s.cells += out.n
	}
}

// meanStep returns the mean of the steps of a window that have the most common pieces.
func meanStep(list []program) *program {
	first := &list[0]
	if worked := slices.DeleteFunc(slices.Clone(list), func(p program) bool { return !p.worked() }); len(worked) > 0 {
		list = worked
	}
	var usual []program
	for i := range list {
		alike := slices.DeleteFunc(slices.Clone(list), func(p program) bool { return !list[i].alike(&p) })
		if len(alike) > len(usual) {
			usual = alike
		}
		if 2*len(alike) > len(list) {
			break
		}
	}
	mean := func(of func(p *program) *int64) int64 {
		var sum int64
		for k := range usual {
			sum += *of(&usual[k])
		}
		return sum / int64(len(usual))
	}
	out := new(program)
	out.copy(&usual[0])
	out.step, out.start = first.step/WindowSteps, first.start
	out.tokens = mean(func(p *program) *int64 { return &p.tokens })
	for i := range out.host {
		out.host[i].dur = mean(func(p *program) *int64 { return &p.host[i].dur })
	}
	for i := range out.lanes {
		l := &out.lanes[i]
		l.dur = mean(func(p *program) *int64 { return &p.lanes[i].dur })
		l.start = mean(func(p *program) *int64 { return &p.lanes[i].start })
		l.launch = mean(func(p *program) *int64 { return &p.lanes[i].launch })
	}
	out.end = out.endOf(len(out.host) - 1)
	return out
}
