package straggler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Waits is the wait budget of the judged steps: how long ranks waited, for which rank, in which group, and
// for which work of the last rank to arrive. Times are microseconds summed over ranks: two ranks that wait
// for a second count as two seconds. Cells add up to Total, and so do Group and Phases.
type Waits struct {
	Total int64 `json:"total_us"`
	// Share is Total as a fraction of the time of all ranks in the judged steps.
	Share float64 `json:"share"`
	// Bubble is the time that ranks waited for messages: the pipeline bubble.
	Bubble int64 `json:"bubble_us,omitempty"`
	// By is the unit of Names: "rank", or "host" or "ranks" (ranges) for more than 64 ranks.
	By    string     `json:"by"`
	Names []string   `json:"names"`
	Cells []WaitCell `json:"cells"`  // largest first
	Group []WaitPart `json:"groups"` // by process group; "messages" between pipeline stages
	// Phases splits the waits by the work that the critical path to the last rank has more of than the path
	// to the waiting rank. This may be work of a third rank that the last rank waited for. "communication" is
	// transfers.
	Phases []WaitPart `json:"phases"`
}

// WaitCell is how long the ranks of one name waited for those of another, given by their indexes in Names.
type WaitCell struct {
	Waiter int   `json:"waiter"`
	For    int   `json:"for"`
	Time   int64 `json:"us"`
}

// WaitPart is a part of the wait budget.
type WaitPart struct {
	Name string `json:"name"`
	Time int64  `json:"us"`
}

// RankOf returns the rank of the i-th name; ok is false if names are not ranks.
func (w *Waits) RankOf(i int) (rank int, ok bool) {
	if w.By != "rank" {
		return 0, false
	}
	rank, err := strconv.Atoi(w.Names[i])
	return rank, err == nil
}

const mostWaitNames = 64

// messages is the number of messages in place of that of a group.
const messages = -2

// groupName returns the name of a group, or of all ranks or messages, in a wait budget.
func (g *graph) groupName(group int) string {
	switch {
	case group == messages:
		return "messages"
	case group < 0 || g.groups[group].name == "":
		return "all ranks"
	}
	return g.groups[group].name
}

func (g *graph) newBudget() *budget {
	n := len(g.ranks)
	b := &budget{by: "rank", nameOf: make([]int, n), groups: make([]float64, len(g.groups)-messages)}
	hosts := map[string]bool{}
	for r := range n {
		hosts[g.info[r].Host] = true
	}
	each := (n + mostWaitNames - 1) / mostWaitNames
	name := func(r int) string { return fmt.Sprint(g.ranks[r]) }
	switch {
	case each == 1:
	case len(hosts) > 1 && len(hosts) <= mostWaitNames && !hosts[""]:
		b.by, name = "host", func(r int) string { return g.info[r].Host }
	default:
		b.by, name = "ranks", func(r int) string {
			return fmt.Sprintf("%d-%d", g.ranks[r/each*each], g.ranks[min(r/each*each+each, n)-1])
		}
	}
	for r := range n {
		i := slices.Index(b.names, name(r))
		if i < 0 {
			i, b.names = len(b.names), append(b.names, name(r))
		}
		b.nameOf[r] = i
	}
	b.cells = make([]float64, len(b.names)*len(b.names))
	return b
}

// add counts a wait of one rank for another. long is the path of the culprit, short the path of the waiter.
func (b *budget) add(waiter, culprit, group int, wait float64, short, long *path) {
	b.cells[b.nameOf[waiter]*len(b.names)+b.nameOf[culprit]] += wait
	b.groups[group-messages] += wait
	var more path
	all := 0.0
	for p := range more {
		more[p] = max(long[p]-short[p], 0)
		all += more[p]
	}
	if all == 0 {
		more[phases], all = 1, 1
	}
	for p, d := range more {
		if d > 0 {
			b.phases[p] += wait * d / all
		}
	}
}

