package torch

import "github.com/trainspan/trainspan/internal/ingest/torch/compilelog"

// loadedLog is a compile log with its phases.
type loadedLog struct {
	name   string
	log    *compilelog.Log
	phases []compilelog.Phase
	report *LogReport
}

// graphLogs holds the compilations of all logs.
type graphLogs struct {
	byKey  map[string]*compilelog.Compile
	byRank map[int64]*graphSet // -1 for logs without a rank
	logs   int
}

// graphSet holds the logs of one rank.
type graphSet struct {
	byID map[string]*compilelog.Compile
	// backward lists those with a backward graph.
	backward []*compilelog.Compile
}

func indexLogs(logs []*loadedLog) *graphLogs {
	g := &graphLogs{byKey: map[string]*compilelog.Compile{}, byRank: map[int64]*graphSet{}, logs: len(logs)}
	for _, l := range logs {
		rank := max(l.log.Rank, -1)
		set := g.byRank[rank]
		if set == nil {
			set = &graphSet{byID: map[string]*compilelog.Compile{}}
			g.byRank[rank] = set
		}
		for _, c := range l.log.Compiles {
			set.byID[c.ID] = c
			if len(c.Backward) > 0 {
				set.backward = append(set.backward, c)
			}
			for _, key := range c.CacheKeys {
				g.byKey[key] = c
			}
		}
	}
	return g
}

// graphIndex finds the logged graph of a compiled region of one process, by
// compile id or by cache key. A nil index finds nothing.
type graphIndex struct {
	*graphLogs
	sets   []*graphSet
	agrees map[string]string // overloads on which all backward graphs agree, or ""
}

// indexFor returns the logs for a process with a rank, -1 if unknown. A log of
// another rank is still used by cache key; a compile id is only valid in its
// own process.
func (g *graphLogs) indexFor(rank int64) *graphIndex {
	x := &graphIndex{graphLogs: g}
	for r, set := range g.byRank {
		if r == rank || rank < 0 && g.logs == 1 {
			x.sets = append(x.sets, set)
			break
		}
	}
	if set := g.byRank[-1]; set != nil && rank >= 0 {
		x.sets = append(x.sets, set)
	}
	if len(x.sets) == 0 && len(g.byKey) == 0 {
		return nil
	}
	return x
}

// find prefers the cache key, which is the same in every process, to the
// compile id, which is only unique in one.
func (g *graphIndex) find(id, key string) *compilelog.Compile {
	if g == nil {
		return nil
	}
	if c := g.byKey[key]; c != nil && key != "" {
		return c
	}
	for _, set := range g.sets {
		if c := set.byID[id]; c != nil {
			return c
		}
	}
	return nil
}

// overload returns the overload of the next use of op in a call of compiled
// code, or "" if the log does not determine it. If the graph has one overload
// of op it is that one; with several the order decides, which only works if
// every node has its own row.
func (g *graphIndex) overload(call *frame, id, key string, backward bool, op string, perOp bool) string {
	if g == nil || call == nil {
		return ""
	}
	c := g.find(id, key)
	if c == nil && backward {
		// Backward rows have no compilation.
		if c = g.backward(); c == nil {
			return g.agreed(op)
		}
	}
	if c == nil {
		return ""
	}
	if call.used == nil {
		call.used = map[string]int{}
	}
	k := call.used[op]
	call.used[op]++
	if one, ok := c.Overload(op, backward); ok {
		return one
	}
	if list := c.Overloads(op, backward); perOp && k < len(list) {
		return list[k]
	}
	return ""
}

// backward returns the only compilation with a backward graph, or nil.
func (g *graphIndex) backward() (c *compilelog.Compile) {
	for _, set := range g.sets {
		if len(set.backward) > 1 || len(set.backward) == 1 && c != nil {
			return nil
		}
		if len(set.backward) == 1 {
			c = set.backward[0]
		}
	}
	return c
}

// agreed returns the overload of op on which all backward graphs agree.
func (g *graphIndex) agreed(op string) string {
	if g.agrees == nil {
		g.agrees = map[string]string{}
		for _, set := range g.sets {
			for _, c := range set.backward {
				c.Backwards(func(op, overload string, ok bool) {
					if held, seen := g.agrees[op]; !ok || seen && held != overload {
						overload = ""
					}
					g.agrees[op] = overload
				})
			}
		}
	}
	return g.agrees[op]
}

// kernelNodes returns the graph nodes of a fused kernel.
func (g *graphIndex) kernelNodes(id, key, kernel string) []string {
	if c := g.find(id, key); c != nil {
		return c.KernelNodes(kernel)
	}
	return nil
}
