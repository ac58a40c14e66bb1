package pfw

import (
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// rootLanes is how many roots at a time get their lane without a lock that all
// goroutines share.
const rootLanes = 8

// roots holds lanes for spans without a parent. On each lies a span that never
// ends and is never written, so that a root is a child for dftracer.Lanes,
// which makes it cheap. Most roots have no children: a root is put on its lane
// when the first of them begins.
type roots struct {
	lanes *dftracer.Lanes
	slots [rootLanes]rootSlot
}

type rootSlot struct {
	busy atomic.Bool
	base dftracer.Lane
	tid  int64
	end  int64 // of the last root here; whoever is busy has it
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

// begin opens o on a lane: that of the span it lies below, or one for roots.
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

// take makes a slot busy in which everything ended by start; -1: there is none.
func (r *roots) take(start int64) int {
	for i := range r.slots {
		s := &r.slots[i]
		if s.busy.Load() || !s.busy.CompareAndSwap(false, true) {
			continue
		}
		if s.end <= start {
			return i
		}
		s.busy.Store(false) // start was read before the last one here ended
	}
	return -1
}

// leaf returns the lane of something that has ended.
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

// lift puts a root on its lane, before something begins below it.
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

// tid is the lane that an open o is on at the moment.
func (r *roots) tid(o *open) int64 {
	if o.slot > 0 && !o.lifted() {
		return r.slots[o.slot-1].tid
	}
	return tracefile.LaneOf(r.lanes, o.lane)
}

// end closes o, which is marked as ended, and returns the lane to write it with.
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

// deepest bounds the chain: hooks that miss their ends would make it grow.
const deepest = 64

// overlapped stands in the place of an ambient child where there will be none
// any more: two of them overlapped without lying in each other.
var overlapped = func() *open {
	o := new(open)
	o.state.Store(stateEnded)
	return o
}()

// ambient finds the ends of chains.
type ambient struct {
	top atomic.Pointer[open] // for contexts that carry nothing
}

// childOf is where the ambient child of o is, nil for the process.
func (a *ambient) childOf(o *open) *atomic.Pointer[open] {
	if o == nil {
		return &a.top
	}
	return &o.inner
}

// innermost is the end of the chain that begins with o, or with its nearest ancestor
// that is open and began before, for something that starts at start: what began later
// does not contain it.
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

// enter makes o, a new child of parent, its ambient child, unless somebody else
// is or the chain is long.
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

// leave takes an ambient o, which has just ended, off its place. If the ambient
// one above it ended first, the two were not nested.
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
