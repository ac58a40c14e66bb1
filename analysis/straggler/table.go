package straggler

import (
	"maps"
	"math"
	"slices"
)

// Table is the steps of a run as a verdict sees them: what each rank did
// between two releases of the barrier. Times are nanoseconds; NaN is not known.
// The slow start and steps that too few ranks recorded are left out.
type Table struct {
	Ranks []int
	Steps []int64
	// Period is the time of each step, the median over the ranks.
	Period []float64
	// Barrier is where the ranks leave together, as in [Coverage]. It is empty
	// when there is no such place: one rank, or ranks that do not agree.
	Barrier string
	// Per is how many steps an entry of Steps stands for: 1, or [WindowSteps],
	// where Steps holds the first of each window and all else is of its mean step.
	Per int64

	rd  *rounds
	ref [][]float64 // own work that is usual, by role
	// transfer is the shortest time in collectives by step, nil without any.
	transfer []float64
}

// Table gives the steps that the State holds, nil where no step has a barrier
// of any kind.
func (s *State) Table() *Table {
	s.trim()
	rd, _ := s.build()
	return s.tableOf(rd)
}

func (s *State) tableOf(rd *rounds) *Table {
	t := &Table{}
	if rd != nil {
		t.Barrier = barrierNames[rd.barrier]
	} else if rd = s.alone(); rd == nil {
		return nil
	}
	t.rd, t.Ranks, t.Steps, t.Period, t.Per = rd, rd.ids, rd.steps, rd.p, max(rd.per, 1)
	a := &analysis{rd: rd}
	for _, ranks := range rd.roles {
		t.ref = append(t.ref, a.common(rd.own, ranks))
	}
	if rd.barrier == atCollective {
		t.transfer = rd.transfer()
	}
	return t
}

// alone makes the rounds of ranks that do not leave any barrier together, such
// as a single one: from the end of one step to that of the next.
func (s *State) alone() *rounds {
	if s.windowed {
		return s.fromWindows()
	}
	ids := slices.Sorted(maps.Keys(s.ranks))
	for b, with := range s.ranksWith(ids) {
		b := barrier(b)
		if len(with) == 0 || float64(len(with)) < minRanks*float64(len(ids)) {
			continue
		}
		rd := &rounds{barrier: b, ids: with, spread: math.Inf(1)}
		s.fill(rd, s.stepsWith(with)[b])
		return rd
	}
	return nil
}

// Sketch is how the periods of the steps of a window are spread: the median, the
// 90th and 99th percentile and the longest. Without windows all are the period.
func (t *Table) Sketch(step int) (median, p90, p99, longest float64) {
	if t.rd.sketch == nil {
		p := t.Period[step]
		return p, p, p, p
	}
	s := t.rd.sketch[step]
	return s[0], s[1], s[2], s[3]
}

// Own is the time in which a rank neither communicated nor waited. Ranks and
// steps are given by their index.
func (t *Table) Own(rank, step int) float64 { return t.rd.own.at(rank, step) + t.hidden(rank, step) }

// Excess is how much longer the own work of a rank took than the lower median
// over the ranks with the same role.
func (t *Table) Excess(rank, step int) float64 {
	return t.rd.own.at(rank, step) - t.ref[t.rd.roleOf[rank]][step]
}

// Phase is the part of the own work that a phase took. Where the wait for other
// ranks lies inside a span with work, it is part of that phase.
func (t *Table) Phase(p Phase, rank, step int) float64 {
	if p >= phases {
		return math.NaN()
	}
	v := t.rd.phase[p].at(rank, step)
	if p == Backward && t.rd.barrier == atBackward || p == Optimizer && t.rd.barrier == atOptimizer {
		v += t.hidden(rank, step)
	}
	return v
}

// Has says whether any step has a phase. Where the wait lies inside a span with
// work, the phase of that span counts as had.
func (t *Table) Has(p Phase) bool {
	if p >= phases {
		return false
	}
	if p == Backward && t.rd.barrier == atBackward || p == Optimizer && t.rd.barrier == atOptimizer {
		return true
	}
	return slices.ContainsFunc(t.rd.phase[p].v, func(v float32) bool { return v > 0 })
}

// Communication splits the time that a rank spent in collectives of a step and
// did not compute: the transfer, which is the shortest such time of all ranks, and
// the wait for others beyond it. With [Table.Own] it adds up to the time of the
// step on that rank. Both are NaN where no collective was recorded.
func (t *Table) Communication(rank, step int) (wait, transfer float64) {
	if t.transfer == nil {
		return math.NaN(), math.NaN()
	}
	return t.rd.communication(rank, step) - t.transfer[step], t.transfer[step]
}

// communication is the time of a round that is no own work.
func (rd *rounds) communication(r, s int) float64 {
	return max(rd.period.at(r, s)-rd.own.at(r, s), 0)
}

// transfer is the shortest such time of all ranks, by round: that of the rank that
// the others waited for.
func (rd *rounds) transfer() []float64 {
	out := make([]float64, rd.m())
	for s := range out {
		out[s] = math.Inf(1)
		for r := range rd.n() {
			if v := rd.communication(r, s); v < out[s] {
				out[s] = v
			}
		}
		if math.IsInf(out[s], 1) {
			out[s] = math.NaN()
		}
	}
	return out
}

// Tokens is the work of a rank, NaN where it is not recorded.
func (t *Table) Tokens(rank, step int) float64 { return t.rd.tokens.at(rank, step) }

// hidden is the time in a span that holds work and the wait alike.
func (t *Table) hidden(rank, step int) float64 {
	if t.rd.barrier == atCollective {
		return 0
	}
	return t.rd.wait.at(rank, step)
}

// Phases are those that own work is split into.
func Phases() []Phase {
	return []Phase{Input, Transfer, Forward, Backward, Optimizer, Checkpoint, Host}
}
