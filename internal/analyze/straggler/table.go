package straggler

import (
	"math"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Table holds the judged steps of a run: what each rank did, waited for and transferred. Times are
// nanoseconds; NaN means unknown. The slow start and steps that not all ranks have are left out.
type Table struct {
	Ranks []int
	Steps []int64
	// Period is the duration of each step, the median over the ranks.
	Period []float64
	// Meets reports whether the ranks meet. If not, they do not delay each other.
	Meets bool
	// Per is the number of steps per entry of Steps: 1, or [WindowSteps]. For windows Steps holds the first
	// step of each window, and all other values are of its mean step.
	Per int64

	j      *job
	out    *outcome
	excess [][]float64
}

func (j *job) table(out *outcome) *Table {
	t := &Table{j: j, out: out, Ranks: j.ranks, Per: j.stepsPerRound(), Period: make([]float64, j.rounds()), excess: j.excess()}
	for i := range t.Period {
		t.Steps = append(t.Steps, j.number(j.from+i))
		t.Period[i] = j.period[j.from+i] * 1e3
	}
	t.Meets = len(j.ranks) > 1 && out.finished && (j.hides != Host || j.connected)
	return t
}

// Communication returns the time that a rank spent in collectives without working, split into the wait for
// others and the transfer. With [Table.Own] it adds up to the duration of the step on that rank. Both are NaN
// if no meetings are recorded.
func (t *Table) Communication(rank, step int) (wait, transfer float64) {
	if !t.out.finished || !t.out.met {
		return math.NaN(), math.NaN()
	}
	at := t.j.stepIndex(t.j.from+step, rank)
	return float64(t.out.wait[at]) * 1e3, float64(t.out.transfer[at]) * 1e3
}

// Excess returns the compute time of a rank minus the median over the other ranks with the same role. It is
// NaN for a rank that is alone in its role.
func (t *Table) Excess(rank, step int) float64 {
	if t.excess[rank] == nil {
		return math.NaN()
	}
	return t.excess[rank][step] * 1e3
}

// Has reports whether any step has a phase.
func (t *Table) Has(p Phase) bool {
	return p == Host || t.j.row[rowOf(false, p)] != nil || t.j.row[rowOf(true, p)] != nil || t.j.hides == p
}

// Hides returns the phase that hides the collectives of all ranks, if no span shows any and a phase does.
func (t *Table) Hides() (Phase, bool) { return t.j.hides, t.j.hides != Host }

// Own returns the compute time of a rank: the time in which it neither waited nor transferred. Rank and step
// are indexes.
func (t *Table) Own(rank, step int) float64 {
	return float64(t.j.own[t.j.stepIndex(t.j.from+step, rank)]) * 1e3
}

// Phase returns the part of the compute time that a phase took. If devices are recorded, this is device time
// plus the host time that delayed the device.
func (t *Table) Phase(p Phase, rank, step int) float64 {
	at := t.j.stepIndex(t.j.from+step, rank)
	of := func(device bool, p Phase) float64 { return t.j.time(rowOf(device, p), t.j.from+step, rank) }
	if !t.j.device {
		return of(false, p) * 1e3
	}
	left := float64(t.j.own[at])
	for q := range phases {
		left -= of(true, q)
	}
	// Attribute the rest to the host, its waits first.
	for _, q := range [...]Phase{Input, Checkpoint, Transfer} {
		d := max(min(of(false, q), left), 0)
		if q == p {
			return (of(true, p) + d) * 1e3
		}
		left -= d
	}
	if p == Host {
		return max(left, 0) * 1e3
	}
	return of(true, p) * 1e3
}

// Tokens returns the tokens or samples that a rank processed, NaN if not recorded.
func (t *Table) Tokens(rank, step int) float64 {
	if t.j.tokens == nil {
		return math.NaN()
	}
	if v := t.j.tokens[t.j.stepIndex(t.j.from+step, rank)]; v > 0 {
		return float64(v)
	}
	return math.NaN()
}

// Starts returns the start times of the steps of a rank, given by its index, in nanoseconds of its own clock,
// followed by the end of the last step.
func (t *Table) Starts(rank int) []int64 {
	out := make([]int64, 0, len(t.Steps)+1)
	end := int64(0)
	c := t.j.st.ranks[t.Ranks[rank]].steps.cursor()
	for _, step := range t.j.steps[t.j.from:] {
		for c.ok && c.p.step < step {
			c.next()
		}
		out, end = append(out, c.p.start*1000), c.p.end*1000
	}
	return append(out, end)
}

// ranking fills the table of ranks of a verdict.
func (j *job) ranking(v *Verdict, t *Table) {
	m := j.rounds()
	if m < 1 {
		return
	}
	buf := make([]float64, m)
	median := func(at func(s int) float64) float64 {
		for s := range buf {
			buf[s] = at(s)
		}
		return stats.Median(buf) / 1e6
	}
	for r := range j.ranks {
		row := RankRow{Rank: j.ranks[r], Host: j.info[r].Host, Role: j.info[r].Role, Phases: map[string]float64{}}
		row.Own = median(func(s int) float64 { return t.Own(r, s) })
		if t.excess[r] != nil {
			row.Excess = median(func(s int) float64 { return t.Excess(r, s) })
		}
		for _, p := range Phases() {
			if !t.Has(p) {
				continue
			}
			if d := median(func(s int) float64 { return t.Phase(p, r, s) }); d > 0 {
				row.Phases[p.String()] = d
			}
		}
		if t.Meets {
			row.Wait = median(func(s int) float64 { w, _ := t.Communication(r, s); return w })
		}
		row.Last = float64(t.out.late[r]) / float64(m)
		row.Caused = t.out.caused[r] / float64(m) / 1e3
		v.Ranking = append(v.Ranking, row)
	}
}
