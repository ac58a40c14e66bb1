package resources

import (
	"slices"
	"time"

	"github.com/trainspan/trainspan/internal/platform/proc"
)

// tree holds the processes of commands, their descendants and orphans.
type tree struct {
	root    string // /proc
	own     Member
	members []Member
	ours    map[int]*Process
	foreign map[int]bool // processes of others
	checked time.Time    // when foreign was last cleared, because ids are reused
	gone    []*Process
	missed  int // number of ended processes that were not kept
}

// forget is the time for which a process id counts as foreign.
const forget = 15 * time.Second

// maxGone is the maximum number of ended processes that are kept.
const maxGone = 512

// Process is a process of the command.
type Process struct {
	PID, Parent int
	Program     string // the system's name, at most 15 characters
	First, Seen time.Time

	base    int // Base of its member
	started uint64
	last    stat
	at      time.Time // time of last
	usage   usage
	device  device
}

func newTree(root string, own Member) *tree {
	return &tree{root: root, own: own, members: []Member{own}, ours: make(map[int]*Process), foreign: make(map[int]bool)}
}

// watch sets the members. Processes of a command that has ended are still
// sampled.
func (t *tree) watch(members []Member) {
	if !slices.Contains(members, t.own) {
		members = append(slices.Clone(members), t.own)
	}
	if !slices.Equal(members, t.members) {
		t.members = members
		clear(t.foreign)
	}
}

// memberOf returns the member of a process, by its id and its parent's, or nil.
func (t *tree) memberOf(pid, parent int) *Member {
	for i := range t.members {
		if m := &t.members[i]; pid == m.Command || parent == m.Base {
			return m
		}
	}
	return nil
}

// isForeign reports whether a process does not belong to any of the commands.
func (t *tree) isForeign(pid int) bool {
	return slices.ContainsFunc(t.members, func(m Member) bool { return pid == m.Base || pid == m.Exclude })
}

// look updates the tree and reads every process once.
func (t *tree) look(now time.Time, each func(p *Process, s *stat)) {
	if now.Sub(t.checked) > forget {
		clear(t.foreign)
		t.checked = now
	}
	found := make(map[int]stat)
	for _, pid := range numbers(t.root) {
		if t.foreign[pid] || t.isForeign(pid) {
			continue
		}
		s, err := proc.Read(t.root, pid)
		if err != nil {
			continue // it has ended
		}
		found[pid] = stat{Stat: s}
	}
	t.end(found)
	t.begin(found, now)
	for pid, p := range t.ours {
		s := found[pid]
		if s.Ended() {
			continue // it has ended, but its parent has not waited for it
		}
		s.io = readIO(t.root, pid)
		p.Seen, p.Program = now, s.Program // exec may have changed it
		each(p, &s)
		p.last, p.at = s, now
	}
}

// end removes processes that have ended, or whose id now belongs to another
// process.
func (t *tree) end(found map[int]stat) {
	for pid, p := range t.ours {
		if s, ok := found[pid]; ok && s.Started == p.started {
			continue
		}
		delete(t.ours, pid)
		if len(t.gone) < maxGone {
			t.gone = append(t.gone, p)
		} else {
			t.missed++
		}
	}
}

// begin adds new processes. A parent may be read after its child.
func (t *tree) begin(found map[int]stat, now time.Time) {
	var fresh []stat
	for pid, s := range found {
		if t.ours[pid] == nil {
			fresh = append(fresh, s)
		}
	}
	for more := true; more; {
		more = false
		for i := range fresh {
			s := &fresh[i]
			if s.PID == 0 {
				continue
			}
			base := 0
			if m := t.memberOf(s.PID, s.Parent); m != nil {
				base = m.Base
			} else if up := t.ours[s.Parent]; up != nil {
				base = up.base
			} else {
				continue
			}
			t.ours[s.PID] = &Process{base: base, PID: s.PID, Parent: s.Parent, Program: s.Program, First: now, Seen: now, started: s.Started}
			s.PID, more = 0, true
		}
	}
	for _, s := range fresh {
		if s.PID != 0 {
			t.foreign[s.PID] = true
		}
	}
}

// all returns the current and ended processes.
func (t *tree) all() []*Process {
	out := append([]*Process(nil), t.gone...)
	for _, p := range t.ours {
		out = append(out, p)
	}
	return out
}
