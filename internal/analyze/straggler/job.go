package straggler

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// rows is how many kinds of own work there are: each phase on the host, and each on
// a device. Where a device worked, what the host does of a phase is to launch it.
const rows = 2 * int(phases)

func rowOf(device bool, p Phase) int {
	if device {
		return int(phases) + int(p)
	}
	return int(p)
}

// graph is what is on record: the steps that all ranks have, and who meets whom in them.
type graph struct {
	st      *State
	ranks   []int // numbers
	info    []Rank
	roles   [][]int // ranks of each role, by index
	roleOf  []int
	stages  *meet.Stages
	missing []int   // the first of those without data
	more    int     // how many more there are
	steps   []int64 // numbers of all rounds
	from    int     // the first one that is judged
	groups  []group
	gid     [][]int // number of each group of each rank

	// How ranks wait for each other.
	launches  bool  // hosts wait for what they launch, and it takes them no time
	connected bool  // the meetings on record join all ranks
	joins     bool  // ranks wait for each other in joins: what they join is not on record
	hides     Phase // the phase that the meeting of all hides in, Host for none

	places [][]float64 // of each role: where in backward the k-th collective of a lane is launched
	period []float64   // of each round: the median over the ranks
	usual  float64     // the median of period, of the steps that are judged
}

// job is what is judged: which of it is late, what repairs gain, and what is said of it.
type job struct {
	*graph

	// What ranks did between their meetings, of each round and rank, round by round,
	// in microseconds.
	row    [rows][]float32 // of each kind, nil where nothing has it
	own    []float32       // time in which a rank neither waited nor took part in a transfer
	over   [][]float64     // see excess
	t      *Table          // of the replay of the job as it was
	below  []found         // see findings
	tokens []float32       // nil where none are recorded
	slack  [][]float64     // of ranks whose batches come from a queue: see findQueues
	device bool            // something ran on a device
	lanes  bool            // something ran beside the hosts
	ahead  bool            // hosts go on while collectives of their steps last, and nothing says when they wait
}

// group is a process group.
type group struct {
	name    string
	size    int
	members []int // ranks that met in it, by index
	// unseen says that most of its collectives were launched for a device that is not
	// seen in them.
	unseen bool
	device bool // it meets on devices
}

// rounds is how many are judged.
func (g *graph) rounds() int { return len(g.steps) - g.from }

// expected is how many ranks the job has: those before the highest one as well.
func (s *State) expected() int {
	n := s.opt.WorldSize
	for r := range s.ranks {
		n = max(n, r+1)
	}
	return n
}

// stepsPerRound is how many steps a round is the mean of.
func (g *graph) stepsPerRound() int64 {
	if g.st.windowed {
		return WindowSteps
	}
	return 1
}

// number is that of the step of a round.
func (g *graph) number(s int) int64 { return g.steps[s] * g.stepsPerRound() }

func (g *graph) stepIndex(s, r int) int { return s*len(g.ranks) + r }

// mostMissing is how many ranks without data are listed.
const mostMissing = 64

// newJob finds the ranks and steps that can be judged.
func newGraph(st *State) *graph {
	st.Pack()
	g := &graph{st: st}
	most := 0
	for _, rs := range st.ranks {
		most = max(most, rs.steps.n)
	}
	for _, r := range slices.Sorted(maps.Keys(st.ranks)) {
		if rs := st.ranks[r]; rs.steps.n > 0 && 4*rs.steps.n >= 3*most {
			g.ranks = append(g.ranks, r)
			g.info = append(g.info, rs.info)
		}
	}
	next := 0
	for _, r := range append(slices.Clone(g.ranks), st.expected()) {
		for ; next < r && len(g.missing) < mostMissing; next++ {
			g.missing = append(g.missing, next)
		}
		g.more, next = g.more+max(r-next, 0), r+1
	}
	roles := make([]string, len(g.ranks))
	for i := range roles {
		roles[i] = g.info[i].Role
	}
	g.stages = meet.NewStages(roles)
	g.roles, g.roleOf = g.stages.Ranks, g.stages.Role
	if len(g.ranks) == 0 {
		return g
	}
	g.nameGroups()
	g.commonSteps()
	return g
}

