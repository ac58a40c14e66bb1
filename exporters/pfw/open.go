package pfw

import (
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
)

// open is a span or scope that has not ended yet, as far as its place in the
// file is concerned. Its id is given out at the start, so that children can be
// written first.
type open struct {
	id          uint64
	lane        dftracer.Lane
	start       int64 // microseconds since the Unix epoch
	epoch, step int64 // -1: unknown
	depth       int   // level at the start

	parent atomic.Pointer[open]
	ended  atomic.Bool
	last   atomic.Int64 // the latest end of a child
	live   atomic.Int32 // events written while it was open
}

// slack is how far, in microseconds, the times of parent and child may
// disagree because their clocks were read apart. Such times are mended; larger
// differences are taken for explicit times and left as they are.
const slack = 10_000

// above is the nearest ancestor that has not ended. A child that outlives its
// parent belongs to the grandparent from then on.
func (o *open) above() *open {
	q := o.parent.Load()
	if q == nil || !q.ended.Load() {
		return q
	}
	for q != nil && q.ended.Load() {
		q = q.parent.Load()
	}
	o.parent.Store(q) // frees the ones in between
	return q
}

// alive is o, or its nearest ancestor that has not ended.
func (o *open) alive() *open {
	if o == nil || !o.ended.Load() {
		return o
	}
	return o.above()
}

// level is the depth of o, counted from 1.
func (o *open) level() int {
	n := 0
	for ; o != nil; o = o.above() {
		n++
	}
	return n
}

// place says where o is in the tree of the file: its level and its parent. The
// level is 0, unknown, when o moved up after children of it were written that
// say otherwise.
func (o *open) place() (level int, parent int64) {
	q := o.above()
	level, parent = 1, dftracer.NoParent
	if q != nil {
		level, parent = q.level()+1, int64(q.id)
	}
	if level != o.depth && o.last.Load() != 0 {
		level = 0
	}
	return level, parent
}

// closeAt tells the parent of an end and settles o's own: never before its
// start, and not before that of a child that ended just now.
func (o *open) closeAt(end int64) int64 {
	end = max(end, o.start)
	if last := o.last.Load(); last > end && last-end <= slack {
		end = last
	}
	for q := o.parent.Load(); q != nil; {
		last := q.last.Load()
		if last >= end || q.last.CompareAndSwap(last, end) {
			break
		}
	}
	return end
}

// beginBelow makes o a child of q (nil: a root) that starts at start.
func (o *open) beginBelow(q *open, start int64) {
	o.depth = 1
	if q != nil {
		o.parent.Store(q)
		o.depth = q.level() + 1
		if start < q.start && q.start-start <= slack {
			start = q.start
		}
	}
	o.start = start
}
