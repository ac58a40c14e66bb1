package pfw

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
)

// open is the position of an unfinished span or scope in the file. Its id is assigned at
// the start, so that children can be written first.
type open struct {
	id    uint64
	lane  dftracer.Lane
	start int64 // microseconds since the Unix epoch

	parent  atomic.Pointer[open]
	inner   atomic.Pointer[open] // the ambient child, see ambient
	last    atomic.Int64         // the latest end of a child
	state   atomic.Uint32
	depth   int16        // level at the start
	slotted int16        // position of a scope in the registry: a slot, counted from 1, or the negative shard
	live    atomic.Int32 // events written while it was open, and liftedBit
	slot    int8         // slot in roots, counted from 1; 0: none
	begun   bool         // its begin record was written; only the watcher uses it after registration
	ambient bool         // set before it is registered
}

// liftedBit in open.live reports that a root is on its lane: see roots.
const liftedBit = 1 << 30

func (o *open) lifted() bool { return o.live.Load()&liftedBit != 0 }

// events returns the number of events written while o was open.
func (o *open) events() int { return int(o.live.Load() &^ liftedBit) }

// States of an open.
const (
	stateOpen  = iota
	stateHeld  // it cannot end at present
	stateEnded // it is being written or is written
)

func (o *open) ended() bool { return o.state.Load() >= stateEnded }

// hold keeps o from ending until release. It returns false if o has ended.
func (o *open) hold() bool { return o.become(stateHeld, nil) }

func (o *open) release() { o.state.Store(stateOpen) }

// finish marks o as ended. It returns true for exactly one caller. Goroutines that hold
// spans while they write also hold the mutex writing.
func (o *open) finish(writing *sync.Mutex) bool { return o.become(stateEnded, writing) }

func (o *open) become(next uint32, writing *sync.Mutex) bool {
	for !o.state.CompareAndSwap(stateOpen, next) {
		if o.ended() {
			return false
		}
		if writing != nil {
			writing.Lock() // wait for the holder to finish writing
			ended := o.ended()
			writing.Unlock()
			if ended {
				return false
			}
		}
		runtime.Gosched()
	}
	return true
}

// openAncestor returns the nearest ancestor that has not ended, or nil. A child that
// outlives its parent belongs to the grandparent from then on.
func (o *open) openAncestor() *open {
	q := o.parent.Load()
	if q == nil || !q.ended() {
		return q
	}
	for q != nil && q.ended() {
		q = q.parent.Load()
	}
	o.parent.Store(q) // frees the ended ancestors
	return q
}

// alive returns o, or its nearest ancestor that has not ended.
func (o *open) alive() *open {
	if o == nil || !o.ended() {
		return o
	}
	return o.openAncestor()
}

// maxClimb bounds the ancestors that level visits: the work for a span must not grow
// with its depth.
const maxClimb = 256

// level returns the depth of o, counted from 1. Beyond maxClimb ancestors it uses the
// depth that the next one had at its start.
func (o *open) level() int {
	n := 0
	for ; o != nil; o = o.openAncestor() {
		if n == maxClimb {
			return n + int(o.depth)
		}
		n++
	}
	return n
}

// settle decides o's end and its place in the tree of the file, after o is marked as
// ended. The end is not before the start, nor before the end of a child that was written
// under o. The parent is one that ends later. The level is 0 (unknown) if o moved up
// after children were written with another level. latest returns the latest plausible
// end of a child; settle calls it only if necessary.
func (o *open) settle(end int64, latest func() int64) (settled int64, level int, parent int64) {
	end = max(end, o.start)
	if last := o.last.Load(); last > end && last <= latest() {
		end = last
	}
	level, parent = o.openAncestor().levelAndParent(end)
	if level != int(o.depth) && o.last.Load() != 0 {
		level = 0
	}
	return end, level, parent
}

// levelAndParent returns the level and the parent of a span that ends now below q, or,
// if q has ended, below its nearest ancestor that has not.
func (q *open) levelAndParent(end int64) (level int, parent int64) {
	for ; q != nil; q = q.openAncestor() {
		q.raise(end)
		if q.ended() {
			continue
		}
		level, parent = q.level()+1, int64(q.id)
		if !q.ended() { // q will see the raised end, and decide its level later
			return level, parent
		}
	}
	return 1, dftracer.NoParent
}

// raise records the end of a child.
func (o *open) raise(end int64) {
	for {
		last := o.last.Load()
		if last >= end || o.last.CompareAndSwap(last, end) {
			return
		}
	}
}

// position returns the current level and parent of an open o.
func (o *open) position() (level int, parent int64) {
	q := o.openAncestor()
	if q == nil {
		return 1, dftracer.NoParent
	}
	return q.level() + 1, int64(q.id)
}

// beginBelow makes o a child of q, or a root if q is nil, that starts at start. If o
// starts at most slack before q, it gets q's start.
func (o *open) beginBelow(q *open, start int64) {
	o.depth = 1
	if q != nil {
		o.parent.Store(q)
		o.depth = int16(min(q.level()+1, math.MaxInt16))
		if start < q.start && q.start-start <= slack {
			start = q.start
		}
	}
	o.start = start
}
