package pfw

// An ambient scope is the parent of what is started later with the context that
// it was started with, though that context does not carry it: the block of a
// plain iterator, the scope of a hook. Every open span or scope has at most one
// ambient child, which may have one itself; the processor has one for contexts
// that carry nothing. Whoever starts below an open one goes to the end of this
// chain.

import "sync/atomic"

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

// below is where the ambient child of o is, nil for the process.
func (a *ambient) below(o *open) *atomic.Pointer[open] {
	if o == nil {
		return &a.top
	}
	return &o.inner
}

// innermost is the end of the chain that begins with o, for something that
// starts at start: what began later does not contain it.
func (a *ambient) innermost(o *open, start int64) *open {
	for {
		q := a.below(o).Load()
		if q == nil || q.ended() || q.start > start+slack {
			return o
		}
		o = q
	}
}

// enter makes o, a new child of parent, its ambient child, unless somebody else
// is or the chain is long.
func (a *ambient) enter(o, parent *open) {
	place := a.below(parent)
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
	a.below(above).CompareAndSwap(o, nil)
	if abandoned || above == nil || !above.ambient || !above.ended() {
		return
	}
	for above != nil && above.ambient {
		above = above.parent.Load()
	}
	a.below(above).Store(overlapped)
}
