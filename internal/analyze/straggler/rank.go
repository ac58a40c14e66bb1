package straggler

import "slices"

type rankState struct {
	info Rank
	// groups are those that the rank met, in that order: pieces number them from 0.
	groups   []groupName
	steps    store
	last     tail
	device   progress // of a device: the last step of which it did something
	any      bool
	disputed int // steps that came twice and differed, as from two writers
}

// progress is how far a device has come, or a rank with the collectives of a group: to
// which step, and how many of it.
type progress struct {
	step int64
	n    int
}

func (p progress) isBefore(o progress) bool { return p.step < o.step || p.step == o.step && p.n < o.n }

type groupName struct {
	name string
	size int // zero where it is not known
	// How many collectives were launched, and how many of them a device was seen in.
	launched, ran int64
}

// group numbers a process group; what is beyond the numbers is the last one.
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

// countLaunch counts the launch of a collective of a group, or what a device did of it.
func (rs *rankState) countLaunch(name string, size int, device bool) {
	if g := &rs.groups[rs.group(name, size)]; device {
		g.ran++
	} else {
		g.launched++
	}
}

// describe is symmetric in what was known and what is new, so that merged states do
// not depend on an order.
func (rs *rankState) describe(info Rank) {
	rs.info.Host = max(rs.info.Host, info.Host)
	rs.info.Role = max(rs.info.Role, info.Role)
	rs.info.LastSeen = max(rs.info.LastSeen, info.LastSeen)
	rs.info.Ended = rs.info.Ended || info.Ended
	rs.info.Cut = rs.info.Cut || info.Cut
	rs.info.Loader = max(rs.info.Loader, info.Loader)
	for k, p := range info.Pauses {
		was := &rs.info.Pauses[k]
		was.Longest, was.Since = max(was.Longest, p.Longest), max(was.Since, p.Since)
	}
}

// addTail keeps the latest step; of two versions the one that knows more.
func (rs *rankState) addTail(t tail) {
	if p := (progress{t.step, t.device}); t.device > 0 && rs.device.isBefore(p) {
		rs.device = p
	}
	switch {
	case rs.any && t.step < rs.last.step:
	case rs.any && t.step == rs.last.step && (t.lastEnd < rs.last.lastEnd || t.lastEnd == rs.last.lastEnd && len(t.open) < len(rs.last.open)):
	default:
		t.entered = append(rs.last.entered[:0], t.entered...) // the reducer needs its own again
		rs.any, rs.last = true, t
	}
}
