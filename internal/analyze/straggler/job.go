package straggler

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// rows is the number of kinds of compute work: each phase on the host and each phase on a device. If a device
// did the work of a phase, the host row of that phase is the time to launch it.
const rows = 2 * int(phases)

func rowOf(device bool, p Phase) int {
	if device {
		return int(phases) + int(p)
	}
	return int(p)
}

// graph holds the recorded data: the steps that all ranks have, and which ranks meet in them.
type graph struct {
	st      *State
	ranks   []int // rank numbers; other fields refer to ranks by index in this list
	info    []Rank
	roles   [][]int // ranks of each role, by index
	roleOf  []int
	stages  *meet.Stages
	missing []int   // the first mostMissing ranks without data
	more    int     // how many more ranks without data there are
	steps   []int64 // step numbers of all rounds
	from    int     // the first judged round
	sampled bool    // the steps before rounds are read too, because only samples of steps have the work of devices
	groups  []group
	gid     [][]int       // by rank and by its own group number: the index in groups
	numbers map[int][]int // the same by the number of the rank, for those that are not judged, too
	strides meet.Strides
	peers   [][]int // by rank and by its own group number: the index of the peer, or noPeer or unjudgedPeer

	// How ranks wait for each other.
	launches  bool  // hosts wait in joins for what they launched, but the waits are short
	connected bool  // the recorded meetings connect all ranks
	joins     bool  // ranks wait for each other in joins, because the collectives they join are not recorded
	unsent    bool  // ranks wait for messages, and the records do not show from which rank these come
	absent    []int // ranks without usable steps from which others wait for messages
	hides     Phase // the phase that hides the collective of all ranks; Host if none does

	places [][]float64 // by role and index of the collective: how far into backward it is launched, 0 to 1; NaN if unknown
	period []float64   // by round: the median duration over the ranks
	usual  float64     // the median of period over the judged rounds
}

// job adds the tables of compute work to a graph: which ranks are late, what repairs gain, and the results
// reported.
type job struct {
	*graph

	// Compute work between meetings by round and rank (see stepIndex), in microseconds.
	row    [rows][]float32   // by kind of work; nil if no rank has any
	own    []float32         // time in which a rank neither waited nor took part in a transfer
	over   [][]float64       // see excess
	t      *Table            // of the replay without repairs
	below  []finding.Finding // see findings
	tokens []float32         // nil if no tokens are recorded
	slack  [][]float64       // by rank, if its batches come from a queue: see findQueues
	device bool              // devices recorded work
	lanes  bool              // lanes other than the hosts recorded work
	ahead  bool              // hosts run ahead of the collectives of their steps, and the records do not show when they wait
}

// group is a process group.
type group struct {
	name    string
	shared  string // the recorded name, which several groups may have
	parts   int    // their number if their members are not recorded, else 0
	size    int
	members []int // ranks that met in it, by index
	users   []int // the same with -1 for a rank that is not judged, in the order of their numbers
	// unseen reports whether most of its collectives were launched for a device but the device's records do
	// not show them.
	unseen bool
	device bool // its collectives run on devices
}

// In place of the index of a peer.
const (
	noPeer       = -1 // a process group, or an unknown peer
	unjudgedPeer = -2 // a known rank that is not judged
)

// rounds returns the number of judged rounds.
func (g *graph) rounds() int { return len(g.steps) - g.from }

// expected returns the number of ranks of the job: the world size, or more if a higher rank has data.
func (s *State) expected() int {
	n := s.opt.WorldSize
	for r := range s.ranks {
		n = max(n, r+1)
	}
	return n
}

// stepsPerRound returns how many steps a round averages.
func (g *graph) stepsPerRound() int64 {
	if g.st.windowed {
		return WindowSteps
	}
	return 1
}

// number returns the step number of a round.
func (g *graph) number(s int) int64 { return g.steps[s] * g.stepsPerRound() }

func (g *graph) stepIndex(s, r int) int { return s*len(g.ranks) + r }

// mostMissing is the maximum number of ranks without data that are listed.
const mostMissing = 64

// newGraph returns the graph of the ranks and steps that can be judged.
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
		}
	}
	if with := g.ranksWithDevices(); 2*len(with) > len(g.ranks) { // a host alone is not comparable with a device
		g.ranks = with
	}
	for _, r := range g.ranks {
		g.info = append(g.info, st.ranks[r].info)
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
	g.nameGroups(nil)
	g.commonSteps()
	if g.strides = g.findStrides(); g.strides != nil {
		g.nameGroups(g.strides)
	}
	g.inferStages()
	return g
}

