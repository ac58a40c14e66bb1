package straggler

import (
	"slices"
	"strconv"
	"strings"
)

type rankState struct {
	info Rank
	// groups lists the groups of the rank in order of first use; pieces refer to them by index.
	groups   []groupName
	steps    store
	last     tail
	device   progress // progress of the device: its last step and the number of its operations in it
	any      bool
	disputed int // steps that were added twice with different content, for example by two writers
}

// progress is the position of a device, or of a rank within the collectives of a group: a step and a count
// within it.
type progress struct {
	step int64
	n    int
}

func (p progress) isBefore(o progress) bool { return p.step < o.step || p.step == o.step && p.n < o.n }

type groupName struct {
	name string
	size int // 0 if unknown
	// Number of collectives launched, and number of those that a device ran.
	launched, ran int64
}

// group returns the number of a process group. Groups beyond the largest number share the last one.
func (rs *rankState) group(name string, size int) uint16 {
	i := slices.IndexFunc(rs.groups, func(g groupName) bool { return g.name == name })
	if i < 0 {
		i = len(rs.groups)
		if i == 1<<16-1 {
			return uint16(i - 1)
		}
		rs.groups = append(rs.groups, groupName{name: name})
	}
	rs.groups[i].size = max(rs.groups[i].size, size)
	return uint16(i)
}

// peerPrefix begins the name of the group of messages to and from one rank. Process groups have other names.
const peerPrefix = "\x00rank "

// groupOf returns the number of the group of a communication span: of its process group, or of its peer.
func (rs *rankState) groupOf(sp *Span) uint16 {
	switch {
	case sp.Meeting != Send && sp.Meeting != Receive:
		return rs.group(sp.Group, sp.GroupSize)
	case sp.Peer > 0:
		return rs.group(peerPrefix+strconv.Itoa(sp.Peer-1), 0)
	}
	return rs.group("", 0)
}

// peer returns the rank that messages of a group are exchanged with, or -1 if it is a process group.
func (n *groupName) peer() int {
	rest, ok := strings.CutPrefix(n.name, peerPrefix)
	if rank, err := strconv.Atoi(rest); ok && err == nil {
		return rank
	}
	return -1
}

// countLaunch counts the launch of a collective of a group, or its run on a device.
func (rs *rankState) countLaunch(name string, size int, device bool) {
	if g := &rs.groups[rs.group(name, size)]; device {
		g.ran++
	} else {
		g.launched++
	}
}

// describe merges info into the description of the rank. The result does not depend on the order of calls.
func (rs *rankState) describe(info Rank) {
	rs.info.Host = max(rs.info.Host, info.Host)
	rs.info.Role = max(rs.info.Role, info.Role)
	rs.info.LastSeen = max(rs.info.LastSeen, info.LastSeen)
	rs.info.Ended = rs.info.Ended || info.Ended
	rs.info.Cut = rs.info.Cut || info.Cut
	rs.info.Sampled = rs.info.Sampled || info.Sampled
	rs.info.Loader = max(rs.info.Loader, info.Loader)
	for k, p := range info.Pauses {
		was := &rs.info.Pauses[k]
		was.Longest, was.Since = max(was.Longest, p.Longest), max(was.Since, p.Since)
	}
}

// addTail keeps the tail of the latest step; of two versions of a step it keeps the more complete one.
func (rs *rankState) addTail(t tail) {
	if p := (progress{t.step, t.device}); t.device > 0 && rs.device.isBefore(p) {
		rs.device = p
	}
	switch {
	case rs.any && t.step < rs.last.step:
	case rs.any && t.step == rs.last.step && (t.lastEnd < rs.last.lastEnd || t.lastEnd == rs.last.lastEnd && len(t.open) < len(rs.last.open)):
	default:
		t.entered = append(rs.last.entered[:0], t.entered...) // copy: the reducer reuses its buffer
		rs.any, rs.last = true, t
	}
}
