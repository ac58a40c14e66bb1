package straggler

import "github.com/trainspan/trainspan/internal/platform/stats"

const (
	// clockApart is by how much clocks of ranks must differ to be set: those of hosts that
	// are kept in time differ by milliseconds.
	clockApart  = 1_000_000 // us
	clockRounds = 100       // are looked at: clocks that drift are set as at the begin
)

// Clocks returns by how many nanoseconds the clock of each rank is to be set forward to be
// that of the lowest rank, where clocks differ by more than a second; nil where none do,
// or where nothing shows it. All ranks leave a collective of all together.
func (s *State) Clocks() map[int]int64 {
	s.Pack()
	var earliest, latest int64
	for _, rs := range s.ranks {
		if rs.steps.n == 0 {
			continue
		}
		at := rs.steps.cursor().p.start
		if earliest == 0 || at < earliest {
			earliest = at
		}
		latest = max(latest, at)
	}
	if latest-earliest < clockApart || s.windowed {
		return nil // they began together
	}
	g := newGraph(s)
	if len(g.ranks) < 2 || len(g.steps) == 0 {
		return nil
	}
	apart := make([][]float64, len(g.ranks))
	rd := g.read()
	for range min(len(g.steps), clockRounds) {
		rd.round()
		first, ok := g.leaves(0, rd.programs[0])
		if !ok {
			continue
		}
		for r, p := range rd.programs {
			if at, ok := g.leaves(r, p); ok {
				apart[r] = append(apart[r], float64(first-at))
			}
		}
	}
	out, far := make(map[int]int64), false
	for r, x := range apart {
		if len(x) == 0 {
			return nil
		}
		by := int64(stats.Median(x))
		far = far || by > clockApart || by < -clockApart
		out[g.ranks[r]] = by * 1000
	}
	if !far {
		return nil
	}
	return out
}

// leaves returns when a rank left the last collective of all ranks of a step.
func (g *graph) leaves(r int, p *program) (at int64, ok bool) {
	all := func(pc *piece) bool {
		return pc.kind == collective && len(g.groups[g.gid[r][pc.group]].members) == len(g.ranks)
	}
	for i := len(p.host) - 1; i >= 0; i-- {
		if all(&p.host[i]) {
			return p.endOf(i), true
		}
	}
	for i := range p.lanes {
		if l := &p.lanes[i]; all(&l.piece) {
			return p.start + l.start + l.dur, true
		}
	}
	return 0, false
}
