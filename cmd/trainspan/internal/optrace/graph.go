package optrace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// node is an operation of every rank of data parallelism and every step: they all run
// the same schedule.
type node struct {
	kind  string
	stage int
	after []int
	group int  // -1: it waits for nobody
	all   bool // its group meets over all ranks of data parallelism
	// By step and rank of data parallelism.
	took, transfer []float64
	start, end     []float64
}

type key struct {
	kind       string
	seq, stage int
}

// graph is built of the first step of the first rank.
type graph struct {
	t      *Trace
	nodes  []node
	of     map[key]int
	groups [][]int
	order  []int
}

func (g *graph) at(kind string, seq, stage int) int {
	if i, ok := g.of[key{kind, seq, stage}]; ok {
		return i
	}
	return -1
}

// dep makes an operation wait for another one of its worker.
func (g *graph) dep(op, on int) {
	if op >= 0 && on >= 0 {
		g.nodes[op].after = append(g.nodes[op].after, on)
	}
}

// chain makes each wait for the one before, leaving out those that there are not.
func (g *graph) chain(first []int, list ...int) {
	for _, i := range list {
		if i < 0 {
			continue
		}
		for _, on := range first {
			g.dep(i, on)
		}
		first = []int{i}
	}
}

func (g *graph) meet(all bool, list ...int) {
	list = slices.DeleteFunc(list, func(i int) bool { return i < 0 })
	for _, i := range list {
		g.nodes[i].group, g.nodes[i].all = len(g.groups), all
	}
	g.groups = append(g.groups, list)
}

