package optrace

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/replay"
)

// Ranks is how many workers the job has. Rank r of the verdict is stage r mod Stages of
// the data parallel rank r / Stages.
func (t *Trace) Ranks() int { return t.dp * t.pp }

// Stages is how many stages the pipeline has.
func (t *Trace) Stages() int { return t.pp }

// state returns the steps of the replay that was made last to internal/replay: of a worker
// one operation after the other, a message as long as it holds up what needs it.
func (g *graph) state() *replay.State {
	t := g.t
	st := replay.New(&replay.Options{WorldSize: t.Ranks()})
	begin := int64(1)
	for s := range t.steps {
		last := begin
		for dp := range t.dp {
			for stage := range t.pp {
				r := t.worker(dp, stage)
				st.SetRank(r, replay.Rank{Role: fmt.Sprintf("stage %d", stage)})
				step := replay.Step{Rank: r, Number: t.steps[s], Start: begin, Spans: g.spans(stage, s*t.dp+dp, begin)}
				step.End = step.Spans[len(step.Spans)-1].End
				st.Add(&step)
				last = max(last, step.End)
			}
		}
		begin = last
	}
	return st
}

// spans returns what a worker did in a step.
func (g *graph) spans(stage, at int, begin int64) (out []replay.Span) {
	var list []*node
	for i := range g.nodes {
		if n := &g.nodes[i]; n.stage == stage && !slices.Contains(messages, n.kind) {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.start[at], b.start[at]), cmp.Compare(a.end[at], b.end[at]))
	})
	until := begin
	message := func(kind string, seq int, meeting replay.Meeting) {
		i := g.at(kind, seq, stage)
		if i < 0 {
			return
		}
		until++ // behind what ends at this moment
		sp := replay.Span{Phase: replay.Communication, Meeting: meeting, Start: until, End: until}
		if meeting == replay.Receive {
			sp.End = max(until, begin+nanos(g.nodes[i].end[at]))
		}
		until = sp.End + 1
		out = append(out, sp)
	}
	seq := map[string]int{}
	for _, n := range list {
		k := seq[n.kind]
		seq[n.kind]++
		switch n.kind {
		case forward:
			message(forwardRecv, k, replay.Receive)
		case backward:
			message(backwardRecv, k, replay.Receive)
		}
		sp := replay.Span{Start: max(until, begin+nanos(n.start[at]))}
		sp.End = max(sp.Start, begin+nanos(n.end[at]))
		sp.Phase, sp.Group, sp.GroupSize = g.meaning(n, at)
		out = append(out, sp)
		until = sp.End
		switch n.kind {
		case forward:
			message(forwardSend, k, replay.Send)
		case backward:
			message(backwardSend, k, replay.Send)
		}
	}
	return out
}

func nanos(s float64) int64 { return int64(math.Round(s * 1e9)) }

// meaning is the phase of an operation, and the group of one that meets others.
func (g *graph) meaning(n *node, at int) (phase replay.Phase, group string, size int) {
	switch n.kind {
	case forward:
		return replay.Forward, "", 0
	case backward:
		return replay.Backward, "", 0
	case optimizer:
		return replay.Optimizer, "", 0
	}
	if n.group < 0 {
		return replay.Other, "", 0
	}
	switch members := len(g.groups[n.group]); {
	case n.all && members > 1:
		return replay.Communication, "", g.t.Ranks()
	case n.all:
		return replay.Communication, fmt.Sprintf("data parallel, stage %d", n.stage), g.t.dp
	case members > 1:
		return replay.Communication, fmt.Sprintf("embedding %d", at%g.t.dp), members
	}
	return replay.Other, "", 0
}
