package straggler

import "github.com/trainspan/trainspan/internal/platform/stats"

const (
	// clockApart is the least clock difference that is corrected. Clocks that are synchronized differ by
	// milliseconds.
	clockApart  = 1_000_000 // us
	clockRounds = 100       // rounds to inspect; later drift is ignored
)

// Clocks returns, for each rank, the nanoseconds to add to its clock so that it agrees with the clock of the
// lowest rank. It relies on all ranks leaving a collective of all ranks together. It returns nil if no clocks
// differ by more than a second, or if there are no such collectives to compare.
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
		return nil // the ranks started together
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

// leaves returns when a rank left the last collective of all ranks in a step; ok is false if the step has
// none.
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
