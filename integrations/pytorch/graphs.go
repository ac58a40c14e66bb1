package pytorch

import (
	"strings"

	"github.com/trainspan/trainspan/integrations/pytorch/torchtrace"
)

// graphIndex finds the logged graph behind a compiled region, by compile id or
// by cache key. A nil index knows nothing.
type graphIndex struct {
	byID, byKey map[string]*torchtrace.Compile
	// backward lists the compilations of the process with a backward graph.
	backward []*torchtrace.Compile
}

// indexGraphs indexes the logs for a process of the given rank, -1 when
// unknown. A log of another rank still helps by cache key; a compile id counts
// only inside its own process.
func indexGraphs(logs []*torchtrace.Log, rank int64) *graphIndex {
	g := &graphIndex{byID: map[string]*torchtrace.Compile{}, byKey: map[string]*torchtrace.Compile{}}
	for _, l := range logs {
		own := l.Rank == rank || l.Rank < 0 || rank < 0 && len(logs) == 1
		for _, c := range l.Compiles {
			if own {
				g.byID[c.ID] = c
				if len(c.Backward) > 0 {
					g.backward = append(g.backward, c)
				}
			}
			for _, key := range c.CacheKeys {
				g.byKey[key] = c
			}
		}
	}
	if len(g.byID) == 0 && len(g.byKey) == 0 {
		return nil
	}
	return g
}

// find prefers the cache key, which is the same in every process, to the
// compile id, which is only unique in one.
func (g *graphIndex) find(id, key string) *torchtrace.Compile {
	if g == nil {
		return nil
	}
	if c := g.byKey[key]; c != nil && key != "" {
		return c
	}
	return g.byID[id]
}

// overload returns the overload of the next use of op in a call of compiled
// code, or "" when the log does not settle it. With one overload of op in the
// graph that is it; with several the order decides, which holds only where
// every node is a row of its own.
func (g *graphIndex) overload(call *frame, id, key string, backward bool, op string, perOp bool) string {
	if g == nil || call == nil {
		return ""
	}
	c := g.find(id, key)
	if c == nil && backward {
		// Rows of backward name no compilation.
		if len(g.backward) != 1 {
			return g.agreed(op)
		}
		c = g.backward[0]
	}
	if c == nil {
		return ""
	}
	if call.used == nil {
		call.used = map[string]int{}
	}
	k := call.used[op]
	call.used[op]++
	list := c.Overloads(op, backward)
	if len(list) == 0 {
		return ""
	}
	same := true
	for _, o := range list[1:] {
		same = same && o == list[0]
	}
	switch {
	case same:
		return list[0]
	case perOp && k < len(list):
		return list[k]
	}
	return ""
}

// agreed returns the overload of op on which all backward graphs agree.
func (g *graphIndex) agreed(op string) string {
	found := ""
	for _, c := range g.backward {
		for _, o := range c.Overloads(op, true) {
			if found != "" && o != found {
				return ""
			}
			found = o
		}
	}
	return found
}

// kernelNodes returns the graph nodes that a fused kernel stands for.
func (g *graphIndex) kernelNodes(id, key, kernel string) []string {
	c := g.find(id, key)
	if c == nil {
		return nil
	}
	if nodes := c.Kernels[kernel]; nodes != nil {
		return nodes
	}
	for name, nodes := range c.Kernels {
		if plain, _, _ := strings.Cut(name, ":"); plain == kernel {
			return nodes
		}
	}
	return nil
}
