package replay

import (
	"maps"
	"slices"
)

// State holds the programs of one attempt of a job. Its memory is bounded by
// Options.MaxCells. The order in which steps are added is irrelevant, and a step
// added twice counts once. A State is not safe for concurrent use; States that were
// filled side by side can be merged.
type State struct {
	opt    Options
	ranks  map[int]*rankState
	rd     reducer
	cells  int
	newest int64 // the largest step of any rank
	oldest int64 // steps before this one were forgotten
	forgot bool
	live   bool // the job goes on

	windowed bool // steps are mean steps of windows, numbered by window
}

type rankState struct {
	info Rank
	// groups are those that the rank met, in that order: pieces number them from 0.
	groups   []groupName
	steps    store
	last     tail
	device   progress // of a device
	any      bool
	disputed int // steps that came twice and differed, as from two writers
}

// progress is how far a device has come: the last step of which it did something, and
// how much.
type progress struct {
	step int64
	n    int
}

func (p progress) before(o progress) bool { return p.step < o.step || p.step == o.step && p.n < o.n }

type groupName struct {
	name string
	size int // zero where it is not known
	// How many collectives were launched, and how many of them a device was seen in.
	launched, ran int64
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

// group numbers a process group; what is beyond the numbers is the last one.
func (rs *rankState) group(name string, size int) uint16 {
	i := slices.IndexFunc(rs.groups, func(g groupName) bool { return g.name == name })
	if i < 0 {
		i = len(rs.groups)
		if i == 1<<16-1 {
			return uint16(i - 1)
		}
		rs.groups = append(rs.groups, groupName{name: name})
	}
	rs.groups[i].size = max(rs.groups[i].size, size)
	return uint16(i)
}

// seen counts the launch of a collective of a group, or what a device did of it.
func (rs *rankState) seen(name string, size int, device bool) {
	if g := &rs.groups[rs.group(name, size)]; device {
		g.ran++
	} else {
		g.launched++
	}
}

// SetRank tells what is known of a rank. Fields that are empty change nothing.
func (s *State) SetRank(rank int, info Rank) {
	if rank < 0 {
		return
	}
	s.rank(rank).describe(info)
}

// describe is symmetric in what was known and what is new, so that merged states do
// not depend on an order.
func (rs *rankState) describe(info Rank) {
	rs.info.Host = max(rs.info.Host, info.Host)
	rs.info.Role = max(rs.info.Role, info.Role)
	rs.info.LastSeen = max(rs.info.LastSeen, info.LastSeen)
	rs.info.Ended = rs.info.Ended || info.Ended
	for k, p := range info.Pauses {
		was := &rs.info.Pauses[k]
		was.Longest, was.Since = max(was.Longest, p.Longest), max(was.Since, p.Since)
	}
}

// SetWorldSize tells the number of ranks the job was started with, when it becomes
// known after New. The larger number counts.
func (s *State) SetWorldSize(n int) { s.opt.WorldSize = max(s.opt.WorldSize, n) }

// Add adds one step of one rank. It keeps nothing of st. A negative rank is
// ignored, and so is a step without a span.
func (s *State) Add(st *Step) {
	if st.Rank < 0 || len(st.Spans) == 0 {
		return
	}
	rs := s.rank(st.Rank)
	p, t, complete := s.rd.reduce(st, rs)
	rs.addTail(t)
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
	if rs.steps.add(p) {
		rs.disputed++
	}
	s.cells += rs.steps.n - was
}

// addTail keeps the latest step; of two versions the one that knows more.
func (rs *rankState) addTail(t tail) {
	if p := (progress{t.step, t.device}); t.device > 0 && rs.device.before(p) {
		rs.device = p
	}
	switch {
	case rs.any && t.step < rs.last.step:
	case rs.any && t.step == rs.last.step && (t.lastEnd < rs.last.lastEnd || t.lastEnd == rs.last.lastEnd && len(t.open) < len(rs.last.open)):
	default:
		t.entered = append(rs.last.entered[:0], t.entered...) // the reducer needs its own again
		rs.any, rs.last = true, t
	}
}

// Pack makes the steps that wait to be packed take less memory. It changes nothing
// else; call it when no more steps are expected soon.
func (s *State) Pack() {
	for _, rs := range s.ranks {
		was := rs.steps.n
		rs.disputed += rs.steps.pack()
		s.cells += rs.steps.n - was
	}
}

// Len is how many steps the State holds, those of each rank counted.
func (s *State) Len() int {
	s.Pack()
	return s.cells
}

// forget drops the oldest steps of all ranks when there are too many. What is kept
// depends on the newest step and the number of ranks alone, so that the order of
// adding and merging changes nothing. It is cut once a quarter of it is over, not
// at every step.
func (s *State) forget() {
	if s.cells > s.opt.MaxCells+s.opt.MaxCells/4 {
		s.trim()
	}
}

func (s *State) trim() {
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
		t := from.last
		t.entered = nil
		for i, n := range from.last.entered {
			for len(t.entered) <= int(ids[i]) {
				t.entered = append(t.entered, 0)
			}
			t.entered[ids[i]] = n
		}
		to.addTail(t)
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
}
