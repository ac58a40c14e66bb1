package straggler

// program is one step of one rank: what its host did, piece after piece without a
// gap, and what ran on other lanes. Times are microseconds.
type program struct {
	step       int64
	start, end int64 // of the rank's own clock
	tokens     int64
	host       []piece
	lanes      []laneOp
}

// piece is own work of a phase, or a meeting.
type piece struct {
	kind  pieceKind
	phase Phase  // of work; of a meeting that hides in work, the phase it hides in
	group uint16 // number of the group, as the rank met them; of a join as well
	dur   int64
	// lead is, of a join, how long before all has ended that was launched; of a launch, what
	// of the lanes it is of; of work, 1 where it goes on after a launch.
	lead int64
}

type pieceKind uint8

const (
	work pieceKind = iota
	collective
	send
	receive
	join // until all that was launched has ended
	pieceKinds
	launch = pieceKinds // of what runs on a lane, in a replay only
)

// laneOp is a piece that ran beside the host: launched at a place of the host's
// program, after the one before it on its lane.
type laneOp struct {
	piece
	lane   uint8 // 1: collectives only; Device
	launch int64 // after the start of the step; may be before it
	start  int64 // after the start of the step
}

// tail is what is known of the last step of a rank.
type tail struct {
	step    int64
	open    []openSpan
	entered []int // by group of the rank: how many collectives the host entered or launched, open ones included
	lastEnd int64 // own clock: the end of the last span that ended
	done    bool  // the step is complete
	began   int   // how many spans of the training thread were begun
	device  int   // how much a device did of it
}

// openSpan never ended.
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

// behind is how soon after another one a collective begins on its lane when it
// waited for that one: then nothing says when it was launched.
const behind = 60 // us

// endOf returns when a piece of the host ended.
func (p *program) endOf(i int) int64 {
	at := p.start
	for k := range i + 1 {
		at += p.host[k].dur
	}
	return at
}

// eachPiece calls fn with every piece, of the host and of lanes.
func (p *program) eachPiece(fn func(*piece)) {
	for i := range p.host {
		fn(&p.host[i])
	}
	for i := range p.lanes {
		fn(&p.lanes[i].piece)
	}
}

// renumber gives the groups of a program other numbers.
func (p *program) renumber(number []uint16) {
	p.eachPiece(func(pc *piece) {
		if pc.kind != work {
			pc.group = number[pc.group]
		}
	})
}

// collectives calls fn with those of the lane of communication. Of one that waited for the
// one before it nothing says when it was launched.
func (p *program) collectives(fn func(i, nth int, waited bool)) {
	nth, free := 0, int64(0)
	for i := range p.lanes {
		if l := &p.lanes[i]; l.lane == 1 {
			fn(i, nth, nth > 0 && l.start-free < behind)
			nth, free = nth+1, l.start+l.dur
		}
	}
}

// renumber returns t with other numbers of groups.
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
