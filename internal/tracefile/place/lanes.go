package place

import "slices"

const (
	// maxHomes bounds the lanes that are kept for parents that are still open.
	maxHomes = 64
	// MaxLanes bounds the lanes of a process, and the rows of a thread.
	MaxLanes = 256
	// Shared is the lane of what finds no room. In the file it is lane 0, on which
	// spans need not nest, and [WriteShared] says that it is in use.
	Shared = MaxLanes
)

// lanes gives lanes to blocks of nested spans in whatever order they come: rows on which
// blocks are beside each other or are parent and children.
// Parents may come after their children: the lane of the first child is
// the parent's home, on which nobody but its children settles until it comes.
// There are as many lanes as blocks overlap in time plus maxHomes, but at most
// MaxLanes. It is not safe for concurrent use.
type lanes struct {
	rows  Rows
	homes []reservedLane // the one used longest ago first
}

type reservedLane struct {
	parent uint64
	lane   int
}

// place returns the lane of the block of a span: its own when it covers its
// children there, its parent's, or any on which there is room. near is the lane of a
// parent that has come, or -1; open is whether it has not. The children that the span
// is around are in covered until the next call.
func (l *lanes) place(in interval, near int, open bool) (at int, covered []interval) {
	if open {
		near = l.reservedFor(in.parent)
	}
	if own := l.reservedFor(in.id); own >= 0 {
		l.leave(in.id)
		if !l.rows.rows[own].take(in) {
			own = l.rows.place(near, 0, in)
		}
		at = own
	} else {
		at = l.rows.place(near, 0, in)
	}
	if at == Shared {
		return at, nil
	}
	if open {
		l.settle(in.parent, at)
	}
	return at, l.rows.rows[at].covered
}

// nobody is the id of a block that no parent will ever cover.
const nobody = ^uint64(0)

// uncoveredLane returns the lane of such a block.
func (l *lanes) uncoveredLane(start, end int64) int {
	return l.rows.place(-1, 0, interval{start: start, end: end, id: nobody, several: true})
}

// keep returns a span that has begun a lane of its own.
func (l *lanes) keep(id uint64, start int64) int {
	if at := l.reservedFor(id); at >= 0 {
		return at
	}
	at := slices.IndexFunc(l.rows.rows, func(r row) bool { return r.home == 0 && r.free(start) })
	if at < 0 {
		at = l.rows.add()
	}
	if at != Shared {
		l.settle(id, at)
	}
	return at
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
	if l.rows.rows[at].home != 0 {
		return
	}
	if len(l.homes) >= maxHomes {
		l.leave(l.homes[0].parent)
	}
	l.rows.rows[at].home = parent
	l.homes = append(l.homes, reservedLane{parent, at})
}

// leave gives the home of a span up.
func (l *lanes) leave(id uint64) {
	for i := range l.homes {
		if l.homes[i].parent == id {
			l.rows.rows[l.homes[i].lane].home = 0
			l.homes = slices.Delete(l.homes, i, i+1)
			return
		}
	}
}
