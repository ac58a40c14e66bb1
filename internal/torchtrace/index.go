package torchtrace

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// compileIndex answers what is asked for each row of a profile. It is made with
// the first question, when the log was read.
type compileIndex struct {
	once     sync.Once
	forward  map[string]*overloads
	backward map[string]*overloads
	kernels  map[string][]string // by the name without the number behind it
}

// overloads are those of the uses of an operator.
type overloads struct {
	list []string
	same bool
}

func (c *Compile) indexed() *compileIndex {
	x := &c.index
	x.once.Do(func() {
		x.forward = overloadsOf(c.Forward, c.Inference, c.Post)
		x.backward = overloadsOf(c.Backward, c.Post)
		x.kernels = make(map[string][]string, len(c.Kernels))
		for _, name := range slices.Sorted(maps.Keys(c.Kernels)) {
			plain, _, _ := strings.Cut(name, ":")
			if x.kernels[plain] == nil {
				x.kernels[plain] = c.Kernels[name]
			}
		}
	})
	return x
}

// overloadsOf takes each operator from the first list that has it.
func overloadsOf(lists ...[]Op) map[string]*overloads {
	all := map[string]*overloads{}
	for _, list := range lists {
		found := map[string]*overloads{}
		for _, o := range list {
			u := found[o.Name]
			if u == nil {
				u = &overloads{same: true}
				found[o.Name] = u
			}
			u.list = append(u.list, o.Overload)
			u.same = u.same && o.Overload == u.list[0]
		}
		for op, u := range found {
			if all[op] == nil {
				all[op] = u
			}
		}
	}
	return all
}

func (x *compileIndex) of(backward bool) map[string]*overloads {
	if backward {
		return x.backward
	}
	return x.forward
}

// Overloads returns the overloads of every use of op, in order: of the
// backward graph, or of the forward or inference graph. When the AOT graph does
// not have op, the graph after Inductor's passes answers. The log must have been
// read; do not change the slice.
func (c *Compile) Overloads(op string, backward bool) []string {
	if u := c.indexed().of(backward)[op]; u != nil {
		return u.list
	}
	return nil
}

// Overload returns the overload that all uses of op have, as Overloads finds
// them, and reports whether there is one.
func (c *Compile) Overload(op string, backward bool) (overload string, ok bool) {
	if u := c.indexed().of(backward)[op]; u != nil && u.same {
		return u.list[0], true
	}
	return "", false
}

// Backwards calls fn with each operator that Overloads knows of the backward
// graph, and with its overload; ok is false where its uses differ.
func (c *Compile) Backwards(fn func(op, overload string, ok bool)) {
	for op, u := range c.indexed().backward {
		fn(op, u.list[0], u.same)
	}
}

// KernelNodes returns the graph nodes fused in a kernel, whose name may lack the
// number that the log puts behind it.
func (c *Compile) KernelNodes(kernel string) []string {
	if nodes := c.Kernels[kernel]; nodes != nil {
		return nodes
	}
	return c.indexed().kernels[kernel]
}