func (g *graph) kinds() (out []string) {
	for i := range g.nodes {
		if k := g.nodes[i].kind; !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// graph finds what waits for what.
func (t *Trace) graph() (*graph, error) {
	g := &graph{t: t, of: map[key]int{}}
	steps := t.byWorker()
	n, count := len(t.steps)*t.dp, 0
	for stage := range t.pp {
		count += len(steps[0][t.worker(0, stage)])
	}
	if count*n != len(t.ops) {
		return nil, fmt.Errorf("the first step has %d operations of the first data parallel rank, which in %d steps of %d makes %d, and there are %d: the schedule is not the same everywhere", count, len(t.steps), t.dp, count*n, len(t.ops))
	}
	for stage := range t.pp {
		for _, o := range steps[0][t.worker(0, stage)] {
			g.of[key{o.kind, o.seq, stage}] = len(g.nodes)
			g.nodes = append(g.nodes, node{kind: o.kind, stage: stage, group: -1,
				took: slices.Repeat([]float64{-1}, n), transfer: make([]float64, n), start: make([]float64, n), end: make([]float64, n)})
		}
	}
	for i := range t.ops {
		o := &t.ops[i]
		k, ok := g.of[key{o.kind, o.seq, o.stage}]
		if !ok {
			return nil, fmt.Errorf("step %d of data parallel rank %d, stage %d has a %s %d that the first has not", t.steps[o.step], o.dp, o.stage, o.kind, o.seq)
		}
		at := o.step*t.dp + o.dp
		if g.nodes[k].took[at] >= 0 {
			return nil, fmt.Errorf("step %d of data parallel rank %d, stage %d has %s %d twice", t.steps[o.step], o.dp, o.stage, o.kind, o.seq)
		}
		g.nodes[k].took[at], g.nodes[k].start[at], g.nodes[k].end[at] = o.end-o.start, o.start, o.end
	}
	overlap := slices.ContainsFunc(g.nodes, func(n node) bool { return n.kind == separateGrads })
	for stage := range t.pp {
		if err := g.stage(stage, steps[0][t.worker(0, stage)], overlap); err != nil {
			return nil, err
		}
	}
	g.meetings()
	g.transfers()
	return g, g.sort()
}

// stage adds what the operations of a stage wait for there.
func (g *graph) stage(stage int, list []*op, overlap bool) error {
	of := func(kinds ...string) (out []int) {
		for _, o := range list {
			if slices.Contains(kinds, o.kind) {
				out = append(out, g.at(o.kind, o.seq, stage))
			}
		}
		return out
	}
	compute := of(forward, backward)
	if len(compute) == 0 {
		return fmt.Errorf("stage %d computes nothing", stage)
	}
	g.chain(nil, compute...)
	for _, m := range messages {
		kind := forward
		if m == backwardSend || m == backwardRecv {
			kind = backward
		}
		sent, work := of(m), of(kind)
		if len(sent) != 0 && len(sent) != len(work) {
			return fmt.Errorf("stage %d has %d %s for %d %s", stage, len(sent), m, len(work), kind)
		}
		g.chain(nil, sent...)
		for k, i := range sent {
			if m == forwardSend || m == backwardSend {
				g.dep(i, work[k])
				continue
			}
			g.dep(work[k], i)
			if k > 0 {
				g.dep(i, work[k-1])
			}
		}
	}
	// The first messages of backward go out before the last forward before it.
	if first := slices.IndexFunc(compute, func(i int) bool { return g.nodes[i].kind == backward }); first >= 2 {
		g.dep(g.at(backwardRecv, 0, stage), compute[first-2])
		g.dep(g.at(backwardSend, 0, stage), compute[first-2])
	}
	last := slices.MaxFunc(compute, func(a, b int) int { return cmp.Compare(g.nodes[a].end[0], g.nodes[b].end[0]) })
	garbage := g.at(collectGarbage, 0, stage)
	g.dep(garbage, last)
	if garbage < 0 {
		garbage = last
	}
	norm, embed, clip, opt := g.at(layerNorm, 0, stage), g.at(embedding, 0, stage), g.at(clipGrads, 0, stage), g.at(optimizer, 0, stage)
	scatter := of(scatterGrads)
	if g.t.dp*g.t.shards > 1 {
		g.chain(nil, of(gatherParams, scatterGrads)...)
		if gather := of(gatherParams); len(gather) > 0 {
			g.dep(of(forward)[0], gather[len(gather)-1])
		}
	}
	switch {
	case g.t.dp*g.t.shards == 1:
		g.chain([]int{garbage}, norm, embed, clip, opt)
	case overlap && len(scatter) > 0:
		g.dep(scatter[0], last)
		g.chain([]int{scatter[len(scatter)-1], garbage}, norm, embed, g.at(separateGrads, 0, stage), clip, opt)
	default:
		g.chain([]int{garbage}, slices.Concat([]int{norm, embed}, scatter, []int{clip, opt})...)
	}
	return nil
}

// meetings adds who meets whom.
func (g *graph) meetings() {
	var clips []int
	for i := range g.nodes {
		n := &g.nodes[i]
		switch n.kind {
		case gatherParams, scatterGrads, separateGrads:
			if g.t.dp*g.t.shards > 1 {
				g.meet(true, i)
			}
		case clipGrads:
			clips = append(clips, i)
		}
	}
	for k, i := range g.of {
		switch k.kind {
		case forwardSend:
			g.meet(false, i, g.at(forwardRecv, k.seq, k.stage+1))
		case backwardSend:
			g.meet(false, i, g.at(backwardRecv, k.seq, k.stage-1))
		}
	}
	g.meet(false, g.at(embedding, 0, 0), g.at(embedding, 0, max(g.t.pp-1, 0)))
	g.meet(true, clips...)
}

// transfers finds what a meeting took from when the last one came.
func (g *graph) transfers() {
	const skew = 0.01 // seconds by which clocks may differ
	for _, list := range g.groups {
		for i := range len(g.t.steps) * g.t.dp {
			last := math.Inf(-1)
			for _, k := range list {
				for dp := range g.t.dp {
					if at := i/g.t.dp*g.t.dp + dp; at == i || g.nodes[k].all {
						last = max(last, g.nodes[k].start[at])
					}
				}
			}
			for _, k := range list {
				if g.nodes[k].transfer[i] = g.nodes[k].end[i] - last; g.nodes[k].transfer[i] <= -skew {
					g.nodes[k].transfer[i] = 0
				}
			}
		}
	}
}

// sort puts the operations in an order in which none comes before what it waits for.
// Those that meet come as one, and get what any of them waits for.
func (g *graph) sort() error {
	state := make([]int, len(g.nodes)) // 1: in work, 2: done
	var visit func(i int) error
	visit = func(i int) error {
		members := []int{i}
		if g.nodes[i].group >= 0 {
			members = g.groups[g.nodes[i].group]
		}
		switch state[i] {
		case 1:
			return fmt.Errorf("%s of stage %d waits for itself", g.nodes[i].kind, g.nodes[i].stage)
		case 2:
			return nil
		}
		for _, m := range members {
			state[m] = 1
		}
		for _, m := range members {
			for _, on := range g.nodes[m].after {
				if err := visit(on); err != nil {
					return err
				}
			}
		}
		for _, m := range members {
			state[m] = 2
		}
		g.order = append(g.order, members...)
		return nil
	}
	for i := range g.nodes {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}
