package straggler

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Part is what one thing adds to the difference between the steps of two runs: the work
// of a phase, or the transfers of a group.
type Part struct {
	Phase string `json:"phase,omitempty"`
	// Ranks have it for themselves; none: all ranks, or all but those of other parts.
	Ranks []int  `json:"ranks,omitempty"`
	Group string `json:"group,omitempty"` // of a transfer; groups whose names differ in the last number are one
	// Time is nanoseconds of a mean step, more in the new run where it is above 0. Low and High bound
	// it with 95 %, by how the steps of both runs vary; both are 0 where there are too few.
	Time float64 `json:"time_ns"`
	Low  float64 `json:"low_ns"`
	High float64 `json:"high_ns"`
}

const (
	apartShare = 0.01 // of a step: a rank that changes by so much more than the others is a part by itself
	apartPart  = 0.25 // and by that part of the most that one does
	apartTimes = 4    // and by so many deviations of the ranks
	mostApart  = 4
)

// player is what is exchanged at once.
type player struct {
	part  Part
	phase Phase // of work; phases for a transfer
	ranks []int // by index, sorted
	group []int // of a transfer
}

// exchange replays the steps of one run with values of another.
type exchange struct {
	j, o     *job
	was, new *outcome
	of       []int // group of o for each of j, -1 for none
}

// Exchange splits the difference between the mean steps of two runs of the same ranks.
// The steps of the longer run are replayed with more and more of what is on record of
// the other run in the place of its own: one phase after the other, ranks whose work
// changed more than that of the others by themselves, then the transfers of one group
// after the other. What each adds depends on what was exchanged before it, so that the
// mean is taken of this order and its reverse. What is left of the difference is that
// pieces follow each other in another way. It returns nil where the runs have other
// ranks, or a replay does not finish.
func (t *Table) Exchange(next *Table) []Part {
	if !slices.Equal(t.Ranks, next.Ranks) || t.Per != next.Per || len(t.Steps) == 0 || len(next.Steps) == 0 || !t.out.finished || !next.out.finished {
		return nil
	}
	sign := 1.0
	if len(next.Steps) > len(t.Steps) {
		t, next, sign = next, t, -1
	}
	j := *t.j
	j.slack = nil // a fetch takes as long as it took
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
	last := func(k int) int { // the replay with the last k players
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

// round returns that of the other run whose values stand for those of one.
func (x *exchange) round(s int) int {
	return x.o.from + (s-x.j.from)*x.o.rounds()/x.j.rounds()
}

// took is what the work of a phase took a rank, on host and device.
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
		if n > 2 { // two are as far from their middle
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

// repair returns players what they took in the other run.
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
		// What a step has nothing of is done at its end.
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
