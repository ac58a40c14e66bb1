package straggler

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Part is the contribution of one component to the difference between the mean steps of two runs. A component
// is the work of a phase or the transfers of a group.
type Part struct {
	Phase string `json:"phase,omitempty"`
	// Ranks lists the ranks of the part; empty means all ranks, or all except those listed in other parts of
	// the phase.
	Ranks []int  `json:"ranks,omitempty"`
	Group string `json:"group,omitempty"` // of a transfer; groups whose names differ only in the last number are merged
	// Time is the difference of a mean step in nanoseconds, positive if the new run is slower. Low and High
	// are its 95 % confidence bounds, from the variation of the steps of both runs; both are 0 if there are
	// too few steps.
	Time float64 `json:"time_ns"`
	Low  float64 `json:"low_ns"`
	High float64 `json:"high_ns"`
}

const (
	apartShare = 0.01 // of a step: a rank whose change differs from the median by more is its own part
	apartPart  = 0.25 // and by more than this fraction of the largest such difference
	apartTimes = 4    // and by more than this many standard deviations over the ranks
	mostApart  = 4
)

// player is a component that is exchanged as a whole (a player of the Shapley decomposition in
// [Table.Exchange]).
type player struct {
	part  Part
	phase Phase // phase of the work; phases for a transfer
	ranks []int // by index, sorted
	group []int // groups of a transfer
}

// exchange replays the steps of one run with values of another.
type exchange struct {
	j, o     *job
	was, new *outcome
	of       []int // for each group of j the group of o, or -1
}

// Exchange splits the difference between the mean steps of two runs of the same ranks into parts. It replays
// the steps of the longer run and replaces more and more of its recorded values by those of the other run:
// first one phase after the other, then the transfers of one group after the other. Ranks whose work changed
// more than that of the others are exchanged separately. The contribution of a component depends on what was
// exchanged before it, so Exchange averages this order and its reverse. The parts do not include differences
// in the order of operations. Exchange returns nil if the runs have different ranks or a replay does not
// finish.
func (t *Table) Exchange(next *Table) []Part {
	if !slices.Equal(t.Ranks, next.Ranks) || t.Per != next.Per || len(t.Steps) == 0 || len(next.Steps) == 0 || !t.out.finished || !next.out.finished {
		return nil
	}
	sign := 1.0
	if len(next.Steps) > len(t.Steps) {
		t, next, sign = next, t, -1
	}
	j := *t.j
	j.slack = nil // a fetch takes its recorded time
	x := &exchange{j: &j, o: next.j, was: t.out, new: next.out}
	for _, g := range j.groups {
		x.of = append(x.of, slices.IndexFunc(x.o.groups, func(o group) bool { return o.name == g.name }))
	}
	players := x.players()
	n := len(players)
	var repairs []repair
	for k := range n {
		repairs = append(repairs, x.repair(players[:k+1]))
	}
	for k := range n - 1 {
		repairs = append(repairs, x.repair(players[n-1-k:]))
	}
	if n == 0 {
		return nil
	}
	out := j.replay(repairs...)
	if !out.finished {
		return nil
	}
	m := j.rounds()
	last := func(k int) int { // the replay in which the last k players are exchanged
		if k > 0 && k < n {
			return k + n
		}
		return k
	}
	took := func(k, s int) float64 { return out.span(k, j.from+s, j.from+s+1) }
	fewer := min(m, x.o.rounds())
	var parts []Part
	each := make([]float64, m)
	for i := range players {
		for s := range each {
			each[s] = sign * (took(i+1, s) - took(i, s) + took(last(n-i), s) - took(last(n-i-1), s)) / 2 * 1e3
		}
		p := players[i].part
		p.Time, p.Low, p.High = meanWithin(each, fewer)
		parts = append(parts, p)
	}
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(math.Abs(b.Time), math.Abs(a.Time)) })
	return parts
}

// round returns the round of the other run whose values replace those of round s.
func (x *exchange) round(s int) int {
	return x.o.from + (s-x.j.from)*x.o.rounds()/x.j.rounds()
}