// commonSteps finds the steps that all ranks have.
func (g *graph) commonSteps() {
	count, worked := map[int64]int{}, map[int64]int{}
	for _, r := range g.ranks {
		for c := g.st.ranks[r].steps.cursor(); c.ok; c.next() {
			count[c.p.step]++
			if slices.ContainsFunc(c.p.lanes, func(l laneOp) bool { return l.lane == Device }) {
				worked[c.p.step]++
			}
		}
	}
	for step, n := range count {
		// Where devices are seen, steps in which they are not say nothing.
		if n == len(g.ranks) && (len(worked) == 0 || worked[step] == n) {
			g.steps = append(g.steps, step)
		}
	}
	slices.Sort(g.steps)
}

// nameGroups numbers the groups of all ranks.
func (g *graph) nameGroups() {
	var ranks [][]meet.Group
	for _, r := range g.ranks {
		var of []meet.Group
		for _, n := range g.st.ranks[r].groups {
			of = append(of, meet.Group{Name: n.name, Size: n.size})
		}
		ranks = append(ranks, of)
	}
	all := meet.NumberGroups(ranks)
	g.gid = all.Number
	for i := range all.List {
		m := &all.List[i]
		in := group{name: m.Name, size: m.Size, members: m.Ranks}
		if m.Parts > 1 {
			in.name += " " + strconv.Itoa(m.Part)
		}
		for _, r := range in.members {
			for at, n := range g.st.ranks[g.ranks[r]].groups {
				if g.gid[r][at] == i {
					in.unseen, in.device = in.unseen || n.ran < n.launched*3/4, in.device || n.ran > 0
				}
			}
		}
		g.groups = append(g.groups, in)
	}
}

// load fills the tables of own work.
func (j *job) load() {
	n, m := len(j.ranks), len(j.steps)
	j.period = make([]float64, m)
	took := make([]float64, n)
	behindBy := make([]float64, n) // in so many steps
	rd := j.read()
	for s := range m {
		rd.round()
		for r := range n {
			p := rd.programs[r]
			j.lanes = j.lanes || len(p.lanes) > 0
			at := j.stepIndex(s, r)
			for i := range p.host {
				pc := &p.host[i]
				if pc.kind == work {
					j.addRow(rowOf(false, pc.phase), at, pc.dur)
				}
			}
			if p.tokens > 0 {
				if j.tokens == nil {
					j.tokens = make([]float32, n*m)
				}
				j.tokens[at] = float32(p.tokens)
			}
			for i := range p.lanes {
				l := &p.lanes[i]
				if l.kind == work {
					j.addRow(rowOf(true, l.phase), at, l.dur)
					j.device = true
				}
			}
			if i := len(p.lanes) - 1; i >= 0 && p.lanes[i].lane == 1 && p.lanes[i].start+p.lanes[i].dur > p.end-p.start+joinWithin {
				behindBy[r]++
			}
			took[r] = float64(rd.took[r])
		}
		j.period[s] = stats.Median(took)
	}
	j.ahead = !j.device && stats.Median(behindBy) > float64(m)/2
	// What the first step of an attempt takes says nothing of the others.
	from := 0
	if m > 1 {
		rest := j.period[1:]
		from = 1 + stats.SlowStart(rest, stats.Median(slices.Clone(rest)))
	}
	j.judgeFrom(from)
}

func (j *job) addRow(row, at int, d int64) {
	if j.row[row] == nil {
		j.row[row] = make([]float32, len(j.ranks)*len(j.steps))
	}
	j.row[row][at] += float32(d)
}

// reader goes through the rounds of a job.
type reader struct {
	g        *graph
	cursors  []*cursor
	programs []*program
	before   []int64   // end of the step before
	done     []int64   // the same, with what a device did
	took     []int64   // how long the round took each rank, with what a device did
	ends     [][]ended // of lanes
	s        int
	follows  bool // the step before is the round before
}

// ended is something of a lane, on the own clock. Of what waited for another one on its
// lane it is not known when it was launched: at the earliest with that one.
type ended struct {
	launch, start, end int64
	device             bool
}

func (g *graph) read() *reader {
	n := len(g.ranks)
	rd := &reader{g: g, programs: make([]*program, n), before: make([]int64, n), done: make([]int64, n), took: make([]int64, n), ends: make([][]ended, n), s: -1}
	for _, r := range g.ranks {
		rd.cursors = append(rd.cursors, g.st.ranks[r].steps.cursor())
	}
	return rd
}

