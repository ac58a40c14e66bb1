package straggler

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// meet finds the groups in which ranks meet and, if they do not connect all ranks, the phase that hides a
// collective of all.
func (j *job) meet() {
	if len(j.ranks) < 2 {
		return
	}
	j.findMeetings()
	if !j.connected {
		j.findHidden()
	}
}

// findMeetings finds the groups in which ranks meet, and whether these and the messages connect all ranks: a group
// or a receiver counts if it is in a tenth of the rounds, or in half of those with an update of the optimizer: with
// gradient accumulation ranks may meet only in these. It finds whether ranks wait for messages of unknown ranks, and
// which ranks without usable steps they wait for.
// It also finds whether ranks wait for each other in joins of unrecorded work, as in the wait for gradients after
// backward: then some of them wait much longer than others, or all wait for long, and the joins count as meetings. A
// host that only launches work for a device does not wait for other ranks there.
func (g *graph) findMeetings() {
	const least = 0.01 // of a step
	var spreads, lows, unsent []float64
	waits := make(map[int]float64)                                       // by the rank without usable steps that sends
	recorded, joined := newTally(len(g.groups)), newTally(len(g.groups)) // without and with joins
	received, met, known := newTally(len(g.ranks)), make(map[[2]int]bool), make([]bool, len(g.ranks))
	updates := 0
	rd := g.read()
	for s := range g.steps {
		rd.round()
		if s < g.from {
			continue
		}
		if slices.ContainsFunc(rd.programs, (*program).updates) {
			updates++
		}
		low, high, unknown := math.Inf(1), 0.0, 0.0
		for r, p := range rd.programs {
			d := 0.0
			for i := range p.host {
				switch pc := &p.host[i]; {
				case pc.kind == collective:
					recorded.add(g.gid[r][pc.group], s)
				case pc.kind == receive:
					received.add(r, s)
					switch from := g.peers[r][pc.group]; {
					case from >= 0:
						met[[2]int{r, from}] = true
					case from == unjudgedPeer:
						known[r] = true
						waits[g.st.ranks[g.ranks[r]].groups[pc.group].peer()] += float64(pc.dur) / float64(len(g.ranks))
					case len(g.roles) < 2:
						unknown += float64(pc.dur) / float64(len(g.ranks))
					}
				case pc.kind == join && len(p.lanes) == 0:
					d += float64(pc.dur)
					joined.add(g.gid[r][pc.group], s)
				}
			}
			for i := range p.lanes {
				if p.lanes[i].kind == collective {
					recorded.add(g.gid[r][p.lanes[i].group], s)
				}
			}
			low, high = min(low, d), max(high, d)
		}
		spreads, lows, unsent = append(spreads, high-low), append(lows, low), append(unsent, unknown)
	}
	low := stats.Median(lows)
	g.joins = stats.Median(spreads) > least*g.typical() || low > 2*least*g.typical()
	g.launches = low > 0 && !g.joins
	often := func(n int) bool { return 10*n >= len(spreads) || updates >= leastRounds && 2*n >= updates }
	var sets [][]int
	for k := range g.groups {
		n := recorded.count[k]
		if g.joins {
			n += joined.count[k]
		}
		if often(n) {
			sets = append(sets, g.groups[k].members)
		}
	}
	for r, n := range received.count {
		if n == 0 || !often(n) {
			continue
		}
		for from := range g.ranks {
			if met[[2]int{r, from}] {
				sets, known[r] = append(sets, []int{r, from}), true
			}
		}
		for _, way := range [...]int{-1, 1} {
			if from := g.stages.Peer(r, way); from >= 0 && !known[r] {
				sets = append(sets, []int{r, from})
			}
		}
	}
	g.unsent = stats.Median(unsent) > least*g.typical()
	for from, d := range waits {
		if d > least*g.typical()*float64(len(spreads)) {
			g.absent = append(g.absent, from)
		}
	}
	slices.Sort(g.absent)
	g.connected = connects(sets, len(g.ranks))
}

// tally counts in how many rounds each group meets, or each rank receives messages.
type tally struct{ count, round []int }

func newTally(n int) tally {
	return tally{make([]int, n), slices.Repeat([]int{-1}, n)}
}

func (t *tally) add(i, round int) {
	if t.round[i] != round {
		t.round[i] = round
		t.count[i]++
	}
}

// connects reports whether sets of ranks that meet connect all n ranks.
func connects(sets [][]int, n int) bool {
	with := make([]bool, n) // ranks reachable from the first one
	with[0] = true
	for grown := true; grown; {
		grown = false
		for _, members := range sets {
			if !slices.ContainsFunc(members, func(r int) bool { return with[r] }) {
				continue
			}
			for _, r := range members {
				grown = grown || !with[r]
				with[r] = true
			}
		}
	}
	return !slices.Contains(with, false)
}

// findHidden looks for the phase that hides a collective of all ranks that no span shows: all ranks leave
// this phase together, so its ends are equally far apart on all ranks.
func (j *job) findHidden() {
	const most = 0.03 // of a step: ranks without a common collective differ by more
	back, step := j.endsApart(Backward), j.endsApart(Optimizer)
	if min(back, step) > most {
		return
	}
	if j.hides = Backward; step < back {
		j.hides = Optimizer
	}
	clear(j.row[:])
	from := j.from
	j.load()
	j.judgeFrom(from)
}

