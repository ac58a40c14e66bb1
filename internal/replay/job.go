package replay

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/robust"
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

// job is what is judged: the steps that all ranks have.
type job struct {
	st      *State
	ranks   []int // numbers
	info    []Rank
	roles   [][]int // ranks of each role, by index
	roleOf  []int
	missing []int   // the first of those without data
	more    int     // how many more there are
	steps   []int64 // numbers of all rounds
	from    int     // the first one that is judged
	device  bool    // something ran on a device
	lanes   bool    // something ran beside the hosts
	ahead   bool    // hosts go on while collectives of their steps last, and nothing says when they wait
	groups  []group
	gid     [][]int     // number of each group of each rank
	slack   [][]float64 // of ranks whose batches come from a queue: see findQueues
	meetings

	// Of each round and rank, round by round, in microseconds.
	own    []float32       // time in which a rank neither waited nor took part in a transfer
	row    [rows][]float32 // nil where nothing has it
	over   [][]float64     // see excess
	tokens []float32       // nil where none are recorded
	period []float64       // median over the ranks
	usual  float64         // the median of period, of the steps that are judged
	places [][]float64     // of each role: where in backward the k-th collective of a lane is launched
}

// meetings is where ranks wait for each other.
type meetings struct {
	launches  bool  // hosts wait for what they launch, and it takes them no time
	connected bool  // the meetings on record join all ranks
	joins     bool  // ranks wait for each other in joins: what they join is not on record
	hides     Phase // the phase that the meeting of all hides in, Host for none
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
func (j *job) rounds() int { return len(j.steps) - j.from }

// expected is how many ranks the job has: those before the highest one as well.
func (s *State) expected() int {
	n := s.opt.WorldSize
	for r := range s.ranks {
		n = max(n, r+1)
	}
	return n
}

// per is how many steps a round is the mean of.
func (j *job) per() int64 {
	if j.st.windowed {
		return WindowSteps
	}
	return 1
}

// number is that of the step of a round.
func (j *job) number(s int) int64 { return j.steps[s] * j.per() }

func (j *job) at(s, r int) int { return s*len(j.ranks) + r }

// mostMissing is how many ranks without data are listed.
const mostMissing = 64

// newJob finds the ranks and steps that can be judged.
func newJob(st *State) *job {
	st.Pack()
	j := &job{st: st}
	most := 0
	for _, rs := range st.ranks {
		most = max(most, rs.steps.n)
	}
	for _, r := range slices.Sorted(maps.Keys(st.ranks)) {
		if rs := st.ranks[r]; rs.steps.n > 0 && 4*rs.steps.n >= 3*most {
			j.ranks = append(j.ranks, r)
			j.info = append(j.info, rs.info)
		}
	}
	next := 0
	for _, r := range append(slices.Clone(j.ranks), st.expected()) {
		for ; next < r && len(j.missing) < mostMissing; next++ {
			j.missing = append(j.missing, next)
		}
		j.more, next = j.more+max(r-next, 0), r+1
	}
	var names []string
	for i := range j.ranks {
		names = append(names, j.info[i].Role)
	}
	slices.SortFunc(names, byNumber)
	names = slices.Compact(names)
	j.roles = make([][]int, len(names))
	for i := range j.ranks {
		k := slices.Index(names, j.info[i].Role)
		j.roles[k] = append(j.roles[k], i)
		j.roleOf = append(j.roleOf, k)
	}
	if len(j.ranks) == 0 {
		return j
	}
	j.nameGroups()
	j.commonSteps()
	return j
}

// commonSteps finds the steps that all ranks have.
func (j *job) commonSteps() {
	count, worked := map[int64]int{}, map[int64]int{}
	for _, r := range j.ranks {
		for c := j.st.ranks[r].steps.open(); c.ok; c.next() {
			count[c.p.step]++
			if slices.ContainsFunc(c.p.lanes, func(l laneOp) bool { return l.lane == Device }) {
				worked[c.p.step]++
			}
		}
	}
	for step, n := range count {
		// Where devices are seen, steps in which they are not say nothing.
		if n == len(j.ranks) && (len(worked) == 0 || worked[step] == n) {
			j.steps = append(j.steps, step)
		}
	}
	slices.Sort(j.steps)
}

// nameGroups numbers the groups of all ranks. Where more ranks use a name than the
// group has members, each rank has one of that name: they are told apart by place.
func (j *job) nameGroups() {
	users := map[string][]int{}
	sizes := map[string]int{}
	for i, r := range j.ranks {
		for _, g := range j.st.ranks[r].groups {
			users[g.name] = append(users[g.name], i)
			sizes[g.name] = max(sizes[g.name], g.size)
		}
	}
	id := map[string][]int{} // by user
	for _, name := range slices.Sorted(maps.Keys(users)) {
		u, size := users[name], sizes[name]
		parts := 1
		if size > 0 && len(u) > size && len(u)%size == 0 {
			parts = len(u) / size
		}
		for k := range parts {
			g := group{name: name, size: size}
			if parts > 1 {
				g.name += " " + strconv.Itoa(k)
			}
			j.groups = append(j.groups, g)
		}
		base := len(j.groups) - parts
		of := make([]int, len(j.ranks))
		for k, i := range u {
			part := 0
			if parts > 1 {
				part = k / size
			}
			of[i] = base + part
			g := &j.groups[base+part]
			g.members = append(g.members, i)
			for _, n := range j.st.ranks[j.ranks[i]].groups {
				if n.name == name {
					g.unseen, g.device = g.unseen || n.ran < n.launched*3/4, g.device || n.ran > 0
				}
			}
		}
		id[name] = of
	}
	for i, r := range j.ranks {
		var of []int
		for _, g := range j.st.ranks[r].groups {
			of = append(of, id[g.name][i])
		}
		j.gid = append(j.gid, of)
	}
}

// load fills the tables of own work.
func (j *job) load() {
	n, m := len(j.ranks), len(j.steps)
	j.period = make([]float64, m)
	ends := make([]int64, n) // with what a device did
	took := make([]float64, 0, n)
	behindBy := make([]float64, n) // in so many steps
	rd := j.read()
	for s := range m {
		rd.round()
		took = took[:0]
		for r := range n {
			p := rd.programs[r]
			j.lanes = j.lanes || len(p.lanes) > 0
			at := j.at(s, r)
			for i := range p.host {
				pc := &p.host[i]
				if pc.kind == work {
					j.addRow(rowOf(false, pc.phase), at, pc.dur)
				}
			}
			for i := range p.lanes {
				if l := &p.lanes[i]; l.kind == work {
					j.addRow(rowOf(true, l.phase), at, l.dur)
					j.device = true
				}
			}
			if p.tokens > 0 {
				if j.tokens == nil {
					j.tokens = make([]float32, n*m)
				}
				j.tokens[at] = float32(p.tokens)
			}
			from := p.start
			if s > 0 && rd.follows && !j.st.windowed {
				from = ends[r]
			}
			ends[r] = p.end
			for i := range p.lanes {
				if l := &p.lanes[i]; l.lane == Device {
					ends[r] = max(ends[r], p.start+l.start+l.dur)
				}
			}
			if i := len(p.lanes) - 1; i >= 0 && p.lanes[i].lane == 1 && p.lanes[i].start+p.lanes[i].dur > p.end-p.start+joinWithin {
				behindBy[r]++
			}
			took = append(took, float64(ends[r]-from))
		}
		j.period[s] = robust.Median(took)
	}
	j.ahead = !j.device && robust.Median(behindBy) > float64(m)/2
	// What the first step of an attempt takes says nothing of the others.
	from := 0
	if m > 1 {
		rest := j.period[1:]
		from = 1 + robust.SlowStart(rest, robust.Median(slices.Clone(rest)))
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
	j        *job
	cursors  []*cursor
	programs []*program
	before   []int64   // end of the step before
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

func (j *job) read() *reader {
	rd := &reader{j: j, programs: make([]*program, len(j.ranks)), before: make([]int64, len(j.ranks)), ends: make([][]ended, len(j.ranks)), s: -1}
	for _, r := range j.ranks {
		rd.cursors = append(rd.cursors, j.st.ranks[r].steps.open())
	}
	return rd
}

// round takes the next round.
func (rd *reader) round() {
	rd.s++
	step := rd.j.steps[rd.s]
	rd.follows = rd.s > 0 && rd.j.steps[rd.s-1] == step-1
	for r, c := range rd.cursors {
		if rd.s > 0 || c.p.step < step {
			for c.ok && c.p.step < step {
				c.next()
			}
		}
		p := &c.p
		rd.programs[r] = p
		if gap := p.start - rd.before[r]; rd.follows && gap > 0 && !rd.j.st.windowed {
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
		rd.joins(r, p)
		rd.meet(p)
		rd.hide(p)
	}
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
		if pc.kind == work && pc.dur > joinLeast && (pc.phase == Host || pc.phase == Backward || pc.phase == Forward) {
			// The last one that was launched before it, or inside of it.
			for ; next < len(list) && list[next].launch < end; next++ {
				last = list[next]
			}
			rest := end - last.end // what the host does before its next span begins
			within := int64(joinWithin)
			if pc.phase == Host {
				within = max(within, pc.dur/joinPart)
			}
			switch {
			case pc.phase == Host && last.end-end > joinWithin && last.device && pc.dur*heldPart > p.end-p.start:
				pc.kind, pc.lead = join, last.end-end
			case rest > within || rest < -joinWithin/10 || last.end-at <= joinLeast:
			case pc.phase == Host && (last.launch <= at || rd.j.st.windowed):
				pc.kind = join
				if rest > 0 {
					pc.dur -= rest
					p.host = slices.Insert(p.host, i+1, piece{kind: work, phase: Host, dur: rest})
					i++
				}
			case pc.phase != Host && last.start > at && end-last.start > joinLeast:
				wait := piece{kind: join, phase: pc.phase, dur: end - last.start}
				pc.dur -= wait.dur
				p.host = slices.Insert(p.host, i+1, wait)
				i++
			}
		}
		at = end
	}
	rd.ends[r] = slices.DeleteFunc(list, func(e ended) bool { return e.end < p.end-joinWithin })
}

// meet makes meetings of joins of nothing that is on record.
func (rd *reader) meet(p *program) {
	for i := range p.host {
		if pc := &p.host[i]; rd.j.joins && len(p.lanes) == 0 && pc.kind == join {
			pc.kind = collective
		}
	}
}

// hide makes the phase in which the meeting of all hides that meeting.
func (rd *reader) hide(p *program) {
	if rd.j.hides == Host {
		return
	}
	for i := len(p.host) - 1; i >= 0; i-- {
		if pc := &p.host[i]; pc.kind == work && pc.phase == rd.j.hides {
			*pc = piece{kind: collective, phase: pc.phase, group: hiddenGroup, dur: pc.dur}
			return
		}
	}
}

// hiddenGroup is the number of the group of all ranks that no span names.
const hiddenGroup = math.MaxUint16

// byNumber orders roles by the number that they end in, as stages are numbered.
func byNumber(a, b string) int {
	number := func(s string) int {
		n, err := strconv.Atoi(s[len(strings.TrimRight(s, "0123456789")):])
		if err != nil {
			return -1
		}
		return n
	}
	return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b))
}

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
func (j *job) judgeFrom(step int) {
	j.from, j.usual = step, robust.Median(slices.Clone(j.period[step:]))
}

// typical is the length of a usual step.
func (j *job) typical() float64 { return j.usual }
