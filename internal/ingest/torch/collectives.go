package torch

import (
	"cmp"
	"slices"
	"strings"
)

// maxCollectives bounds how many collectives of one rank are matched with those
// of the others.
const maxCollectives = 1 << 20

// rankCollective is a collective of one rank, times with the base added.
type rankCollective struct {
	group      string // process group: its name and its ranks, as far as known
	op         string
	bytes      int64 // -1 if unknown, or if the ranks differ
	step, seq  int64 // step number, number in the group; -1 if unknown
	start, end int64
	row        int64 // the number of its row
	size       int32 // ranks in the group, -1 if unknown
	src, dst   int32
	symmetric  bool // all ranks leave it at the same time
	host       bool // run by the host
}

// groupName returns the readable part of a group.
func groupName(group string) string {
	name, _, _ := strings.Cut(group, "\x00")
	return name
}

// sameAs reports whether two ranks can have run the same collective.
func (c *rankCollective) sameAs(d *rankCollective) bool {
	return c.op == d.op && (c.bytes == d.bytes || c.bytes < 0 || d.bytes < 0)
}

// tolerance returns by how much the ends of one collective may differ between
// ranks, in nanoseconds, because host threads wake up late.
func (c *rankCollective) tolerance() int64 {
	if c.host {
		return 500_000
	}
	return 50_000
}

// commWait has the facts about a collective that follow from the records of the
// other ranks.
type commWait struct {
	wait     int64 // ns until the last rank arrived
	lastRank int64 // -1 if the axis is not accurate enough
	ranks    int   // ranks that were compared
}

// commTable holds the collectives of a file.
type commTable struct {
	list       []rankCollective
	groupRanks map[string]memberList // of the process groups that the file describes
	groups     map[string]string     // interned names
}

// memberList is a list of the ranks of a group, as text, and its [membersKey].
type memberList struct{ text, key string }

// sort puts the collectives of device and host in order of start.
func (t *commTable) sort() {
	slices.SortFunc(t.list, func(a, b rankCollective) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.row, b.row))
	})
}

// add adds the collective of a row in a step.
func (t *commTable) add(c *collective, r *row, at *timeline, step int32, host bool) {
	if len(t.list) >= maxCollectives || c.op == "" {
		return
	}
	rc := rankCollective{
		group: t.groupOf(c), op: c.op, size: int32(c.groupSize), bytes: -1, step: -1, seq: c.seq, src: int32(c.src), dst: int32(c.dst),
		start: r.start + at.base, end: r.end + at.base, row: r.seq, symmetric: c.symmetric(), host: host,
	}
	if n, ok := at.stepNumber(step); ok {
		rc.step = n
	}
	switch c.op {
	case "all_reduce", "all_gather", "reduce_scatter":
		rc.bytes = max(c.inBytes, c.inElems)
	}
	t.list = append(t.list, rc)
}

// groupOf returns a name of a collective's process group that is the same on
// every rank.
func (t *commTable) groupOf(c *collective) string {
	members := c.members
	if known := t.groupRanks[c.pg].key; known != "" && c.pg != "" {
		members = known
	}
	key := c.pg + "\x00" + members
	if t.groups == nil {
		t.groups = map[string]string{}
	}
	if held, ok := t.groups[key]; ok {
		return held
	}
	t.groups[key] = key
	return key
}