// round takes the next round.
func (rd *reader) round() {
	rd.s++
	step := rd.g.steps[rd.s]
	rd.follows = rd.s > 0 && rd.g.steps[rd.s-1] == step-1
	for r, c := range rd.cursors {
		if rd.s > 0 || c.p.step < step {
			for c.ok && c.p.step < step {
				c.next()
			}
		}
		p := &c.p
		rd.programs[r] = p
		if gap := p.start - rd.before[r]; rd.follows && gap > 0 && !rd.g.st.windowed {
			if len(p.host) > 0 && p.host[0].kind == work && p.host[0].phase == Host {
				p.host[0].dur += gap
			} else {
				p.host = slices.Insert(p.host, 0, piece{kind: work, phase: Host, dur: gap})
			}
			p.start -= gap
			for i := range p.lanes {
				p.lanes[i].start += gap
				p.lanes[i].launch += gap
			}
		}
		rd.before[r] = p.end
		rd.measure(r, p)
		rd.joins(r, p)
		rd.meet(p)
		rd.hide(p)
	}
}

// measure finds how long a round took a rank.
func (rd *reader) measure(r int, p *program) {
	from := p.start
	if rd.follows && !rd.g.st.windowed {
		from = rd.done[r]
	}
	rd.done[r] = p.end
	for i := range p.lanes {
		if l := &p.lanes[i]; l.lane == Device {
			rd.done[r] = max(rd.done[r], p.start+l.start+l.dur)
		}
	}
	rd.took[r] = rd.done[r] - from
}

// joins finds where the host waits for a lane that nothing says it does: it goes on
// soon after what was launched last has ended.
func (rd *reader) joins(r int, p *program) {
	if len(p.lanes) == 0 && len(rd.ends[r]) == 0 {
		return
	}
	list := rd.ends[r]
	for i := range p.lanes {
		l := &p.lanes[i]
		e := ended{p.start + l.launch, p.start + l.start, p.start + l.start + l.dur, l.lane == Device}
		if n := len(list); n > 0 && l.lane == 1 && e.start-list[n-1].end < behind {
			e.launch = list[n-1].launch
		}
		list = append(list, e)
	}
	at, next, last := p.start, 0, ended{launch: math.MinInt64} // a lane runs in the order of launches
	for i := 0; i < len(p.host); i++ {
		pc := &p.host[i]
		end := at + pc.dur
		if pc.kind == work && pc.dur > joinLeast && pc.phase == Host {
			// The last one that was launched before it, or inside of it.
			for ; next < len(list) && list[next].launch < end; next++ {
				last = list[next]
			}
			rest := end - last.end // what the host does before its next span begins
			within := max(joinWithin, pc.dur/joinPart)
			switch {
			case last.end-end > joinWithin && last.device && pc.dur*heldPart > p.end-p.start:
				pc.kind, pc.lead = join, last.end-end
			case rest > within || rest < -joinWithin/10 || last.end-at <= joinLeast:
			case last.launch <= at || rd.g.st.windowed:
				pc.kind = join
				if rest > 0 {
					pc.dur -= rest
					p.host = slices.Insert(p.host, i+1, piece{kind: work, phase: Host, dur: rest})
					i++
				}
			}
		}
		at = end
	}
	rd.ends[r] = slices.DeleteFunc(list, func(e ended) bool { return e.end < p.end-joinWithin })
}

// meet makes meetings of joins of nothing that is on record.
func (rd *reader) meet(p *program) {
	for i := range p.host {
		if pc := &p.host[i]; rd.g.joins && len(p.lanes) == 0 && pc.kind == join {
			pc.kind = collective
		}
	}
}

// hide makes the phase in which the meeting of all hides that meeting.
func (rd *reader) hide(p *program) {
	if rd.g.hides == Host {
		return
	}
	for i := len(p.host) - 1; i >= 0; i-- {
		if pc := &p.host[i]; pc.kind == work && pc.phase == rd.g.hides {
			*pc = piece{kind: collective, phase: pc.phase, group: hiddenGroup, dur: pc.dur}
			return
		}
	}
}

// hiddenGroup is the number of the group of all ranks that no span names.
const hiddenGroup = math.MaxUint16

// sumOwn makes own work the sum of its kinds, where no replay tells.
func (j *job) sumOwn() {
	clear(j.own)
	for row := range rows {
		for i, d := range j.row[row] {
			j.own[i] += d
		}
	}
}

// judgeFrom leaves out the steps before one.
func (g *graph) judgeFrom(step int) {
	g.from, g.usual = step, stats.Median(slices.Clone(g.period[step:]))
}

// typical is the length of a usual step.
func (g *graph) typical() float64 { return g.usual }
