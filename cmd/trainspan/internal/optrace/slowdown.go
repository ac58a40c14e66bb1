package optrace

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/replay"
	"github.com/trainspan/trainspan/internal/robust"
)

// Slowdown is what the publishers of these traces define: a step as it was, without
// delays of launches, over one in which every computation takes the mean time of its
// kind and every transfer the median.
type Slowdown struct {
	S        float64 `json:"slowdown"`
	Recorded float64 `json:"recorded_step_s"`
	Step     float64 `json:"step_s"` // as it was, without delays
	Ideal    float64 `json:"ideal_step_s"`
	// By what it becomes when all is ideal but one kind of operation, one rank of data
	// parallelism, or one stage: the largest first.
	Kinds  []Added `json:"by_kind"`
	Ranks  []Added `json:"by_dp_rank"`
	Stages []Added `json:"by_stage"`
}

// Added is the slowdown that one thing makes alone.
type Added struct {
	Name string  `json:"name"`
	S    float64 `json:"slowdown"`
}

// Replay returns the slowdown, and the steps without delays of launches as internal/replay
// takes them. It fails where the schedule is none that it knows.
func (t *Trace) Replay() (*Slowdown, *replay.State, error) {
	g, err := t.graph()
	if err != nil {
		return nil, nil, err
	}
	recorded := g.recorded()
	was := g.replay(func(n *node, i int) (float64, float64) { return n.took[i], n.transfer[i] })
	st := g.state()
	took, transfer := g.ideals()
	ideal := func(but func(n *node, dp int) bool) float64 {
		return g.replay(func(n *node, i int) (float64, float64) {
			if but(n, i%t.dp) {
				return n.took[i], n.transfer[i]
			}
			return took[n.kind], transfer[n.kind]
		})
	}
	out := &Slowdown{Recorded: recorded, Step: was, Ideal: ideal(func(*node, int) bool { return false })}
	out.S = out.Step / out.Ideal
	for _, kind := range g.kinds() {
		out.Kinds = append(out.Kinds, Added{kind, ideal(func(n *node, _ int) bool { return n.kind == kind }) / out.Ideal})
	}
	for dp := range t.dp {
		out.Ranks = append(out.Ranks, Added{fmt.Sprint(dp), ideal(func(_ *node, r int) bool { return r == dp }) / out.Ideal})
	}
	for stage := range t.pp {
		out.Stages = append(out.Stages, Added{fmt.Sprint(stage), ideal(func(n *node, _ int) bool { return n.stage == stage }) / out.Ideal})
	}
	for _, list := range [...][]Added{out.Kinds, out.Ranks, out.Stages} {
		slices.SortStableFunc(list, func(a, b Added) int { return cmp.Compare(b.S, a.S) })
	}
	return out, st, nil
}

// recorded is the mean time of a step on record, before any replay.
func (g *graph) recorded() float64 {
	sum := 0.0
	for s := range g.t.steps {
		first, last := math.Inf(1), 0.0
		for i := range g.nodes {
			for at := s * g.t.dp; at < (s+1)*g.t.dp; at++ {
				first, last = min(first, g.nodes[i].start[at]), max(last, g.nodes[i].end[at])
			}
		}
		sum += last - first
	}
	return sum / float64(len(g.t.steps))
}

// ideals are the mean of computations and the median of transfers, by kind.
func (g *graph) ideals() (took, transfer map[string]float64) {
	took, transfer = map[string]float64{}, map[string]float64{}
	for _, kind := range g.kinds() {
		var all, moved []float64
		for i := range g.nodes {
			if g.nodes[i].kind == kind {
				all, moved = append(all, g.nodes[i].took...), append(moved, g.nodes[i].transfer...)
			}
		}
		sum := 0.0
		for _, v := range all {
			sum += v
		}
		took[kind], transfer[kind] = sum/float64(len(all)), robust.Median(moved)
		if kind == layerNorm || kind == embedding || kind == clipGrads {
			took[kind] = robust.Median(all)
		}
	}
	return took, transfer
}

// replay returns the mean time of the steps when operations take other times.
func (g *graph) replay(times func(n *node, i int) (took, transfer float64)) float64 {
	n := len(g.t.steps) * g.t.dp
	step := make([]float64, len(g.t.steps))
	for k := 0; k < len(g.order); {
		node := &g.nodes[g.order[k]]
		members := g.order[k : k+1]
		if node.group >= 0 {
			members = g.groups[node.group]
		}
		k += len(members)
		for _, m := range members {
			o := &g.nodes[m]
			for i := range n {
				o.start[i] = 0
				for _, on := range o.after {
					o.start[i] = max(o.start[i], g.nodes[on].end[i])
				}
			}
		}
		for i := range n {
			if node.group < 0 {
				took, _ := times(node, i)
				node.end[i] = node.start[i] + took
				continue
			}
			last := 0.0
			for _, m := range members {
				for dp := range g.t.dp {
					if at := i/g.t.dp*g.t.dp + dp; at == i || node.all {
						last = max(last, g.nodes[m].start[at])
					}
				}
			}
			for _, m := range members {
				_, moved := times(&g.nodes[m], i)
				g.nodes[m].end[i] = last + moved
			}
		}
		for _, m := range members {
			if g.nodes[m].kind == optimizer {
				for i := range n {
					step[i/g.t.dp] = max(step[i/g.t.dp], g.nodes[m].end[i])
				}
			}
		}
	}
	sum := 0.0
	for _, v := range step {
		sum += v
	}
	return sum / float64(len(step))
}
