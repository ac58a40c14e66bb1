package pfw

import (
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// rootLanes is the number of concurrent roots that get their lane without the lock that
// all goroutines share.
const rootLanes = 8

// roots manages lanes for spans without a parent. Each lane has a base span that never
// ends and is never written, so that a root is a child for dftracer.Lanes, which makes
// it cheap. Most roots have no children: a root is put on its lane when its first child
// begins.
type roots struct {
	lanes *dftracer.Lanes
	slots [rootLanes]rootSlot
}

type rootSlot struct {
	busy atomic.Bool
	base dftracer.Lane
	tid  int64
	end  int64 // end of the last root here; owned by the goroutine that set busy
	_    [24]byte
}

func newRoots(lanes *dftracer.Lanes) *roots {
	r := &roots{lanes: lanes}
	for i := range r.slots {
		s := &r.slots[i]
		s.base, s.tid = lanes.Begin(dftracer.Lane{}, 0)
	}
	return r
}

// begin puts o on a lane: that of its parent below, or a root lane if below is nil.
func (r *roots) begin(o, below *open) (tid int64) {
	if below != nil {
		r.lift(below)
		o.lane, tid = r.lanes.Begin(below.lane, o.start)
		return tid
	}
	if i := r.take(o.start); i >= 0 {
		o.slot = int8(i + 1)
		return r.slots[i].tid
	}
	o.lane, tid = r.lanes.Begin(dftracer.Lane{}, o.start)
	return tid
}

// take reserves a slot in which every root has ended at or before start. It returns -1
// if no slot is free.
func (r *roots) take(start int64) int {
	for i := range r.slots {
		s := &r.slots[i]
		if s.busy.Load() || !s.busy.CompareAndSwap(false, true) {
			continue
		}
		if s.end <= start {
			return i
		}
		s.busy.Store(false) // start was read before the last root here ended
	}
	return -1
}

// leaf returns the lane of a span that has ended and has no children.
func (r *roots) leaf(below *open, start, end int64) (tid int64) {
	var lane dftracer.Lane
	if below != nil {
		r.lift(below)
		lane, _ = r.lanes.Begin(below.lane, start)
	} else if i := r.take(start); i >= 0 {
		s := &r.slots[i]
		tid = s.tid
		s.end = end
		s.busy.Store(false)
		return tid
	} else {
		lane, _ = r.lanes.Begin(dftracer.Lane{}, start)
	}
	return r.lanes.End(lane, end)
}

// lift puts a root on its lane, before its first child begins.
func (r *roots) lift(o *open) {
	if o.slot == 0 || o.lifted() || !o.hold() {
		return
	}
	defer o.release()
	if !o.lifted() {
		o.lane, _ = r.lanes.Begin(r.slots[o.slot-1].base, o.start)
		o.live.Or(liftedBit)
	}
}

// tid returns the lane that an open o is on at present.
func (r *roots) tid(o *open) int64 {
	if o.slot > 0 && !o.lifted() {
		return r.slots[o.slot-1].tid
	}
	return tracefile.LaneOf(r.lanes, o.lane)
}

// end removes o, which is marked as ended, from its lane and returns the lane to write
// it with.
func (r *roots) end(o *open, end int64) (tid int64) {
	if o.slot == 0 {
		return r.lanes.End(o.lane, end)
	}
	s := &r.slots[o.slot-1]
	tid = s.tid
	if o.lifted() {
		tid = r.lanes.End(o.lane, end)
	}
	s.end = end
	s.busy.Store(false)
	return tid
}

// deepest bounds the ambient chain: hooks without their end calls would make it grow.
const deepest = 64

// overlapped replaces an ambient child where no further ones are accepted: two ambient
// children overlapped without nesting.
var overlapped = func() *open {
	o := new(open)
	o.state.Store(stateEnded)
	return o
}()

// ambient finds the innermost open span of a chain of ambient children. An ambient span
// becomes the parent of spans started later from the same context, even though the
// context does not carry it.
type ambient struct {
	top atomic.Pointer[open] // for contexts without a span
}

// childOf returns the pointer to the ambient child of o; a nil o stands for the process.
func (a *ambient) childOf(o *open) *atomic.Pointer[open] {
	if o == nil {
		return &a.top
	}
	return &o.inner
}

// innermost returns the end of the ambient chain of o for a span that starts at start.
// It skips ancestors and children that began after start, because these do not contain
// it.
func (a *ambient) innermost(o *open, start int64) *open {
	for o != nil && o.start > start+slack {
		o = o.openAncestor()
	}
	for {
		q := a.childOf(o).Load()
		if q == nil || q.ended() || q.start > start+slack {
			return o
		}
		o = q
	}
}

// enter makes o, a new child of parent, its ambient child, unless parent already has one
// or the chain is too long.
func (a *ambient) enter(o, parent *open) {
	place := a.childOf(parent)
	old := place.Load()
	if old == overlapped || old != nil && !old.ended() || o.depth > deepest {
		return
	}
	o.ambient = true
	if !place.CompareAndSwap(old, o) {
		o.ambient = false
	}
}

// leave removes an ambient o that has just ended. If its ambient parent ended first, the
// two did not nest.
func (a *ambient) leave(o *open, abandoned bool) {
	above := o.parent.Load()
	a.childOf(above).CompareAndSwap(o, nil)
	if abandoned || above == nil || !above.ambient || !above.ended() {
		return
	}
	for above != nil && above.ambient {
		above = above.parent.Load()
	}
	a.childOf(above).Store(overlapped)
}
