package place

import "slices"

const (
	// maxHomes bounds the lanes that are reserved for open parents.
	maxHomes = 64
	// MaxLanes bounds the lanes of a process, and the rows of a thread.
	MaxLanes = 256
	// Shared is the lane of blocks that fit on no other lane. In the file it is lane 0,
	// on which spans need not nest. [WriteShared] records that it is in use.
	Shared = MaxLanes
)

// lanes assigns lanes to blocks of nested spans, in any order of arrival. Two blocks on
// one lane either do not overlap, or one is the parent of the other. Parents may arrive
// after their children: the lane of the first child is reserved for the parent, and
// until the parent arrives only its children use that lane. The number of lanes is at
// most the number of blocks that overlap in time plus maxHomes, and at most MaxLanes. It
// is not safe for concurrent use.
type lanes struct {
	rows  Rows
	homes []reservedLane // least recently used first
}

type reservedLane struct {
	parent uint64
	lane   int
}

// place returns the lane for the block of a span: the lane reserved for the span if the
// block fits there, else its parent's lane, else any lane with room. near is the lane of
// a parent that has arrived, or -1; open reports whether the parent is still open.
// covered holds the children that the block covers on that lane, and is valid until the
// next call.
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

// nobody is the id of a block that no later parent may cover.
const nobody = ^uint64(0)

// uncoveredLane returns the lane for a block that no later parent may cover.
func (l *lanes) uncoveredLane(start, end int64) int {
	return l.rows.place(-1, 0, interval{start: start, end: end, id: nobody, several: true})
}

// keep reserves a lane for a span that has begun, and returns it.
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

// reservedFor returns the lane that is reserved for an open span, or -1.
func (l *lanes) reservedFor(id uint64) int {
	for i := len(l.homes) - 1; i >= 0 && id != 0; i-- {
		if l.homes[i].parent == id {
			return l.homes[i].lane
		}
	}
	return -1
}

// settle reserves a lane for a parent, unless the parent already has one or the lane is
// reserved for another.
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

// leave releases the lane that is reserved for a span.
func (l *lanes) leave(id uint64) {
	for i := range l.homes {
		if l.homes[i].parent == id {
			l.rows.rows[l.homes[i].lane].home = 0
			l.homes = slices.Delete(l.homes, i, i+1)
			return
		}
	}
}
