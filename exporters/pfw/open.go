package pfw

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
)

// open is a span or scope that has not ended yet, as far as its place in the
// file is concerned. Its id is given out at the start, so that children can be
// written first.
type open struct {
	id    uint64
	lane  dftracer.Lane
	start int64 // microseconds since the Unix epoch

	parent  atomic.Pointer[open]
	inner   atomic.Pointer[open] // the ambient child, see ambient.go
	last    atomic.Int64         // the latest end of a child
	state   atomic.Uint32
	depth   int16        // level at the start
	slotted int16        // of a scope in the registry: a slot, counted from 1, or the negative shard
	live    atomic.Int32 // events written while it was open, and liftedBit
	slot    int8         // of roots, counted from 1; 0: none
	begun   bool         // its begin was written; the watcher's own once it is registered
	ambient bool         // set before it is registered
}

// liftedBit in open.live says that a root is on its lane: see roots.
const liftedBit = 1 << 30

func (o *open) lifted() bool { return o.live.Load()&liftedBit != 0 }

// events is how many events were written while o was open.
func (o *open) events() int { return int(o.live.Load() &^ liftedBit) }

// States of an open.
const (
	stateOpen  = iota
	stateHeld  // it cannot end at the moment
	stateEnded // it is being written, or is
)

func (o *open) ended() bool { return o.state.Load() >= stateEnded }

// hold keeps o from ending until release. It is false when o has ended.
func (o *open) hold() bool { return o.become(stateHeld, nil) }

func (o *open) release() { o.state.Store(stateOpen) }

// finish marks o as ended. It is false for all callers but one. writing is
// held by those who hold spans for longer, because they write.
func (o *open) finish(writing *sync.Mutex) bool { return o.become(stateEnded, writing) }

func (o *open) become(next uint32, writing *sync.Mutex) bool {
	for !o.state.CompareAndSwap(stateOpen, next) {
		if o.ended() {
			return false
		}
		if writing != nil {
			writing.Lock() // until it is written
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

// openAncestor is the nearest ancestor that has not ended. A child that outlives its
// parent belongs to the grandparent from then on.
func (o *open) openAncestor() *open {
	q := o.parent.Load()
	if q == nil || !q.ended() {
		return q
	}
	for q != nil && q.ended() {
		q = q.parent.Load()
	}
	o.parent.Store(q) // frees the ones in between
	return q
}

// alive is o, or its nearest ancestor that has not ended.
func (o *open) alive() *open {
	if o == nil || !o.ended() {
		return o
	}
	return o.openAncestor()
}

// maxClimb bounds how many ancestors are asked whether they have ended: the work
// for a span must not grow with its depth.
const maxClimb = 256

// level is the depth of o, counted from 1. What is above maxClimb ancestors is
// taken as it was when the last of them began.
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

// settle decides o's end and its place in the tree of the file once it is
// marked as ended. It ends neither before its start nor before a child that is
// written under it; the parent is one that ends later. The level is 0,
// unknown, when o moved up after children were written that say otherwise.
// latest is the latest end that is believable, asked for in need only.
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

// levelAndParent is the level and the parent of something that ends now below q or, where
// that has ended, below its nearest ancestor that has not.
func (q *open) levelAndParent(end int64) (level int, parent int64) {
	for ; q != nil; q = q.openAncestor() {
		q.raise(end)
		if q.ended() {
			continue
		}
		level, parent = q.level()+1, int64(q.id)
		if !q.ended() { // it will see the raised end, and decide its level later
			return level, parent
		}
	}
	return 1, dftracer.NoParent
}

// raise notes the end of a child.
func (o *open) raise(end int64) {
	for {
		last := o.last.Load()
		if last >= end || o.last.CompareAndSwap(last, end) {
			return
		}
	}
}

// position is the level and the parent of an open o as things stand.
func (o *open) position() (level int, parent int64) {
	q := o.openAncestor()
	if q == nil {
		return 1, dftracer.NoParent
	}
	return q.level() + 1, int64(q.id)
}

// beginBelow makes o a child of q (nil: a root) that starts at start.
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