// took returns the time of a phase on host and device, for one round and rank.
func (j *job) took(s, r int, p Phase) float64 {
	return j.time(rowOf(false, p), s, r) + j.time(rowOf(true, p), s, r)
}

func (x *exchange) players() (out []player) {
	n := len(x.j.ranks)
	for _, p := range Phases() {
		diff, any := make([]float64, n), false
		for r := range n {
			for s := x.j.from; s < len(x.j.steps); s++ {
				a, b := x.j.took(s, r, p), x.o.took(x.round(s), r, p)
				any = any || a > 0 || b > 0
				diff[r] += (b - a) / float64(x.j.rounds())
			}
		}
		if x.j.hides == p && p != Host && x.o.hides == p {
			any = true
		}
		if !any {
			continue
		}
		middle, most := stats.Median(slices.Clone(diff)), 0.0
		for _, d := range diff {
			most = max(most, math.Abs(d-middle))
		}
		least := max(apartShare*x.j.typical(), apartPart*most)
		if n > 2 { // two ranks are equally far from their median
			least = max(least, apartTimes*stats.Sigma*stats.MAD(slices.Clone(diff)))
		}
		var apart, rest []int
		for r, d := range diff {
			if n > 1 && math.Abs(d-middle) > least {
				apart = append(apart, r)
			} else {
				rest = append(rest, r)
			}
		}
		if len(apart) > mostApart {
			slices.SortStableFunc(apart, func(a, b int) int { return cmp.Compare(math.Abs(diff[b]-middle), math.Abs(diff[a]-middle)) })
			apart, rest = apart[:mostApart], append(rest, apart[mostApart:]...)
			slices.Sort(apart)
			slices.Sort(rest)
		}
		if len(rest) > 0 {
			out = append(out, player{part: Part{Phase: p.String()}, phase: p, ranks: rest})
		}
		for _, r := range apart {
			out = append(out, player{part: Part{Phase: p.String(), Ranks: []int{x.j.ranks[r]}}, phase: p, ranks: []int{r}})
		}
	}
	for _, family := range x.j.families() {
		family = slices.DeleteFunc(family, func(g int) bool { return x.of[g] < 0 })
		if len(family) > 0 {
			out = append(out, player{part: Part{Phase: Communication.String(), Group: x.j.groups[family[0]].name}, phase: phases, group: family})
		}
	}
	return out
}

// repair returns a repair that gives the players their times from the other run.
func (x *exchange) repair(players []player) repair {
	players = slices.Clone(players)
	n := len(x.j.ranks)
	has := make([]bool, int(phases)*n)
	group := make([]bool, len(x.j.groups))
	for _, p := range players {
		for _, r := range p.ranks {
			has[int(p.phase)*n+r] = true
		}
		for _, g := range p.group {
			group[g] = true
		}
	}
	hidden := x.j.hides != Host && slices.Contains(has[int(x.j.hides)*n:(int(x.j.hides)+1)*n], true)
	return repair{
		work: func(s, r, row int) float64 {
			own := x.j.time(row, s, r)
			if !has[row%int(phases)*n+r] || own == 0 {
				return 1
			}
			return x.o.time(row, x.round(s), r) / own
		},
		// Work that the step of this run lacks is added at its end.
		extra: func(s, r int) (sum float64) {
			for row := range rows {
				if has[row%int(phases)*n+r] && x.j.time(row, s, r) == 0 {
					sum += x.o.time(row, x.round(s), r)
				}
			}
			return sum
		},
		transfer: func(s int, m *meeting, t float64) float64 {
			other := -1
			if m.group >= 0 {
				if !group[m.group] {
					return t
				}
				other = x.of[m.group]
			} else if !hidden || x.o.hides != x.j.hides {
				return t
			}
			a, b := x.was.transfers[m.group], x.new.transfers[other]
			if a == nil || b == nil {
				return t
			}
			if own, is := a[s], b[x.round(s)]; own > 0 && is == is {
				return t * is / own
			}
			return t
		},
	}
}
