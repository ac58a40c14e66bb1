package account

import (
	"cmp"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Ranks wait for each other in collectives, in the set-up of communication and in the
// rendezvous of a start. Package meet decides how long, and for whom. A meeting is unmatched
// if a member has no record of it, or if a rank has it twice because it repeated a step: all
// of its time counts as communication. If a device does the work, the host only launches its
// collectives, and nothing is compared.
//
// A wait for a collective that has no record itself is also a meeting: DistributedDataParallel
// waits for its reduction like this. If the launches of collectives are recorded, the length
// of a wait also depends on the time of the launch, so the waits are communication.

// meetKind identifies meetings of a process that have the same group and operation.
type meetKind struct {
	group string // process group, empty for all ranks
	size  int    // of the group, 0 if not recorded
	op    string // the collective, or one of the constants below
}

// maxMeetKinds limits the kinds of one attempt. Meetings of further kinds are not compared.
const maxMeetKinds = 1 << 12

// setUp is the op of the set-up of communication, which is not a collective.
const setUp = "set-up"

// waiting is the op of waits for collectives, and message the op of received messages.
const (
	waiting = "wait"
	message = "receive"
)

// meetKindOf returns the kind of a meeting, or false if the span is not a meeting.
func meetKindOf(s *job.Span) (meetKind, bool) {
	switch {
	case s.Class == vocab.ClassCollective:
		// A launch does not wait.
		if s.Async || s.Kind == "send" {
			return meetKind{}, false
		}
		if s.Kind == message {
			return meetKind{op: message}, true
		}
		k := meetKind{group: s.Group, op: s.Kind}
		if k.group != "" {
			k.size = s.GroupSize
		}
		return k, true
	case s.Class == vocab.ClassCommInit, s.Class == vocab.ClassStartUp && startUpPrefix+Category(s.Kind) == StartupRendezvous:
		return meetKind{op: setUp}, true
	}
	return meetKind{}, false
}

// of returns the process group of a kind.
func (k *meetKind) of() meet.Group {
	return meet.Group{Name: k.group, Size: k.size, SetUp: k.op == setUp}
}

// meetKinds holds the kinds of a process, numbered from 1 in the order of first use.
type meetKinds struct {
	list  []meetKind
	of    map[meetKind]uint16
	asked bool // a launch of a collective was recorded
}

// fewKinds is the number of kinds that are searched one by one.
const fewKinds = 8

// groups numbers the groups of the kinds in the order of first use. It returns the number
// of the group of each kind.
func groups(kinds []meetKind) (at []uint16) {
	var names []meet.Group
	for i := range kinds {
		g := kinds[i].of()
		g.Size = 0
		k := slices.Index(names, g)
		if k < 0 {
			k = len(names)
			names = append(names, g)
		}
		at = append(at, uint16(k))
	}
	return at
}

// number returns the number of the kind of a span, or 0 if the span is not a meeting.
func (m *meetKinds) number(s *job.Span) uint16 {
	switch s.Class {
	case vocab.ClassCollective, vocab.ClassCommInit, vocab.ClassStartUp:
	default:
		return 0
	}
	k, ok := meetKindOf(s)
	if !ok {
		m.asked = m.asked || s.Class == vocab.ClassCollective && s.Async
		return 0
	}
	for i := range m.list[:min(len(m.list), fewKinds)] {
		if m.list[i] == k { // faster than a map
			return uint16(i + 1)
		}
	}
	n, ok := m.of[k]
	if !ok && len(m.list) < maxMeetKinds {
		if m.of == nil {
			m.of = make(map[meetKind]uint16)
		}
		m.list = append(m.list, k)
		n = uint16(len(m.list))
		m.of[k] = n
	}
	return n
}

// joins sets the group of the waits for collectives, and reports whether they are meetings.
// The group is the only recorded one, or all ranks if no group is recorded.
func (m *meetKinds) joins() bool {
	var of meetKind
	for _, k := range m.list {
		switch {
		case k.op == setUp || k.op == waiting || k.op == message:
		case of.op == "":
			of = k
		case of.group != k.group:
			return false
		}
	}
	for i := range m.list {
		if k := &m.list[i]; k.op == waiting && k.group == "" {
			k.group, k.size = of.group, of.size
		}
	}
	return !m.asked
}

// The columns of meetings. A meeting inside of an iteration has the index of the iteration,
// its anchor, the number of the kind, the index among the meetings of the group in that
// iteration, and the duration. A meeting outside has the anchor of the iteration before, the
// kind, the index among the meetings of the group after that iteration, start and duration.
const (
	insideColumns  = 5
	outsideColumns = 5
)

// mostInside is the number of meetings of a group that are stored separately per iteration.
// The rest are added up. The wait computed from the sums is a lower bound.
const mostInside = 24

// The places of meetings that are added up.
const (
	folded   = -1 // sum over an iteration
	windowed = -2 // sum over the iterations of a window
)

// meetings collects the meetings of one process in order.
type meetings struct {
	inside, outside rowPacker
	groups          []uint16 // of each kind
	iteration       int      // of the counts
	anchor          int64
	counts          []meetCount // of each group
	before          int         // the number of iterations that began before
	after           []int       // by group: the number of meetings since then
}

type meetCount struct {
	n    int
	kind uint16
	rest int64 // duration of the meetings beyond mostInside
}

// in adds a meeting inside of an iteration.
func (m *meetings) in(iteration int, anchor int64, kind uint16, took int64) {
	if m.counts == nil || m.iteration != iteration {
		m.fold()
		m.iteration, m.anchor = iteration, anchor
	}
	c := &m.counts[m.groups[kind-1]]
	if c.n++; c.n <= mostInside {
		m.inside.add(int64(iteration), anchor, int64(kind), int64(c.n-1), took)
		return
	}
	c.kind = kind
	c.rest += took
}

// fold adds the sums of the last iteration.
func (m *meetings) fold() {
	for i := range m.counts {
		if c := &m.counts[i]; c.n > mostInside {
			m.inside.add(int64(m.iteration), m.anchor, int64(c.kind), folded, c.rest)
		}
	}
	if m.counts == nil {
		m.counts = make([]meetCount, len(m.groups))
	}
	clear(m.counts)
}

// out adds a meeting outside of iterations.
func (m *meetings) out(a *attempt, its []iteration, kind uint16, start, took int64) {
	if m.after == nil {
		m.after = make([]int, len(m.groups))
	}
	for m.before < len(its) && its[m.before].start <= start {
		m.before++
		clear(m.after)
	}
	nth := &m.after[m.groups[kind-1]]
	m.outside.add(a.anchor(its, m.before-1), int64(kind), int64(*nth), start, took)
	*nth++
}

// anchor returns the key of iteration i that ranks have in common: its number, or its index
// if any iteration of the process has no number. It is -1 before the first iteration.
func (a *attempt) anchor(its []iteration, i int) int64 {
	if i < 0 {
		return -1
	}
	if a.unnumbered == 0 {
		return its[i].number
	}
	return int64(i)
}

// meeting identifies one meeting of the ranks of an attempt of the job.
type meeting struct {
	group  int32 // of one attempt of the job
	place  int32
	anchor int64
	inside bool
}

// table holds the meetings of a job.
type table struct {
	of    map[meeting]meet.Meeting
	least map[messageStep]int64
	peers map[*attempt][2]int  // the ranks in the stages before and after, -1 if none
	sizes []int                // by group: the number of expected members
	group map[*attempt][]int32 // the group of each kind of an attempt
	ops   map[string]uint32
}

// meet returns the meetings of all ranks. It builds the table on first use.
func (l *Ledger) meet() *table {
	l.meeting.Lock()
	defer l.meeting.Unlock()
	if l.table != nil {
		return l.table
	}
	t := &table{of: make(map[meeting]meet.Meeting), least: make(map[messageStep]int64), peers: make(map[*attempt][2]int), group: make(map[*attempt][]int32), ops: make(map[string]uint32)}
	for number, ids := range l.having {
		var all []*attempt
		for _, id := range ids {
			of := l.ranks[id].attempts
			at, _ := slices.BinarySearchFunc(of, number, func(a *attempt, n int) int { return cmp.Compare(a.Attempt, n) })
			all = append(all, of[at])
		}
		t.nameGroups(all, l.expected)
		t.findPeers(all)
		for _, a := range all {
			ops := t.opsOf(a)
			enter := func(at meeting, kind int64, took int64) {
				op := uint32(0)
				if at.place >= 0 { // a sum may be of several operations
					op = ops[kind-1]
				}
				m := t.of[at]
				m.Enter(a.Rank, op, took)
				t.of[at] = m
			}
			t.inside(a, func(m meeting, kind int64, _ int, took int64) { enter(m, kind, took) })
			t.outside(a, func(m meeting, kind, _, took int64) { enter(m, kind, took) })
			t.enterMessages(a)
		}
	}
	l.table = t
	return t
}

// opsOf returns the number, from 1, of the operation of each kind of an attempt.
func (t *table) opsOf(a *attempt) (out []uint32) {
	for i := range a.meets {
		n, ok := t.ops[a.meets[i].op]
		if !ok {
			n = uint32(len(t.ops) + 1)
			t.ops[a.meets[i].op] = n
		}
		out = append(out, n)
	}
	return out
}

// nameGroups numbers the groups of one attempt of the job. The argument all holds that
// attempt of every rank, in order.
func (t *table) nameGroups(all []*attempt, expected int) {
	ranks := make([][]meet.Group, len(all))
	for i, a := range all {
		for k := range a.meets {
			ranks[i] = append(ranks[i], a.meets[k].of())
		}
	}
	named := meet.NumberGroups(ranks)
	first := len(t.sizes)
	for i := range named.List {
		t.sizes = append(t.sizes, named.List[i].Expected(max(expected, len(all))))
	}
	for i, a := range all {
		list := make([]int32, len(a.meets))
		for k, n := range named.Number[i] {
			list[k] = int32(first + n)
		}
		t.group[a] = list
	}
}

// inside calls fn with the meetings of an attempt in its iterations.
func (t *table) inside(a *attempt, fn func(m meeting, kind int64, iteration int, took int64)) {
	groups := t.group[a]
	for cols, n := range a.packed.inside.blocks(insideColumns) {
		for i := range n {
			fn(meeting{group: groups[cols[2][i]-1], anchor: cols[1][i], place: int32(cols[3][i]), inside: true}, cols[2][i], int(cols[0][i]), cols[4][i])
		}
	}
}

// outside calls fn with the meetings of an attempt outside of its iterations.
func (t *table) outside(a *attempt, fn func(m meeting, kind, start, took int64)) {
	groups := t.group[a]
	for cols, n := range a.packed.outside.blocks(outsideColumns) {
		for i := range n {
			fn(meeting{group: groups[cols[1][i]-1], anchor: cols[0][i], place: int32(cols[2][i])}, cols[1][i], cols[3][i]+a.packed.shift, cols[4][i])
		}
	}
}

// waited returns how long a member waited in a meeting, and for which rank. known is false
// if a member has no record of the meeting. In a group of one rank the wait is 0.
func (t *table) waited(at meeting, took int64) (wait int64, rank int, known bool) {
	m, size := t.of[at], t.sizes[at.group]
	if size < 2 {
		return 0, m.Last, true
	}
	return m.Wait(took), m.Last, m.IsWhole(size)
}

// wait is time in which a rank waited for another one.
type wait struct {
	from, to int64
	rank     int // for which
}

// waits returns the waits of an attempt outside of its iterations, in order, and its total
// time in unmatched meetings there.
func (t *table) waits(a *attempt) (waits []wait, unmatched int64) {
	t.outside(a, func(m meeting, _, start, took int64) {
		switch d, rank, known := t.waited(m, took); {
		case !known:
			unmatched += took
		case d > 0:
			waits = append(waits, wait{start, start + d, rank})
		}
	})
	slices.SortFunc(waits, func(x, y wait) int { return cmp.Compare(x.from, y.from) })
	return waits, unmatched
}