// ranksWithDevices returns the ranks whose devices are recorded.
func (g *graph) ranksWithDevices() []int {
	return slices.DeleteFunc(slices.Clone(g.ranks), func(r int) bool { return g.st.ranks[r].device.n == 0 })
}

// inferStages divides ranks without roles into the stages of a pipeline, if messages with known peers precede
// forward passes: a stage is one more than the last one of the ranks it receives such messages from. In a ring,
// as of ring attention, there are no stages.
func (g *graph) inferStages() {
	if len(g.roles) > 1 || len(g.steps) == 0 {
		return
	}
	stage := make([]int, len(g.ranks))
	rd := g.read()
	for rd.round(); rd.s < min(2, len(g.steps)-1); {
		rd.round() // the first steps may differ
	}
	for deeper := true; deeper; {
		deeper = false
		for r, p := range rd.programs {
			for i := range p.host {
				if p.host[i].kind != receive || wayOf(p.host, i, 1) != 1 {
					continue
				}
				if from := g.peers[r][p.host[i].group]; from >= 0 && stage[r] <= stage[from] {
					if stage[r], deeper = stage[from]+1, true; stage[r] == len(g.ranks) {
						return // a ring
					}
				}
			}
		}
	}
	if slices.Max(stage) == 0 {
		return
	}
	roles := make([]string, len(g.ranks))
	for r, n := range stage {
		roles[r] = "stage " + strconv.Itoa(n)
		g.info[r].Role = roles[r]
	}
	g.stages = meet.NewStages(roles)
	g.roles, g.roleOf = g.stages.Ranks, g.stages.Role
}

// commonSteps finds the steps that all ranks have.
func (g *graph) commonSteps() {
	count, worked := map[int64]int{}, map[int64]int{}
	device := len(g.ranksWithDevices()) > 0
	for _, r := range g.ranks {
		st := &g.st.ranks[r].steps
		if !device && st.gapless() { // its steps need not be unpacked
			for i := range st.blocks {
				for step := st.blocks[i].first; step <= st.blocks[i].last; step++ {
					count[step]++
				}
			}
			continue
		}
		for c := st.cursor(); c.ok; c.next() {
			count[c.p.step]++
			if c.p.worked() {
				worked[c.p.step]++
			}
		}
	}
	for step, n := range count {
		// If devices are recorded, steps without device records are skipped.
		if n == len(g.ranks) && (len(worked) == 0 || worked[step] == n) {
			g.steps = append(g.steps, step)
		}
	}
	slices.Sort(g.steps)
	for _, info := range g.info {
		g.sampled = g.sampled || info.Sampled && !g.st.windowed
	}
	if !g.sampled {
		return
	}
	// When a step begins, the device may still be busy with the one before. So the first one of each sample is
	// only read.
	after := g.steps[:0:0]
	for i, step := range g.steps {
		if i > 0 && g.steps[i-1] == step-1 {
			after = append(after, step)
		}
	}
	g.steps = after
}

