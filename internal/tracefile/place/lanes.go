package place

import (
	"slices"
	"sort"
)

const (
	// maxRuns bounds what is remembered of a lane.
	maxRuns = 64
	// maxHomes bounds the lanes that are kept for parents that are still open.
	maxHomes = 64
	// MaxLanes bounds the lanes of a process, and the rows of a thread.
	MaxLanes = 256
	// Shared is the lane of what finds no room. In the file it is lane 0, on which
	// spans need not nest, and [WriteShared] says that it is in use.
	Shared = MaxLanes
)

// lanes gives lanes to blocks of nested spans in whatever order they come, so
// that blocks on one lane either lie beside each other or are parent and
// children. Parents come after their children: the lane of the first child is
// the parent's home, on which nobody but its children settles until it comes.
// There are as many lanes as blocks overlap in time plus maxHomes, but at most
// MaxLanes. It is not safe for concurrent use.
type lanes struct {
	all   []lane
	homes []reservedLane // the one used longest ago first

	covered []run
}

type lane struct {
	runs []run  // disjoint, by start
	home uint64 // the parent it is kept for
}

// run is an interval of a lane that is taken, by children of parent unless that
// is 0.
type run struct {
	start, end int64
	parent     uint64
}

type reservedLane struct {
	parent uint64
	lane   int
}

// place returns the lane of the block of a span: its own when it covers its
// children there, its parent's, or any on which there is room. What it lies
// over is in l.covered until the next call.
func (l *lanes) place(id, parent uint64, start, end int64) int {
	at := -1
	if own := l.reservedFor(id); own >= 0 {
		l.leave(id)
		if l.all[own].fits(start, end, id) {
			at = own
		}
	}
	if near := l.reservedFor(parent); at < 0 && near >= 0 && l.all[near].fits(start, end, 0) {
		at = near
	}
	if at < 0 {
		at = l.free(start, end)
	}
	l.covered = l.covered[:0]
	if at == Shared {
		return at
	}
	n := &l.all[at]
	from, to := n.overlap(start, end)
	l.covered = append(l.covered, n.runs[from:to]...)
	n.put(run{start, end, parent})
	if parent != 0 {
		l.settle(parent, at)
	}
	return at
}

// uncoveredLane returns the lane of a block that no parent will ever cover.
func (l *lanes) uncoveredLane(start, end int64) int {
	at := l.free(start, end)
	if at != Shared {
		l.all[at].put(run{start, end, 0})
	}
	return at
}

// keep returns a span that has begun a lane of its own.
func (l *lanes) keep(id uint64, start int64) int {
	if at := l.reservedFor(id); at >= 0 {
		return at
	}
	at := l.free(start, 1<<62)
	if at != Shared {
		l.settle(id, at)
	}
	return at
}

// free finds the lowest lane that is nobody's and has room, or makes one while
// it may.
func (l *lanes) free(start, end int64) int {
	for i := range l.all {
		if l.all[i].home == 0 && l.all[i].fits(start, end, 0) {
			return i
		}
	}
	if len(l.all) >= MaxLanes {
		return Shared
	}
	l.all = append(l.all, lane{})
	return len(l.all) - 1
}

// reservedFor returns the home of a span that is still open, or -1.
func (l *lanes) reservedFor(id uint64) int {
	for i := len(l.homes) - 1; i >= 0 && id != 0; i-- {
		if l.homes[i].parent == id {
			return l.homes[i].lane
		}
	}
	return -1
}

// settle keeps a lane for a parent, unless it has one or the lane is taken.
func (l *lanes) settle(parent uint64, at int) {
	for i := range l.homes {
		if h := l.homes[i]; h.parent == parent {
			l.homes = append(slices.Delete(l.homes, i, i+1), h)
			return
		}
	}
	if l.all[at].home != 0 {
		return
	}
	if len(l.homes) >= maxHomes {
		l.leave(l.homes[0].parent)
	}
	l.all[at].home = parent
	l.homes = append(l.homes, reservedLane{parent, at})
}

// leave gives the home of a span up.
func (l *lanes) leave(id uint64) {
	for i := range l.homes {
		if l.homes[i].parent == id {
			l.all[l.homes[i].lane].home = 0
			l.homes = slices.Delete(l.homes, i, i+1)
			return
		}
	}
}

// overlap returns the runs that share time with an interval.
func (n *lane) overlap(start, end int64) (from, to int) {
	from = sort.Search(len(n.runs), func(i int) bool { return n.runs[i].end > start })
	to = sort.Search(len(n.runs), func(i int) bool { return n.runs[i].start >= end })
	return from, max(from, to)
}

// fits reports whether a span can lie on the lane: over its children or where
// nothing is.
func (n *lane) fits(start, end int64, id uint64) bool {
	from, to := n.overlap(start, end)
	for _, r := range n.runs[from:to] {
		if id == 0 || r.parent != id || r.start < start || r.end > end {
			return false
		}
	}
	return true
}

func (n *lane) put(r run) {
	from, to := n.overlap(r.start, r.end)
	n.runs = slices.Replace(n.runs, from, to, r)
	if len(n.runs) > maxRuns {
		n.merge()
	}
}

// merge makes one run of two neighbours, children of one parent if it can. The
// time between them is then taken too.
func (n *lane) merge() {
	at := 0
	for i := range maxRuns / 2 {
		if n.runs[i].parent == n.runs[i+1].parent {
			at = i
			break
		}
	}
	a, b := n.runs[at], n.runs[at+1]
	if a.parent != b.parent {
		a.parent = 0
	}
	a.end = b.end
	n.runs = slices.Replace(n.runs, at, at+2, a)
}
