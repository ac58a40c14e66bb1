package pfw

import (
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
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
	return dft.LaneOf(r.lanes, o.lane)
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
