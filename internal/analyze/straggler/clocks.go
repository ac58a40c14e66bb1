package straggler

import (
	"maps"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

const (
	// clockApart is the least clock difference that is corrected. Clocks that are synchronized differ by
	// milliseconds.
	clockApart  = 1_000_000 // us
	clockRounds = 100       // rounds to inspect; later drift is ignored
	metAfter    = 10        // rounds after which ranks have met, even if they accumulate gradients
)

// Correction returns what the collectives and messages of the steps show about the clocks of the ranks and their
// process groups.
func (s *State) Correction() meet.Correction {
	g := newGraph(s)
	return meet.Correction{Clocks: g.findClocks(), Strides: g.strides}
}

// findClocks returns, for each rank, the nanoseconds to add to its clock so that it agrees with the clock of the
// lowest rank. It relies on the ranks of a group leaving a collective together, and on messages in both directions
// between two ranks arriving after they were sent. It returns nil if no clocks differ by more than a second, or if
// collectives and messages do not connect all ranks.
func (g *graph) findClocks() map[int]int64 {
	if g.st.windowed || len(g.ranks) < 2 || len(g.steps) == 0 || g.endTogether() {
		return nil
	}
	apart := make([][][]float64, len(g.groups)) // by group and member: behind the first member
	for k := range apart {
		apart[k] = make([][]float64, len(g.groups[k].members))
	}
	left := make([]map[int]int64, len(g.ranks))
	delays := make(map[[2]int]int64) // by sender and receiver: the least time of a message, by their clocks
	rd := g.read()
	for range min(len(g.steps), clockRounds) {
		rd.round()
		for r, p := range rd.programs {
			left[r] = g.leaves(r, p)
		}
		g.measureMessages(delays, rd.programs)
		for k := range g.groups {
			members := g.groups[k].members
			if len(members) == 0 {
				continue
			}
			first, ok := left[members[0]][k]
			if !ok {
				continue
			}
			for i, r := range members {
				if at, ok := left[r][k]; ok {
					apart[k][i] = append(apart[k][i], float64(first-at))
				}
			}
		}
	}
	pairs := slices.SortedFunc(maps.Keys(delays), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	by := map[int]int64{0: 0} // by index of the rank
	for grown := true; grown; {
		grown = false
		for k := range g.groups {
			grown = g.spread(by, k, apart[k]) || grown
		}
		for _, pair := range pairs {
			there := delays[pair]
			back, ok := delays[[2]int{pair[1], pair[0]}]
			at, known := by[pair[0]]
			if _, done := by[pair[1]]; ok && known && !done {
				by[pair[1]], grown = at-(there-back)/2, true
			}
		}
	}
	if len(by) < len(g.ranks) {
		return nil
	}
	out, far := make(map[int]int64), false
	for r, d := range by {
		far = far || d > clockApart || d < -clockApart
		out[g.ranks[r]] = d * 1000
	}
	if !far {
		return nil
	}
	return out
}

// endTogether reports whether an early step of all ranks, after their first collectives, ends at about the same time by
// their clocks. Their starts do not tell: a rank may start as much later as its clock is behind.
func (g *graph) endTogether() bool {
	step := g.steps[min(len(g.steps)-1, metAfter)]
	var earliest, latest int64
	for i, r := range g.ranks {
		st := &g.st.ranks[r].steps
		c := openBlocks(st.blocks[st.firstBlock(step):])
		for c.ok && c.p.step < step {
			c.next()
		}
		if i == 0 || c.p.end < earliest {
			earliest = c.p.end
		}
		latest = max(latest, c.p.end)
	}
	return latest-earliest < clockApart
}

// spread adds the members of group k to the ranks whose clocks are known, if one of these is a member too. apart
// has how far each member is behind the first one, by round. It reports whether a rank was added.
func (g *graph) spread(by map[int]int64, k int, apart [][]float64) bool {
	members := g.groups[k].members
	from := slices.IndexFunc(members, func(r int) bool { _, ok := by[r]; return ok })
	if from < 0 || len(apart[from]) == 0 {
		return false
	}
	grown := false
	start := by[members[from]] - int64(stats.Median(apart[from]))
	for i, r := range members {
		if _, ok := by[r]; !ok && len(apart[i]) > 0 {
			by[r], grown = start+int64(stats.Median(apart[i])), true
		}
	}
	return grown
}

// measureMessages updates the least times of messages with those of a step.
func (g *graph) measureMessages(delays map[[2]int]int64, programs []*program) {
	sent := make(map[[2]int][]int64)
	each := func(kind pieceKind, fn func(r, peer int, at int64)) {
		for r, p := range programs {
			at := p.start
			for i := range p.host {
				pc := &p.host[i]
				if at += pc.dur; pc.kind == kind && g.peers[r][pc.group] >= 0 {
					fn(r, g.peers[r][pc.group], at)
				}
			}
		}
	}
	each(send, func(r, to int, at int64) { sent[[2]int{r, to}] = append(sent[[2]int{r, to}], at) })
	each(receive, func(r, from int, at int64) {
		pair := [2]int{from, r}
		if list := sent[pair]; len(list) > 0 {
			if was, ok := delays[pair]; !ok || at-list[0] < was {
				delays[pair] = at - list[0]
			}
			sent[pair] = list[1:]
		}
	})
}

// leaves returns when a rank left its last collective of each group in a step.
func (g *graph) leaves(r int, p *program) map[int]int64 {
	out := make(map[int]int64)
	p.eachCollective(func(pc *piece, end int64) {
		if k := g.gid[r][pc.group]; out[k] < end {
			out[k] = end
		}
	})
	return out
}
