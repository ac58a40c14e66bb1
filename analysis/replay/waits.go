package replay

import (
	"math"
)

type meetKey struct {
	group int
	lane  uint8
}

// lastOf counts the rank that the others waited for longest in a round.
func (rp *replayer) lastOf(s int) {
	last := -1
	for r, w := range rp.roundOf {
		if w > 0 && (last < 0 || w > rp.roundOf[last]) {
			last = r
		}
	}
	if last >= 0 && s >= rp.j.from {
		rp.out.late[last]++
	}
	clear(rp.roundOf)
}

// joined notes the wait of a host for a lane: what the lane itself waited for others
// is a wait for these, the rest transfer.
func (rp *replayer) joined(r int, l *actor, took float64) {
	wait := min(took, l.waited)
	rp.out.transfer[rp.j.at(rp.s, r)] += float32(took - wait)
	if l.culprit >= 0 {
		rp.waits(r, l.culprit, wait)
	}
}

// waits notes that a rank waited for another one.
func (rp *replayer) waits(r, culprit int, wait float64) {
	rp.out.wait[rp.j.at(rp.s, r)] += float32(wait)
	rp.roundOf[culprit] += wait
	if rp.s >= rp.j.from {
		rp.out.caused[culprit] += wait
	}
}

// account notes who waited for whom.
func (rp *replayer) account(m *meeting) {
	o, j := rp.out, rp.j
	key := meetKey{m.group, m.lane}
	list := o.transfers[key]
	if list == nil {
		list = make([]float64, len(j.steps))
		for i := range list {
			list[i] = math.NaN()
		}
		o.transfers[key] = list
	}
	if v := list[rp.s]; v == v {
		list[rp.s] += float64(m.transfer)
	} else {
		list[rp.s] = float64(m.transfer)
	}
	for _, w := range m.waiters {
		wait := m.arrival[0] - w.arrival
		if w.a.lane == 1 { // it costs nothing until somebody joins
			if w.a.waited += wait; wait > 0 {
				w.a.culprit = m.last
			}
			continue
		}
		o.transfer[j.at(rp.s, w.a.rank)] += float32(m.transfer)
		rp.waits(w.a.rank, m.last, wait)
	}
}
