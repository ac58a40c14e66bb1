package straggler

// program is the timeline of one step of one rank: the consecutive pieces of its host and the operations on
// other lanes. Times are microseconds.
type program struct {
	step       int64
	start, end int64 // of the rank's own clock
	tokens     int64
	host       []piece
	lanes      []laneOp
}

// piece is compute work of a phase, or a meeting.
type piece struct {
	kind  pieceKind
	phase Phase  // of work; for a meeting that is hidden in work, the phase that hides it
	group uint16 // number of the group by rank, in order of first use; joins have one too, and messages that of their peer
	dur   int64
	// lead depends on the kind. For a join: how long before the end of all launched work it ends. For a
	// launch: the index in lanes. For work: 1 if it continues after a launch.
	lead int64
	// after is 1 plus the number of operations of the communication lane that a recorded join waits for, or 0
	// if a join waits for everything launched.
	after int
}

type pieceKind uint8

const (
	work pieceKind = iota
	collective
	send
	receive
	join // wait until all launched work has ended
	pieceKinds
	launch = pieceKinds // start of a lane operation; exists only in a replay
)

// laneOp is an operation that runs concurrently with the host. It starts after its launch and after the
// previous operation on its lane.
type laneOp struct {
	piece
	lane   uint8 // 1 (collectives only) or Device
	launch int64 // relative to the start of the step; may be negative
	start  int64 // relative to the start of the step
}

// tail is the last known position of a rank.
type tail struct {
	step    int64
	open    []openSpan
	entered []int // by group of the rank: collectives that the host entered or launched, including open ones
	lastEnd int64 // end of the last finished span, on the clock of the rank
	done    bool  // the step is complete
	began   int   // number of spans started on the training thread
	device  int   // number of device operations
}

// openSpan is a span that never ended.
type openSpan struct {
	phase   Phase
	meeting Meeting
	group   string
	lane    int
	start   int64
	op      string
}

func micro(ns int64) int64 {
	if ns < 0 {
		return -((-ns + 999) / 1000)
	}
	return ns / 1000
}

// behind is the largest gap between two collectives on a lane for which the second is assumed to have waited
// for the first. Its launch time is then unknown.
const behind = 60 // us

// endOf returns the end of the i-th piece of the host.
func (p *program) endOf(i int) int64 {
	at := p.start
	for k := range i + 1 {
		at += p.host[k].dur
	}
	return at
}

// eachPiece calls fn with every piece of the host and of the lanes.
func (p *program) eachPiece(fn func(*piece)) {
	for i := range p.host {
		fn(&p.host[i])
	}
	for i := range p.lanes {
		fn(&p.lanes[i].piece)
	}
}

// findAwaited finds which collectives of the communication lane the recorded joins wait for: those that ended
// before the join did. Others may be in flight, such as a gather of parameters that are needed later.
func (p *program) findAwaited() {
	if len(p.lanes) == 0 || p.lanes[0].lane != 1 {
		return
	}
	ended, at := 0, int64(0)
	for i := range p.host {
		at += p.host[i].dur
		if p.host[i].kind != join {
			continue
		}
		for ; ended < len(p.lanes) && p.lanes[ended].lane == 1; ended++ {
			if l := &p.lanes[ended]; l.start+l.dur > at+behind {
				break
			}
		}
		p.host[i].after = ended + 1
	}
}

// eachCollective calls fn with every collective of the host and of the lanes that has a span, and with its end on the
// clock of the rank.
func (p *program) eachCollective(fn func(pc *piece, end int64)) {
	at := p.start
	for i := range p.host {
		pc := &p.host[i]
		if at += pc.dur; pc.kind == collective && pc.group != hiddenGroup {
			fn(pc, at)
		}
	}
	for i := range p.lanes {
		if l := &p.lanes[i]; l.kind == collective {
			fn(&l.piece, p.start+l.start+l.dur)
		}
	}
}

// renumber replaces the group numbers of a program.
func (p *program) renumber(number []uint16) {
	p.eachPiece(func(pc *piece) {
		if pc.kind != work {
			pc.group = number[pc.group]
		}
	})
}

// collectives calls fn with the index and the count of each collective on the communication lane. waited
// reports that the collective waited for the previous one, so that its launch time is unknown.
func (p *program) collectives(fn func(i, nth int, waited bool)) {
	nth, free := 0, int64(0)
	for i := range p.lanes {
		if l := &p.lanes[i]; l.lane == 1 {
			fn(i, nth, nth > 0 && l.start-free < behind)
			nth, free = nth+1, l.start+l.dur
		}
	}
}

// renumber returns t with its group numbers replaced.
func (t tail) renumber(number []uint16) tail {
	entered := make([]int, len(number))
	for i, k := range number {
		entered = append(entered, make([]int, max(int(k)+1-len(entered), 0))...)
		if i < len(t.entered) {
			entered[k] = t.entered[i]
		}
	}
	t.entered = entered
	return t
}
