package straggler

import (
	"math"
	"slices"
)

// replay replays the job unchanged and with each of the repairs. Without repairs it also records which rank
// waited for which.
func (j *job) replay(repairs ...repair) *outcome {
	k := 1 + len(repairs)
	rp := &replayer{w: j, k: k, repairs: append([]repair{{}}, repairs...), meetings: make([][]*meeting, (len(j.groups)+1)*lanesOfGroup), sends: make(map[[2]int][]sent)}
	n, m := len(j.ranks), len(j.steps)
	rp.out = &outcome{k: k, clock: make([]float64, k*m), finished: true}
	if rp.budget = len(repairs) == 0; rp.budget {
		o := rp.out
		o.wait, o.own, o.transfer = make([]float32, n*m), make([]float32, n*m), make([]float32, n*m)
		o.caused, o.late, o.transfers = make([]float64, n), make([]int, n), make(map[int][]float64)
		o.budget = j.newBudget()
	}
	for r := range n {
		rp.hosts = append(rp.hosts, &actor{rank: r, clock: make([]float64, k), nth: make([]int, len(j.gid[r])+1)})
		rp.lanes = append(rp.lanes, [3]*actor{})
	}
	rp.roundOf, rp.idle = make([]int64, n), make([]int64, n)
	rp.factor, rp.plain = make([]float64, n*rows*k), make([]bool, n)
	for i := range repairs {
		if l := repairs[i].like; l != nil && !slices.Contains(rp.likes, l) {
			rp.likes, rp.byRow = append(rp.likes, l), make([]float64, len(rp.factor))
		}
	}
	rd := j.read()
	for s := range m {
		rd.round()
		if !rp.round(s, rd) {
			rp.out.finished = false
			break
		}
	}
	return rp.out
}

// round replays one round and reports whether it finished.
func (rp *replayer) round(s int, rd *reader) bool {
	rp.s = s
	rp.setFactors(s)
	rp.measureLikeness(rd.programs)
	rp.gather(rd)
	clear(rp.idle)
	rp.ready = rp.ready[:0]
	for r, a := range rp.hosts {
		a.i, a.piece, a.until, a.todo = 0, 0, 0, rp.w.withLaunches(a.todo[:0], r, rd.programs[r])
		for _, l := range rp.lanes[r] {
			if l != nil {
				l.i, l.on, l.ops, l.launched, l.paths, l.waited, l.culprit = 0, nothing, l.ops[:0], l.launched[:0], l.paths[:0], 0, -1
				l.ends = l.ends[:0]
				l.until = 0
				clear(l.nth)
			}
		}
		clear(a.nth)
		rp.wake(a)
	}
	for len(rp.ready) > 0 {
		a := rp.ready[len(rp.ready)-1]
		rp.ready = rp.ready[:len(rp.ready)-1]
		a.on = nothing
		if a.lane == 0 {
			rp.host(a, rd.programs[a.rank])
		} else {
			rp.runLane(a)
		}
	}
	if rp.budget {
		rp.lastOf(s)
	}
	n := float64(len(rp.hosts))
	out := rp.out.clock[s*rp.k:]
	for r, a := range rp.hosts {
		if a.i < len(a.todo) {
			return false
		}
		for k, c := range a.clock {
			end := c
			if l := rp.lanes[r][Device]; l != nil {
				end = max(end, l.clock[k])
			}
			out[k] += end / n
			if k == 0 && rp.budget {
				at := rp.w.stepIndex(s, r)
				rp.out.own[at] = float32(rd.took[r]-rp.idle[r]) - rp.out.wait[at] - rp.out.transfer[at]
			}
		}
		for _, l := range rp.lanes[r] {
			if l != nil && l.i < len(l.ops) {
				return false
			}
		}
	}
	return true
}

// setFactors asks the repairs for the factors of work in a round.
func (rp *replayer) setFactors(s int) {
	for r := range rp.plain {
		rp.plain[r] = true
	}
	if s < rp.w.from {
		return
	}
	for k := range rp.repairs {
		rep := &rp.repairs[k]
		if rep.work == nil {
			continue
		}
		each := func(r int) {
			at := r * rows * rp.k
			if rp.plain[r] {
				rp.plain[r] = false
				f := rp.factor[at : at+rows*rp.k]
				for i := range f {
					f[i] = 1
				}
			}
			for row := range rows {
				if rp.w.row[row] != nil {
					rp.factor[at+row*rp.k+k] = rep.work(s, r, row)
				}
			}
		}
		if rep.ranks != nil {
			for _, r := range rep.ranks {
				each(r)
			}
			continue
		}
		for r := range rp.hosts {
			each(r)
		}
	}
}

// lanesOfGroup is the number of lanes, the host included, on which a group meets separately.
const lanesOfGroup = Device + 1

// gather finds the meetings of a round and their members.
func (rp *replayer) gather(rd *reader) {
	for i := range rp.meetings {
		rp.meetings[i] = rp.meetings[i][:0]
	}
	rp.used, rp.latency = 0, math.MaxInt64
	clear(rp.sends)
	for r, p := range rd.programs {
		nth := rp.hosts[r].nth
		for lane := range uint8(lanesOfGroup) {
			clear(nth)
			take := func(pc *piece) {
				if pc.kind == collective {
					rp.meeting(r, pc, lane, nth).Enter(r, 0, pc.dur)
				}
			}
			if lane == 0 {
				for i := range p.host {
					if pc := &p.host[i]; pc.kind == receive {
						rp.latency = min(rp.latency, pc.dur)
					}
					take(&p.host[i])
				}
			}
			for i := range p.lanes {
				if p.lanes[i].lane == lane {
					take(&p.lanes[i].piece)
				}
			}
		}
		clear(nth)
	}
}

