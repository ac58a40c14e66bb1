package account

import (
	"cmp"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Ranks wait for each other in collectives, in the set-up of communication and in the
// rendezvous of a start. Package meet decides how long, and for whom. A meeting of which not
// all members are on record is unmatched: all of it counts as communication. So is one that a
// rank has twice, because it ran a step again. Where a device does the work the host only
// asks for its collectives, and nothing is compared.
//
// A wait for a collective that is not on record itself, as DistributedDataParallel waits for
// its reduction, is a meeting like one. Where collectives are asked for on record, how long a
// rank waits for them also depends on when it asked, and the waits are communication.

// meetKind is one kind of meetings of a process.
type meetKind struct {
	group string // of processes, empty where all ranks take part
	size  int    // of the group, 0 where that is not recorded
	op    string // which collective
}

// maxMeetKinds bounds the kinds of one attempt. Meetings beyond are not compared.
const maxMeetKinds = 1 << 12

// setUp is the op of the meetings that are no collectives: communication that is set up.
const setUp = "set-up"

// waiting is the op of waits for collectives, and message that of messages that a rank receives.
const (
	waiting = "wait"
	message = "receive"
)

// meetKindOf returns what kind of meeting a span is, false where it is none.
func meetKindOf(s *job.Span) (meetKind, bool) {
	switch {
	case s.Class == vocab.ClassCollective:
		// One that was only asked for here keeps nobody waiting here.
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

// group is that of the processes of a kind.
func (k *meetKind) of() meet.Group {
	return meet.Group{Name: k.group, Size: k.size, SetUp: k.op == setUp}
}

// meetKinds are those of a process, numbered from 1 in the order in which they came.
type meetKinds struct {
	list  []meetKind
	of    map[meetKind]uint16
	asked bool // a collective was only asked for
}

// groups returns the groups of the kinds, numbered in the order in which they came: where
// in it each kind is.
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

// number returns that of the meeting that a span is, 0 where it is none.
func (m *meetKinds) number(s *job.Span) uint16 {
	k, ok := meetKindOf(s)
	if !ok {
		m.asked = m.asked || s.Class == vocab.ClassCollective && s.Async
		return 0
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

// joins finds whose collectives the waits are for, and reports whether they are meetings.
// They are of the one group that is on record, or of all ranks where none is.
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

// The columns of meetings. Those inside of iterations have the index of one, its
// anchor, the number of the kind, which one of its group it is there, and a duration; those
// outside have the anchor of the iteration before, the kind, which one of its group it is
// after that, start and duration.
const (
	insideColumns  = 5
	outsideColumns = 5
)

// mostInside is how many meetings of a group an iteration keeps apart. The rest of them are
// added up, and what ranks waited in these is at least what they waited in the sums.
const mostInside = 24

// The places of meetings that are added up.
const (
	folded   = -1 // of an iteration
	windowed = -2 // of the iterations of a window
)

// meetings takes the meetings of one process as they are found.
type meetings struct {
	inside, outside rowPacker
	groups          []uint16 // of each kind
	iteration       int      // that of the counts
	anchor          int64
	counts          []meetCount // of each group
	before          int         // how many iterations began before
	after           []int       // of each group
}

type meetCount struct {
	n    int
	kind uint16
	rest int64 // duration of those beyond mostInside
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

// anchor is what ranks call an iteration: its number or, where any of the process has none,
// how many came before it.
func (a *attempt) anchor(its []iteration, i int) int64 {
	if i < 0 {
		return -1
	}
	if a.unnumbered == 0 {
		return its[i].number
	}
	return int64(i)
}

// meeting is one meeting of the ranks of an attempt of the job.
type meeting struct {
	group  int32 // of one attempt of the job
	place  int32
	anchor int64
	inside bool
}

// table has the meetings of a job.
type table struct {
	of    map[meeting]meet.Meeting
	least map[messageStep]int64
	peers map[*attempt][2]int  // the ranks of the stages before and after, -1 without one
	sizes []int                // of groups: how many members are expected
	group map[*attempt][]int32 // the group of each kind of an attempt
	ops   map[string]uint32
}

// meet returns the meetings of all ranks. It is made when it is first asked for.
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
				if at.place >= 0 { // what is added up may be of several
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

// opsOf numbers the collectives of the kinds of an attempt, from 1.
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

// nameGroups numbers the groups of one attempt of the job, of all its ranks in order.
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

// outside calls fn with the meetings of an attempt in no iteration.
func (t *table) outside(a *attempt, fn func(m meeting, kind, start, took int64)) {
	groups := t.group[a]
	for cols, n := range a.packed.outside.blocks(outsideColumns) {
		for i := range n {
			fn(meeting{group: groups[cols[1][i]-1], anchor: cols[0][i], place: int32(cols[2][i])}, cols[1][i], cols[3][i]+a.packed.shift, cols[4][i])
		}
	}
}

// waited returns how long a meeting kept its member waiting, and for which rank. It is not
// known where not all members are on record. A rank alone waits for nobody.
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

// waits returns what an attempt waited outside of its iterations, in order, and how long it
// was in meetings there of which not all members are on record.
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
