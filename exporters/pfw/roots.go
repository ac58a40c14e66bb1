package pfw

import (
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
)

// rootLanes is how many roots at a time get their lane without a lock that all
// goroutines share.
const rootLanes = 8

// roots holds lanes for spans without a parent. On each lies a span that never
// ends and is never written, so that a root is a child for dftracer.Lanes,
// which makes it cheap.
type roots struct {
	lanes *dftracer.Lanes
	slots [rootLanes]rootSlot
}

type rootSlot struct {
	busy atomic.Bool
	base dftracer.Lane
	_    [40]byte // keeps neighbours off this cache line
}

func newRoots(lanes *dftracer.Lanes) *roots {
	r := &roots{lanes: lanes}
	for i := range r.slots {
		r.slots[i].base, _ = lanes.Begin(dftracer.Lane{}, 0)
	}
	return r
}

// begin opens o on a lane: that of the span it lies below, or one for roots.
func (r *roots) begin(o, below *open) (tid int64) {
	if below != nil {
		o.lane, tid = r.lanes.Begin(below.lane, o.start)
		return tid
	}
	for i := range r.slots {
		s := &r.slots[i]
		if s.busy.Load() || !s.busy.CompareAndSwap(false, true) {
			continue
		}
		o.slot = int8(i + 1)
		o.lane, tid = r.lanes.Begin(s.base, o.start)
		return tid
	}
	o.lane, tid = r.lanes.Begin(dftracer.Lane{}, o.start)
	return tid
}

// end closes o and gives the lane to write it with.
func (r *roots) end(o *open, end int64) (tid int64) {
	tid = r.lanes.End(o.lane, end)
	if o.slot > 0 {
		r.slots[o.slot-1].busy.Store(false)
	}
	return tid
}
