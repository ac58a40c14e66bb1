package account

import (
	"cmp"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Ranks wait for each other in collectives, in the set-up of communication and in the
// rendezvous of a start. Such a meeting costs each of its members at least what it cost the
// one that came last, which waited for nobody: the shortest duration of the members is
// communication, and what another member spent beyond it is waiting, for the rank with the
// shortest. Durations of ranks are compared, never their clocks. A meeting of which not all
// members are on record is unmatched: all of it counts as communication. So is one that a
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

// waiting is the op of waits for collectives.
const waiting = "wait"

// meetKindOf returns what kind of meeting a span is, false where it is none.
func meetKindOf(s *job.Span) (meetKind, bool) {
	switch {
	case s.Class == vocab.ClassCollective:
		// One that was only asked for here keeps nobody waiting here.
		if s.Async || s.Kind == "send" || s.Kind == "receive" {
			return meetKind{}, false
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

// meetKinds are those of a process, numbered from 1 in the order in which they came.
type meetKinds struct {
	list  []meetKind
	of    map[meetKind]uint16
	asked bool // a collective was only asked for
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
		case k.op == setUp || k.op == waiting:
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
// anchor, the number of the kind, which one of its kind it is there, and a duration; those
// outside have the anchor of the iteration before, the kind, which one of its kind it is
// after that, start and duration.
const (
	insideColumns  = 5
	outsideColumns = 5
)

// mostInside is how many meetings of a kind an iteration keeps apart. The rest of them are
// added up, and what ranks waited in these is at least what they waited in the sums.
const mostInside = 8

// The places of meetings that are added up.
const (
	folded   = -1 // of an iteration
	windowed = -2 // of the iterations of a window
)

// meetings takes the meetings of one process as they are found.
type meetings struct {
	inside, outside rowPacker
	iteration       int // that of the counts
	anchor          int64
	counts          map[uint16]*meetCount
	order           []uint16 // the kinds that were folded, in the order in which they came
	before          int      // how many iterations began before
	after           map[uint16]int
}

type meetCount struct {
	n    int
	rest int64 // duration of those beyond mostInside
}

// in adds a meeting inside of an iteration.
func (m *meetings) in(iteration int, anchor int64, kind uint16, took int64) {
	if m.counts == nil || m.iteration != iteration {
		m.fold()
		m.counts, m.iteration, m.anchor = make(map[uint16]*meetCount), iteration, anchor
	}
	c := m.counts[kind]
	if c == nil {
		c = new(meetCount)
		m.counts[kind] = c
	}
	if c.n++; c.n <= mostInside {
		m.inside.add(int64(iteration), anchor, int64(kind), int64(c.n-1), took)
		return
	}
	if c.n == mostInside+1 {
		m.order = append(m.order, kind)
	}
	c.rest += took
}

// fold adds the sums of the last iteration.
func (m *meetings) fold() {
	for _, k := range m.order {
		m.inside.add(int64(m.iteration), m.anchor, int64(k), folded, m.counts[k].rest)
	}
	m.order = m.order[:0]
}

// out adds a meeting outside of iterations.
func (m *meetings) out(a *attempt, its []iteration, kind uint16, start, took int64) {
	for m.before < len(its) && its[m.before].start <= start {
		m.before++
		clear(m.after)
	}
	if m.after == nil {
		m.after = make(map[uint16]int)
	}
	m.outside.add(a.anchor(its, m.before-1), int64(kind), int64(m.after[kind]), start, took)
	m.after[kind]++
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

// least is what a meeting cost the rank that came last.
type least struct {
	took  int64
	rank  int // which
	n     int // members on record
	last  int // the rank that was added last
	twice bool
}

// table has the meetings of a job.
type table struct {
	of    map[meeting]least
	sizes []int                // of groups: how many members are expected
	group map[*attempt][]int32 // the group of each kind of an attempt
}

// meet returns the meetings of all ranks. It is made when it is first asked for.
func (l *Ledger) meet() *table {
	l.meeting.Lock()
	defer l.meeting.Unlock()
	if l.table != nil {
		return l.table
	}
	t := &table{of: make(map[meeting]least), group: make(map[*attempt][]int32)}
	for number, ids := range l.having {
		var all []*attempt
		for _, id := range ids {
			of := l.ranks[id].attempts
			at, _ := slices.BinarySearchFunc(of, number, func(a *attempt, n int) int { return cmp.Compare(a.Attempt, n) })
			all = append(all, of[at])
		}
		t.nameGroups(all, l.expected)
		for _, a := range all {
			add := func(m meeting, took int64) {
				v, ok := t.of[m]
				v.twice = v.twice || ok && v.last == a.Rank
				if v.n++; !ok || took < v.took {
					v.took, v.rank = took, a.Rank
				}
				v.last = a.Rank
				t.of[m] = v
			}
			t.inside(a, func(m meeting, _ int, took int64) { add(m, took) })
			t.outside(a, func(m meeting, _, took int64) { add(m, took) })
		}
	}
	l.table = t
	return t
}

// nameGroups numbers the groups of one attempt of the job, of all its ranks in order. Where
// more ranks use a name than its group has members, each rank has one of that name: they are
// told apart by place.
func (t *table) nameGroups(all []*attempt, expected int) {
	type group struct {
		name string
		part int
		op   string
	}
	users, sizes := make(map[string]int), make(map[string]int)
	place := make([]map[string]int, len(all)) // of each rank among the users of a name
	for i, a := range all {
		place[i] = make(map[string]int)
		for _, k := range a.meets {
			if _, ok := place[i][k.group]; !ok {
				place[i][k.group] = users[k.group]
				users[k.group]++
			}
			sizes[k.group] = max(sizes[k.group], k.size)
		}
	}
	numbers := make(map[group]int32)
	for i, a := range all {
		list := make([]int32, len(a.meets))
		for j, k := range a.meets {
			n, size, part := users[k.group], sizes[k.group], 0
			switch {
			case k.group == "":
				size = max(expected, len(all))
			case size == 0:
				size = n
			case n > size && n%size == 0:
				part = place[i][k.group] / size
			}
			g := group{k.group, part, k.op}
			at, ok := numbers[g]
			if !ok {
				at = int32(len(t.sizes))
				numbers[g], t.sizes = at, append(t.sizes, size)
			}
			list[j] = at
		}
		t.group[a] = list
	}
}

// inside calls fn with the meetings of an attempt in its iterations.
func (t *table) inside(a *attempt, fn func(m meeting, iteration int, took int64)) {
	groups := t.group[a]
	for cols, n := range a.packed.inside.blocks(insideColumns) {
		for i := range n {
			fn(meeting{group: groups[cols[2][i]-1], anchor: cols[1][i], place: int32(cols[3][i]), inside: true}, int(cols[0][i]), cols[4][i])
		}
	}
}

// outside calls fn with the meetings of an attempt in no iteration.
func (t *table) outside(a *attempt, fn func(m meeting, start, took int64)) {
	groups := t.group[a]
	for cols, n := range a.packed.outside.blocks(outsideColumns) {
		for i := range n {
			fn(meeting{group: groups[cols[1][i]-1], anchor: cols[0][i], place: int32(cols[2][i])}, cols[3][i]+a.packed.shift, cols[4][i])
		}
	}
}

// waited returns how long a meeting kept its member waiting, and for which rank. It is not
// known where not all members are on record.
func (t *table) waited(m meeting, took int64) (wait int64, rank int, known bool) {
	v, size := t.of[m], t.sizes[m.group]
	return took - v.took, v.rank, size < 2 || v.n == size && !v.twice
}

// wait is time in which a rank waited for another one.
type wait struct {
	from, to int64
	rank     int // for which
}

// waits returns what an attempt waited outside of its iterations, in order, and how long it
// was in meetings there of which not all members are on record.
func (t *table) waits(a *attempt) (waits []wait, unmatched int64) {
	t.outside(a, func(m meeting, start, took int64) {
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
