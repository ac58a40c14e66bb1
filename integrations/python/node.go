package python

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/python/ring"
)

// node is a name of spans, and a node of the tree of DFTracer's AI logging if
// the program says what is above it.
type node struct {
	key   dftracer.Key
	above *node
	below []*node
	off   bool

	// What update gave. Epoch and step are -1 when they are not known.
	epoch, step int64
	args        []dftracer.Arg // not changed, replaced

	ended [cellThreads]int64 // start of the last span that ended, by thread
}

// cellThreads is for how many threads a ring tells what they started last.
const cellThreads = 16

// node gives the node of a name, with those above it.
func (p *process) node(n *ring.Name) *node { return p.nodeBelow(n, 0) }

// maxTree bounds how deep the tree of nodes may be.
const maxTree = 64

func (p *process) nodeBelow(n *ring.Name, depth int) *node {
	if d := p.nodes[n.ID]; d != nil {
		return d
	}
	d := &node{key: dftracer.NewKey(n.Cat, n.Name).WithType(dftracer.TypePython), epoch: -1, step: -1}
	p.nodes[n.ID] = d // before those above it: ids may go round in circles
	if above := p.ring.Name(n.Above); above != nil && depth < maxTree {
		if a := p.nodeBelow(above, depth+1); !a.under(d) {
			d.above = a
			a.below = append(a.below, d)
			d.off, d.epoch, d.step, d.args = a.off, a.epoch, a.step, a.args
		}
	}
	return d
}

func (d *node) under(o *node) bool {
	for ; d != nil; d = d.above {
		if d == o {
			return true
		}
	}
	return false
}

// each calls f for the node and what is below it.
func (d *node) each(f func(*node)) {
	f(d)
	for _, b := range d.below {
		b.each(f)
	}
}

// update gives arguments to the node and what is below it, as far as that is
// switched on. A negative number is left as it is, but for -2: not known.
func (d *node) update(epoch, step int64, args []dftracer.Arg) {
	d.each(func(d *node) {
		if d.off {
			return
		}
		d.epoch, d.step = changed(d.epoch, epoch), changed(d.step, step)
		if len(args) > 0 {
			next := slices.Clone(d.args)
			for _, a := range args {
				next = upsert(next, a)
			}
			d.args = next
		}
	})
}

func changed(was, to int64) int64 {
	switch {
	case to >= 0:
		return to
	case to == -1:
		return was
	}
	return -1
}
