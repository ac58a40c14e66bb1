package replay

import "slices"

// Messages go between neighbours of a pipeline: what is received before forward
// comes from the stage before, what is received before backward from the stage
// after. The n-th message that a rank sends to another is the n-th that this one
// receives from it. What a message takes beside the wait is the least time that a rank
// receives in, in that round.

// peer returns the rank at the same place of the stage before (-1) or after (1), -1
// where there is none.
func (rp *replayer) peer(r, way int) int {
	g := rp.w.graph
	role := g.roleOf[r] + way
	if role < 0 || role >= len(g.roles) || way == 0 {
		return -1
	}
	place := 0
	for k, o := range g.roles[g.roleOf[r]] {
		if o == r {
			place = k
		}
	}
	if place >= len(g.roles[role]) {
		return -1
	}
	return g.roles[role][place]
}

// way says to which side a message goes: the phase of the work that it follows, or
// comes before.
func (a *actor) way(by int) int {
	for k := a.i + by; k >= 0 && k < len(a.todo); k += by {
		if a.todo[k].kind != work {
			continue
		}
		switch a.todo[k].phase {
		case Forward:
			return 1
		case Backward:
			return -1
		}
	}
	return 0
}

func (rp *replayer) post(a *actor) {
	to := rp.peer(a.rank, a.way(-1))
	if to < 0 {
		return
	}
	key := [2]int{a.rank, to}
	rp.sends[key] = append(rp.sends[key], sent{slices.Clone(a.clock), a.path})
	if h := rp.hosts[to]; h.on == message {
		rp.wake(h)
	}
}

// receive lets a host wait for the next message of a neighbour.
func (rp *replayer) receive(a *actor) bool {
	from := rp.peer(a.rank, -a.way(1))
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
	before := a.clock[0]
	for k := range a.clock {
		a.clock[k] = max(a.clock[k], list[0].clock[k])
	}
	wait := a.clock[0] - before
	rp.take(a, &piece{dur: rp.latency}, false)
	if !rp.budget {
		return true
	}
	rp.out.transfer[rp.w.at(rp.s, a.rank)] += float32(rp.latency)
	if wait > 0 {
		rp.waits(a.rank, from, messages, wait, &a.path, &list[0].path)
		a.path = list[0].path
	}
	return true
}