// nameGroups numbers the groups of all ranks. Those that are not judged count, too: several groups that share a name
// are told apart by the places of their members.
func (g *graph) nameGroups(strides meet.Strides) {
	g.groups, g.gid, g.peers, g.numbers = nil, nil, nil, make(map[int][]int)
	var ranks [][]meet.Group
	var index []int // in g.ranks, or -1
	all := slices.Collect(maps.Keys(g.st.ranks))
	if g.more == 0 {
		all = append(all, g.missing...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for _, r := range all {
		var of []meet.Group
		if rs := g.st.ranks[r]; rs != nil {
			of = []meet.Group{} // it has records
			for _, n := range rs.groups {
				of = append(of, meet.Group{Name: n.name, Size: n.size})
			}
		}
		at, judged := slices.BinarySearch(g.ranks, r)
		if !judged {
			at = -1
		}
		ranks, index = append(ranks, of), append(index, at)
	}
	for _, r := range g.ranks {
		var peers []int
		for k := range g.st.ranks[r].groups {
			at, from := noPeer, g.st.ranks[r].groups[k].peer()
			if from >= 0 {
				if at = slices.Index(g.ranks, from); at < 0 {
					at = unjudgedPeer
				}
			}
			peers = append(peers, at)
		}
		g.peers = append(g.peers, peers)
	}
	named := meet.NumberGroups(ranks, strides)
	for i, numbers := range named.Number {
		g.numbers[all[i]] = numbers
		if index[i] >= 0 {
			g.gid = append(g.gid, numbers)
		}
	}
	for i := range named.List {
		m := &named.List[i]
		in := group{name: m.Name, size: m.Size, shared: m.Name}
		if m.Guessed {
			in.parts = m.Parts
		}
		for _, r := range m.Ranks {
			if in.users = append(in.users, index[r]); index[r] >= 0 {
				in.members = append(in.members, index[r])
			}
		}
		if m.Parts > 1 {
			in.name += " " + strconv.Itoa(m.Part)
		}
		for _, r := range in.members {
			for at, n := range g.st.ranks[g.ranks[r]].groups {
				if g.gid[r][at] == i {
					seen := n.ran >= n.launched*3/4 || g.info[r].Sampled && n.ran > 0
					in.unseen, in.device = in.unseen || !seen, in.device || n.ran > 0
				}
			}
		}
		g.groups = append(g.groups, in)
	}
}

// load fills the tables of compute work.
func (j *job) load() {
	n, m := len(j.ranks), len(j.steps)
	j.period = make([]float64, m)
	took := make([]float64, n)
	behindBy := make([]float64, n) // by rank: in how many steps the communication lane ends after the step
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
	// The first step of an attempt is not representative, so it is never judged.
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

// reader iterates over the rounds of a job.
type reader struct {
	g        *graph
	cursors  []*cursor
	programs []*program
	before   []int64   // end of the previous step
	done     []int64   // the same, including device work
	took     []int64   // duration of the round by rank, including device work
	ends     [][]ended // of lanes
	s        int
	last     int64 // the number of the last step that was read
	any      bool  // there is one
	follows  bool  // the last step that was read before is the previous step
}

// ended is a lane operation on the clock of its rank. If an operation queued behind another one on its lane,
// its launch time is unknown; launch is then that of the other operation, the earliest possible.
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

// round reads the next round.
func (rd *reader) round() {
	rd.s++
	step := rd.g.steps[rd.s]
	if rd.g.sampled && !(rd.any && rd.last == step-1) {
		rd.step(step - 1)
	}
	rd.step(step)
}

// step reads a step of all ranks.
func (rd *reader) step(step int64) {
	rd.follows = rd.any && rd.last == step-1
	rd.last, rd.any = step, true
	for r, c := range rd.cursors {
		for c.ok && c.p.step < step {
			c.next()
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
		if !rd.g.st.windowed {
			p.findAwaited()
		}
		rd.joins(r, p)
		rd.meet(p)
		rd.hide(p)
	}
}

// measure sets the duration of a round of a rank.
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

// joins finds host work that is really a wait for a lane without a span for it: the host goes on shortly
// after the last launched operation ended.
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
	at, next, last := p.start, 0, ended{launch: math.MinInt64} // a lane runs in launch order
	for i := 0; i < len(p.host); i++ {
		pc := &p.host[i]
		end := at + pc.dur
		if pc.kind == work && pc.dur > joinLeast && pc.phase == Host {
			// Find the last operation launched before the end of this piece.
			for ; next < len(list) && list[next].launch < end; next++ {
				last = list[next]
			}
			rest := end - last.end // host work between the wait and the next span
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

// meet turns joins of unrecorded work into meetings if ranks wait for each other in them.
func (rd *reader) meet(p *program) {
	for i := range p.host {
		if pc := &p.host[i]; rd.g.joins && len(p.lanes) == 0 && pc.kind == join {
			pc.kind = collective
		}
	}
}

// hide turns the phase that hides the collective of all ranks into that collective.
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

// hiddenGroup is the number of the group of all ranks whose collective no span shows.
const hiddenGroup = math.MaxUint16

// sumOwn sets own to the sum of all kinds of work. It is used if the replay does not finish.
func (j *job) sumOwn() {
	clear(j.own)
	for row := range rows {
		for i, d := range j.row[row] {
			j.own[i] += d
		}
	}
}

// judgeFrom excludes the rounds before step from the judgment.
func (g *graph) judgeFrom(step int) {
	g.from, g.usual = step, stats.Median(slices.Clone(g.period[step:]))
}

// typical returns the median length of a judged step in microseconds.
func (g *graph) typical() float64 { return g.usual }