// endsApart returns the median spread over ranks of the time between the ends of a phase, as a fraction of a
// step. It is infinite if some rank lacks the phase in some step.
func (j *job) endsApart(p Phase) float64 {
	last := make([]int64, len(j.ranks))
	var spreads []float64
	rd := j.read()
	for s := range j.steps {
		rd.round()
		low, high := math.Inf(1), math.Inf(-1)
		for r, pr := range rd.programs {
			i := len(pr.host) - 1
			for i >= 0 && (pr.host[i].kind != work || pr.host[i].phase != p) {
				i--
			}
			if i < 0 {
				return math.Inf(1)
			}
			end := pr.endOf(i)
			low, high = min(low, float64(end-last[r])), max(high, float64(end-last[r]))
			last[r] = end
		}
		if s > j.from && rd.follows {
			spreads = append(spreads, (high-low)/j.period[s])
		}
	}
	if len(spreads) == 0 {
		return math.Inf(1)
	}
	return stats.Median(spreads)
}

// hiddenAmong reports whether two of the ranks meet on their devices in a group smaller than all ranks.
// Device times of a phase include waits for such meetings that are not recorded separately, so what looks
// like work of one rank may be a wait for the other.
func (g *graph) hiddenAmong(ranks []int) bool {
	for k := range g.groups {
		if len(g.groups[k].members) == len(g.ranks) || !g.groups[k].unseen && !g.groups[k].device {
			continue
		}
		n := 0
		for _, r := range g.groups[k].members {
			if slices.Contains(ranks, g.ranks[r]) {
				n++
			}
		}
		if n > 1 {
			return true
		}
	}
	return false
}

// mayWaitForMissing reports whether the ranks on record may wait for one without data. Then transfers take a
// large part of a step, or more than before, or they are shorter the later the slowest recorded rank arrives;
// or the steps vary too little to tell.
func (j *job) mayWaitForMissing(was *outcome) bool {
	const some, large, slope, steep = 0.05, 0.1, -0.2, -0.5
	m := j.rounds()
	least, top := make([]float64, m), make([]float64, m)
	for s := range m {
		least[s] = math.Inf(1)
		for r := range j.ranks {
			at := j.stepIndex(j.from+s, r)
			least[s], top[s] = min(least[s], float64(was.transfer[at])), max(top[s], float64(j.own[at]))
		}
	}
	if _, _, in, out, z := interval(least); z > changeErrors && in > 1.2*out {
		return true
	}
	mx, my := stats.Mean(top), stats.Mean(least)
	var xy, xx, yy float64
	for s := range m {
		xy += (top[s] - mx) * (least[s] - my)
		xx += (top[s] - mx) * (top[s] - mx)
		yy += (least[s] - my) * (least[s] - my)
	}
	if my > large*j.typical() {
		return true
	}
	switch {
	case my < some*j.typical():
		return false
	case xx == 0:
		return true
	}
	b := xy / xx
	se := math.Sqrt(max(yy-b*xy, 0) / xx / float64(max(m-2, 1)))
	return b < slope && b < -2*se || b-2*se < steep
}

// unseenWaits reports whether ranks of different roles spend a tenth of the step in no span. They may wait
// for each other there, since what they exchange is not recorded.
func (j *job) unseenWaits() bool {
	if j.device || j.row[Host] == nil {
		return false
	}
	return len(j.roles) > 1 && stats.Median(j.means(int(Host))) > 0.1*j.typical()
}

// The n-th message that a rank sends to another one is the n-th that this one receives from it. If the records do not
// name the other rank, it is in a neighbor stage of the pipeline: see [meet.Stages].

// peer returns the rank to which the current piece, a message, is sent (by is -1), or from which it is received
// (by is 1), or a negative number if it is unknown or not judged.
func (rp *replayer) peer(a *actor, by int) int {
	if to := rp.w.peers[a.rank][a.todo[a.i].group]; to != noPeer {
		return to
	}
	return rp.w.stages.Peer(a.rank, -by*a.way(by))
}

// way returns the direction of a message, 1 for the next stage and -1 for the previous one, or 0 if unknown.
// by selects whether the work before (-1) or after (1) the message decides: forward or backward.
func (a *actor) way(by int) int { return wayOf(a.todo, a.i, by) }

// wayOf is way for the message at index i of the pieces of a step.
func wayOf(list []piece, i, by int) int {
	for k := i + by; k >= 0 && k < len(list); k += by {
		if list[k].kind != work {
			continue
		}
		switch list[k].phase {
		case Forward:
			return 1
		case Backward:
			return -1
		}
	}
	return 0
}

func (rp *replayer) post(a *actor) {
	to := rp.peer(a, -1)
	if to < 0 {
		return
	}
	key := [2]int{a.rank, to}
	rp.sends[key] = append(rp.sends[key], sent{slices.Clone(a.clock), a.path})
	if h := rp.hosts[to]; h.on == message {
		rp.wake(h)
	}
}

// receive lets a host take the next message of a neighbor. It reports false if the host has to wait for it.
func (rp *replayer) receive(a *actor) bool {
	from := rp.peer(a, 1)
	if from < 0 {
		rp.take(a, &piece{dur: a.todo[a.i].dur}, false)
		return true
	}
	key := [2]int{from, a.rank}
	list := rp.sends[key]
	if len(list) == 0 {
		a.on = message
		return false
	}
	rp.sends[key] = list[1:]
	wait := max(a.todo[a.i].dur-rp.latency, 0)
	for k := range a.clock {
		a.clock[k] = max(a.clock[k], list[0].clock[k])
	}
	rp.take(a, &piece{dur: rp.latency}, false)
	if !rp.budget {
		return true
	}
	rp.out.met = true
	rp.out.transfer[rp.w.stepIndex(rp.s, a.rank)] += float32(rp.latency)
	if wait > 0 {
		rp.waits(a.rank, from, messages, wait, &a.path, &list[0].path)
		a.path = list[0].path
	}
	return true
}