// meeting returns the next meeting of a rank in a group on a lane. nth counts the meetings of the rank by
// group.
func (rp *replayer) meeting(r int, pc *piece, lane uint8, nth []int) *meeting {
	id, local := rp.groupOf(r, pc)
	list := &rp.meetings[(id+1)*lanesOfGroup+int(lane)]
	n := nth[local]
	nth[local]++
	if n == len(*list) {
		if rp.used == len(rp.pool) {
			rp.pool = append(rp.pool, &meeting{})
		}
		m := rp.pool[rp.used]
		rp.used++
		*m = meeting{group: id, arrival: m.arrival[:0], waiters: m.waiters[:0]}
		*list = append(*list, m)
	}
	return (*list)[n]
}

// host runs the program of a host until it has to wait for others.
func (rp *replayer) host(a *actor, p *program) {
	for ; a.i < len(a.todo); a.i++ {
		pc := &a.todo[a.i]
		if a.i >= a.until && rp.splits() {
			rp.cutHost(a)
		}
		switch pc.kind {
		case launch:
			rp.launch(a, &p.lanes[pc.lead])
		case work:
			if pc.phase == Input && rp.w.slack != nil && rp.w.slack[a.rank] != nil && pc.lead == 0 {
				rp.fetch(a, pc)
			} else {
				rp.take(a, pc, false)
			}
			a.path[pc.phase] += float64(pc.dur)
		case collective:
			if !rp.enter(a, pc) {
				return
			}
		case join:
			alone := true
			for _, l := range rp.lanes[a.rank] {
				if l == nil {
					continue
				}
				alone = false
				n, ends := len(l.ops), l.clock
				if pc.after > 0 && l.lane == 1 {
					n = min(n, pc.after-1)
				}
				if l.i < n {
					a.on = ownLane
					return
				}
				if n == 0 {
					continue
				}
				if l.lane == 1 {
					ends = l.ends[(n-1)*rp.k : n*rp.k]
				}
				before := a.clock[0]
				for k := range a.clock {
					a.clock[k] = max(a.clock[k], ends[k]-float64(pc.lead))
				}
				if rp.budget && l.lane == 1 {
					rp.joined(a, l, pc.dur)
				}
				if rp.budget && a.clock[0] > before {
					a.path = l.path
				}
			}
			if alone {
				rp.idle[a.rank] += pc.dur
			}
		case send:
			rp.post(a)
			rp.take(a, &piece{dur: pc.dur}, false)
		case receive:
			if !rp.receive(a) {
				return
			}
		}
	}
	for k := range rp.repairs {
		if extra := rp.repairs[k].extra; extra != nil && rp.s >= rp.w.from {
			a.clock[k] += extra(rp.s, a.rank)
		}
	}
}

// launch appends an operation to a lane and runs the lane if it is idle.
func (rp *replayer) launch(a *actor, op *laneOp) {
	l := rp.lane(a.rank, op.lane)
	l.ops = append(l.ops, op)
	l.launched = append(l.launched, a.clock...)
	if rp.budget {
		l.paths = append(l.paths, a.path)
	}
	if len(l.ops) == l.i+1 && l.on == nothing {
		rp.runLane(l)
	}
}

// runLane runs the operations launched on a lane until the lane has to wait for others.
func (rp *replayer) runLane(l *actor) {
	for ; l.i < len(l.ops); l.i++ {
		op := l.ops[l.i]
		at := l.launched[l.i*rp.k:]
		if rp.budget && at[0] > l.clock[0] {
			l.path = l.paths[l.i]
		}
		for k := range l.clock {
			l.clock[k] = max(l.clock[k], at[k])
		}
		if op.kind != collective {
			if rp.splits() {
				rp.cutDevice(l, op)
			}
			rp.take(l, &op.piece, true)
			l.path[op.phase] += float64(op.dur)
			continue
		}
		if !rp.enter(l, &op.piece) {
			return
		}
	}
	if h := rp.hosts[l.rank]; h.on == ownLane {
		rp.wake(h)
	}
}

// enter lets an actor arrive at a collective and reports whether it can go on. The last member to arrive goes
// on and releases all others.
func (rp *replayer) enter(a *actor, pc *piece) bool {
	m := rp.meeting(a.rank, pc, a.lane, a.nth)
	m.came++
	if len(m.arrival) == 0 {
		m.arrival = append(m.arrival, a.clock...)
	} else {
		for k, c := range a.clock {
			m.arrival[k] = max(m.arrival[k], c)
		}
	}
	m.waiters = append(m.waiters, waiter{a, pc.dur})
	if m.came < m.Members {
		a.on = others
		return false
	}
	rp.release(m)
	return true
}

// release completes a meeting and wakes its members.
func (rp *replayer) release(m *meeting) {
	if rp.budget {
		rp.account(m)
	}
	t := float64(m.Least)
	for k := range m.arrival {
		add := t
		if rep := &rp.repairs[k]; rep.transfer != nil && rp.s >= rp.w.from {
			add = rep.transfer(rp.s, m, t)
		}
		m.arrival[k] += add
	}
	for i, w := range m.waiters {
		copy(w.a.clock, m.arrival)
		if w.a.lane == 1 {
			w.a.ends = append(w.a.ends, m.arrival...)
			if h := rp.hosts[w.a.rank]; h.on == ownLane {
				rp.wake(h) // it may wait for this collective only
			}
		}
		if i < len(m.waiters)-1 {
			w.a.i++
			rp.wake(w.a)
		}
	}
}