// waits returns the wait budget, or nil if there is none.
func (j *job) waits(was *outcome) *Waits {
	b := was.budget
	if b == nil || !was.finished || j.rounds() < 1 || !was.met {
		return nil
	}
	groups := make(map[string]float64)
	for i, d := range b.groups {
		if d > 0 {
			groups[j.groupName(i+messages)] += d
		}
	}
	w := &Waits{By: b.by, Names: b.names}
	for i, d := range b.cells {
		if us := int64(math.Round(d)); us > 0 {
			w.Cells = append(w.Cells, WaitCell{i / len(b.names), i % len(b.names), us})
			w.Total += us
		}
	}
	slices.SortStableFunc(w.Cells, func(x, y WaitCell) int { return cmp.Compare(y.Time, x.Time) })
	w.Share = float64(w.Total) / (was.span(0, j.from, len(j.steps)) * float64(len(j.ranks)))
	w.Bubble = int64(math.Round(b.groups[0]))
	for name, d := range groups {
		w.Group = append(w.Group, WaitPart{name, int64(math.Round(d))})
	}
	for p, d := range b.phases {
		name := Communication.String()
		if p < int(phases) {
			name = Phase(p).String()
		}
		w.Phases = append(w.Phases, WaitPart{name, int64(math.Round(d))})
	}
	w.Group, w.Phases = settle(w.Group, w.Total), settle(w.Phases, w.Total)
	return w
}

// multiply multiplies all times.
func (w *Waits) multiply(by int64) {
	w.Total, w.Bubble = by*w.Total, by*w.Bubble
	for i := range w.Cells {
		w.Cells[i].Time *= by
	}
	for _, parts := range [...][]WaitPart{w.Group, w.Phases} {
		for i := range parts {
			parts[i].Time *= by
		}
	}
}

// settle sorts parts, the largest first, and removes those without time. The rounding error goes to the
// largest.
func settle(parts []WaitPart, total int64) []WaitPart {
	parts = slices.DeleteFunc(parts, func(p WaitPart) bool { return p.Time == 0 })
	slices.SortFunc(parts, func(x, y WaitPart) int { return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Name, y.Name)) })
	for _, p := range parts {
		total -= p.Time
	}
	if len(parts) > 0 {
		parts[0].Time += total
	}
	return parts
}

// lastOf counts the rank that the others waited for longest in a round.
func (rp *replayer) lastOf(s int) {
	last := -1
	for r, w := range rp.roundOf {
		if w > 0 && (last < 0 || w > rp.roundOf[last]) {
			last = r
		}
	}
	if last >= 0 && s >= rp.w.from {
		rp.out.late[last]++
	}
	clear(rp.roundOf)
}

// joined records the wait of a host for a lane. Time in which the lane itself waited for others is a wait for
// these; the rest is transfer.
func (rp *replayer) joined(a, l *actor, took int64) {
	wait := min(took, l.waited)
	l.waited -= wait
	rp.out.transfer[rp.w.stepIndex(rp.s, a.rank)] += float32(took - wait)
	if l.culprit >= 0 {
		rp.waits(a.rank, l.culprit, l.at, wait, &a.path, &l.path)
	}
}

// waits records that a rank waited for another one, in a group or for a message.
func (rp *replayer) waits(r, culprit, group int, wait int64, short, long *path) {
	rp.out.wait[rp.w.stepIndex(rp.s, r)] += float32(wait)
	rp.roundOf[culprit] += wait
	if rp.s >= rp.w.from && wait > 0 {
		rp.out.caused[culprit] += float64(wait)
		rp.out.budget.add(r, culprit, group, float64(wait), short, long)
	}
}

// account records which rank waited for which in a meeting. It uses recorded times: in a replay all ranks
// leave a meeting at the same time, which real hosts do only approximately.
func (rp *replayer) account(m *meeting) {
	o, w := rp.out, rp.w
	o.met = true
	list := o.transfers[m.group]
	if list == nil {
		list = slices.Repeat([]float64{math.NaN()}, len(w.steps))
		o.transfers[m.group] = list
	}
	took := float64(m.Least)
	if v := list[rp.s]; v == v {
		took += v
	}
	list[rp.s] = took
	last := slices.IndexFunc(m.waiters, func(mw waiter) bool { return mw.a.rank == m.Last })
	long := m.waiters[last].a.path
	for _, mw := range m.waiters {
		wait := m.Wait(mw.took)
		if mw.a.lane == 1 { // a wait on a lane costs nothing until the host joins
			if mw.a.waited += wait; wait > 0 {
				mw.a.culprit, mw.a.at = m.Last, m.group
			}
		} else {
			o.transfer[w.stepIndex(rp.s, mw.a.rank)] += float32(mw.took - wait)
			rp.waits(mw.a.rank, m.Last, m.group, wait, &mw.a.path, &long)
		}
		mw.a.path = long
		mw.a.path[phases] += float64(m.Least)
	}
}
