package replay

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

// New makes an empty State. Nil options are valid.
func New(opt *Options) *State {
	return &State{opt: opt.orDefault(), ranks: map[int]*rankState{}}
}

func (s *State) rank(r int) *rankState {
	if s.ranks[r] == nil {
		s.ranks[r] = &rankState{}
	}
	return s.ranks[r]
}

// SetRank tells what is known of a rank. Fields that are empty change nothing.
func (s *State) SetRank(rank int, info Rank) {
	if rank < 0 {
		return
	}
	s.rank(rank).describe(info)
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
	rs.disputed += rs.steps.add(p)
	s.cells += rs.steps.n - was
}

// Pack makes the steps that wait to be packed take less memory. It changes nothing
// else; call it when no more steps are expected soon.
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
	if s.cells <= s.opt.MaxCells { // packing makes no more of them
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
