package account

import (
	"math"
	"slices"
	"strings"

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
	peer  int    // of a message: the sending rank plus 1, 0 if not recorded
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

// meetKindOf returns the kind of a meeting, or false if the communication is no meeting.
func meetKindOf(op *Op) (meetKind, bool) {
	switch op.Kind {
	case "send":
		return meetKind{}, false
	case message, setUp:
		return meetKind{op: op.Kind, peer: op.Peer}, true
	}
	k := meetKind{group: op.Group, op: op.Kind}
	if k.group != "" {
		k.size = op.Size
	}
	return k, true
}

// of returns the process group of a kind.
func (k *meetKind) of() meet.Group {
	return meet.Group{Name: k.group, Size: k.size, SetUp: k.op == setUp}
}

// Op is a kind of communication as a process recorded it.
type Op struct {
	Kind  string // the collective, "send", "receive" or "wait"
	Group string // process group, see [meet.Group]; empty for all ranks
	Size  int    // of the group, 0 if not recorded
	Peer  int    // the other rank of a message plus 1, 0 if not recorded
}

// ops holds the kinds of communication and of meetings of a process, numbered from 1 in the
// order of first use.
type ops struct {
	list   []Op
	of     map[Op]uint16
	meet   []uint16   // of each op: the number of its meetKind, 0 if none was used so far
	kinds  []meetKind // by number
	kindAt map[meetKind]uint16
	asked  bool // a launch of a collective was recorded
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

// number returns the number of the communication of a span and that of its kind of meeting, 0
// for none.
func (o *ops) number(s *job.Span) (op, meet uint16) {
	var c Op
	switch {
	case s.Class == vocab.ClassCollective, s.Launch != 0 && s.For == vocab.ClassCollective:
		c = Op{Kind: s.Kind, Group: s.Group, Size: s.GroupSize, Peer: s.Peer}
	case s.Class == vocab.ClassCommInit, s.Class == vocab.ClassStartUp && startUpPrefix+Category(s.Kind) == StartupRendezvous:
		c.Kind = setUp
	default:
		return 0, 0
	}
	if op = o.find(c); op == 0 {
		return 0, 0
	}
	switch {
	case s.Class != vocab.ClassCollective && c.Kind != setUp: // the work of a device
	case s.Async: // a launch does not wait
		o.asked = true
	default:
		if meet = o.meet[op-1]; meet == 0 {
			meet = o.kindOf(&c)
			o.meet[op-1] = meet
		}
	}
	return op, meet
}

func (o *ops) find(c Op) uint16 {
	for i := range o.list[:min(len(o.list), fewKinds)] {
		if o.list[i] == c { // faster than a map
			return uint16(i + 1)
		}
	}
	n, ok := o.of[c]
	if !ok && len(o.list) < math.MaxUint16 {
		if o.of == nil {
			o.of = make(map[Op]uint16)
		}
		c.Kind, c.Group = strings.Clone(c.Kind), strings.Clone(c.Group)
		o.list, o.meet = append(o.list, c), append(o.meet, 0)
		n = uint16(len(o.list))
		o.of[c] = n
	}
	return n
}

// kindOf returns the number of the meetKind of an op.
func (o *ops) kindOf(c *Op) uint16 {
	k, ok := meetKindOf(c)
	if !ok {
		return 0
	}
	n, ok := o.kindAt[k]
	if !ok && len(o.kinds) < maxMeetKinds {
		if o.kindAt == nil {
			o.kindAt = make(map[meetKind]uint16)
		}
		o.kinds = append(o.kinds, k)
		n = uint16(len(o.kinds))
		o.kindAt[k] = n
	}
	return n
}

// name tells groups apart that share a name, by their first members.
func (o *ops) name(members map[string]int) {
	named := func(group *string) {
		if first, ok := members[*group]; ok {
			*group = meet.Named(*group, first)
		}
	}
	for i := range o.list {
		named(&o.list[i].Group)
	}
	for i := range o.kinds {
		named(&o.kinds[i].group)
	}
}

// joins sets the group of the waits for collectives, and reports whether they are meetings.
// The group is the only recorded one, or all ranks if no group is recorded.
func (o *ops) joins() bool {
	var of meetKind
	for _, k := range o.kinds {
		switch {
		case k.op == setUp || k.op == waiting || k.op == message:
		case of.op == "":
			of = k
		case of.group != k.group:
			return false
		}
	}
	for i := range o.kinds {
		if k := &o.kinds[i]; k.op == waiting && k.group == "" {
			k.group, k.size = of.group, of.size
		}
	}
	return !o.asked
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
