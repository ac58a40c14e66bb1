package resources

import (
	"time"

	"github.com/trainspan/trainspan/internal/proc"
)

// tree knows the processes of the command: it, what it starts, and the orphans
// among these.
type tree struct {
	root    string // /proc
	command int
	base    int // the process that started the command and adopts orphans
	exclude int // a child of base that is not of the command
	ours    map[int]*Process
	foreign map[int]bool // numbers that are not ours
	checked time.Time    // when foreign was last forgotten: numbers come again
	gone    []*Process
	missed  int // processes that were not remembered
}

// forget is how long a number is believed to be foreign.
const forget = 15 * time.Second

// maxGone bounds the processes that are remembered after their end.
const maxGone = 512

// Process is a process of the command.
type Process struct {
	PID, Parent int
	Program     string // as the system knows it, at most 15 characters
	First, Seen time.Time

	started uint64
	last    stat
	at      time.Time // of last
	usage   usage
}

func newTree(root string, command, base, exclude int) *tree {
	return &tree{root: root, command: command, base: base, exclude: exclude, ours: make(map[int]*Process), foreign: make(map[int]bool)}
}

// look brings the tree up to date and reads every process once.
func (t *tree) look(now time.Time, each func(p *Process, s *stat)) {
	if now.Sub(t.checked) > forget {
		clear(t.foreign)
		t.checked = now
	}
	found := make(map[int]stat)
	for _, pid := range numbers(t.root) {
		if t.foreign[pid] || pid == t.base || pid == t.exclude {
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
			continue // it has ended, and nobody has asked how
		}
		s.io = readIO(t.root, pid)
		p.Seen, p.Program = now, s.Program // it may have become another program
		each(p, &s)
		p.last, p.at = s, now
	}
}

// end takes out the processes that are no more, or are others with their number.
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

// begin takes in the processes that are new. A parent may be read after its child.
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
			if s.PID == 0 || s.PID != t.command && s.Parent != t.base && t.ours[s.Parent] == nil {
				continue
			}
			t.ours[s.PID] = &Process{PID: s.PID, Parent: s.Parent, Program: s.Program, First: now, Seen: now, started: s.Started}
			s.PID, more = 0, true
		}
	}
	for _, s := range fresh {
		if s.PID != 0 {
			t.foreign[s.PID] = true
		}
	}
}

// all lists the processes there are and were.
func (t *tree) all() []*Process {
	out := append([]*Process(nil), t.gone...)
	for _, p := range t.ours {
		out = append(out, p)
	}
	return out
}
