package account

import (
	"cmp"
	"maps"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
)

// Disruption is one restart of a job, or one rollback to an earlier iteration,
// and its cost. All durations are rank time.
type Disruption struct {
	// After is the disrupted attempt. Next is the attempt that continued; it is
	// equal to After if the program rolled back without a restart.
	After int `json:"after_attempt"`
	Next  int `json:"next_attempt"`

	At     int64 `json:"at_ns"`  // the last record or heartbeat of any rank, or the start of the loop that rolled back
	Proper bool  `json:"proper"` // the attempt had ended properly: a planned stop

	Iterations int   `json:"lost_iterations"` // finished and unfinished, of the rank that lost most
	LostWork   int64 `json:"lost_work_ns"`
	Stall      int64 `json:"stall_ns"`
	Stretch    int64 `json:"stretch_ns"` // all other time from the data loading of the first lost iteration to the disruption
	Down       int64 `json:"downtime_ns"`

	// Unrecorded is the time after the last record in which the attempt may still have
	// lived: its records of that time were lost with it. So the downtime is between Down
	// and DownMost, and the lost iterations are between Iterations and IterationsMost.
	// DownMost and IterationsMost are left out if they do not exceed Down and Iterations.
	Unrecorded     int64 `json:"unrecorded_ns,omitempty"`
	DownMost       int64 `json:"downtime_most_ns,omitempty"`
	IterationsMost int   `json:"lost_iterations_most,omitempty"`

	Init   int64 `json:"init_ns"`   // of the next attempt
	Reload int64 `json:"reload_ns"` // of the next attempt
	Warmup int64 `json:"warmup_ns"` // of the next attempt
	Total  int64 `json:"total_ns"`
}

// disruptions collects the disruptions of all ranks.
type disruptions struct{ found map[disrupted]*Disruption }

// disrupted identifies a disruption.
type disrupted struct{ after, next, loop int }

func (all *disruptions) get(k disrupted, at int64, proper bool) *Disruption {
	d := all.found[k]
	if d == nil {
		if all.found == nil {
			all.found = make(map[disrupted]*Disruption)
		}
		d = &Disruption{After: k.after, Next: k.next, At: at, Proper: proper}
		all.found[k] = d
	}
	d.At, d.Proper = max(d.At, at), d.Proper && proper
	return d
}

// rank adds the disruptions of one rank.
func (all *disruptions) rank(v *view, r *rankView) {
	for k := range r.attempts {
		a := &r.attempts[k]
		for j := 1; j < len(a.loops); j++ {
			if lp := &a.loops[j]; lp.start < v.asOf && a.rollsBack(j) {
				all.get(disrupted{a.Attempt, a.Attempt, j}, lp.start, false)
			}
		}
		if next, until, ok := v.follow(r, k); ok {
			all.get(disrupted{a.Attempt, next, 0}, a.to, a.End <= v.asOf).down(a, until)
		}
		if k > 0 {
			all.get(v.restartOf(a.Attempt), r.attempts[k-1].to, true).restart(a)
		}
	}
	v.lostBy(r, func(k disrupted) *Disruption { return all.get(k, 0, true) })
}

// restartOf identifies the restart before an attempt, which is not the first.
func (v *view) restartOf(attempt int) disrupted {
	return disrupted{v.tries[v.find(attempt)-1].number, attempt, 0}
}

// inWindows returns the disruptions whose At is in a window, with their totals.
func (all *disruptions) inWindows(windows []Interval) []Disruption {
	var out []Disruption
	order := slices.SortedFunc(maps.Keys(all.found), func(a, b disrupted) int {
		return cmp.Or(cmp.Compare(a.after, b.after), cmp.Compare(a.next, b.next), cmp.Compare(a.loop, b.loop))
	})
	for _, k := range order {
		d := all.found[k]
		d.Total = d.LostWork + d.Stall + d.Stretch + d.Unrecorded + d.Down + d.Init + d.Reload + d.Warmup
		if d.DownMost == d.Down {
			d.DownMost = 0
		}
		if d.IterationsMost <= d.Iterations {
			d.IterationsMost = 0
		}
		if inAnyWindow(d.At, windows) {
			out = append(out, *d)
		}
	}
	return out
}

// rollsBack reports whether loop j repeats an iteration of an earlier loop of
// the process.
func (a *attemptView) rollsBack(j int) bool {
	for i := range a.iterations {
		it := &a.iterations[i]
		if int(it.loop) >= j {
			return false
		}
		if from := a.loops[j].from; from >= 0 && it.number >= from {
			return true
		}
	}
	return false
}

// restart adds the start of a rank's next attempt.
func (d *Disruption) restart(next *attemptView) {
	next.eachStretch(next.from, next.to, func(s stretch) {
		switch took := s.to - s.from; s.category {
		case Init:
			d.Init += took
		case CheckpointLoad:
			d.Reload += took
		case Warmup:
			d.Warmup += took
		}
	})
}

// down adds the time from the end of an attempt of a rank to the start of the next one, of the rank or of others.
func (d *Disruption) down(a *attemptView, next int64) {
	latest := min(a.latest, next)
	gap := latest - a.to
	d.Unrecorded += gap
	d.Down += next - latest
	if d.DownMost += next - latest; !a.Died {
		d.DownMost += gap
	}
	d.IterationsMost = max(d.IterationsMost, a.unrecorded())
}

// pace is the number of last iterations from which the time of one, with the gap
// to the next, is estimated.
const pace = 16

// unrecorded returns how many iterations may have begun after the last record.
func (a *attemptView) unrecorded() int {
	gap := a.latest - a.to
	if gap <= 0 {
		return 0
	}
	n, first, end := 0, int64(0), int64(0)
	for i := len(a.iterations) - 1; i >= 0 && n < pace; i-- {
		it := &a.iterations[i]
		if it.end == job.NoEnd {
			continue
		}
		if n += it.count(); end == 0 {
			end = it.end
		}
		first = it.start
	}
	if n == 0 || end <= first {
		return 0
	}
	each := max((end-first)/int64(n), 1)
	return int((gap + each - 1) / each)
}

// lostBy adds each lost iteration of a rank to the disruption that undid it: the
// first later loop that repeats its number, or the end of the attempt in which it
// did not finish.
func (v *view) lostBy(r *rankView, find func(disrupted) *Disruption) {
	for k := range r.attempts {
		a := &r.attempts[k]
		type sum struct {
			n           int
			from, until int64
			work, stall int64
		}
		sums := make(map[*Disruption]*sum)
		for x := range a.iterations {
			if a.iterations[x].start >= v.asOf || !a.isLost(x) {
				continue
			}
			by, until, ok := v.undoneBy(r, k, x)
			if !ok {
				continue // no attempt followed on this rank
			}
			d := find(by)
			s := sums[d]
			if s == nil {
				s = &sum{from: a.iterations[x].start, until: until}
				sums[d] = s
			}
			_, work, stall := a.parts(x)
			s.n, s.work, s.stall = s.n+a.iterations[x].count(), s.work+work, s.stall+stall
			s.from = min(s.from, a.iterations[x].start)
		}
		for d, s := range sums {
			s.from = a.fetched(s.from)
			d.Iterations = max(d.Iterations, s.n)
			most := s.n
			if d.After == a.Attempt && d.Next != a.Attempt {
				most += a.unrecorded()
			}
			d.IterationsMost = max(d.IterationsMost, most)
			d.LostWork += s.work
			d.Stall += s.stall
			a.eachStretch(s.from, s.until, func(st stretch) {
				if st.iteration < 0 || st.category == Warmup {
					d.Stretch += st.to - st.from
				}
			})
		}
	}
}

// fetched returns the start of the data loading that ends when an iteration
// starts, or the start of the iteration if no data loading ends there.
func (a *attemptView) fetched(start int64) int64 {
	for s, end := range a.packed.stretches(a.stop) {
		if end >= start {
			if end == start && s.what == what(kindData) {
				return s.start
			}
			break
		}
	}
	return start
}

// undoneBy returns the disruption that undid iteration x of attempt k, and when
// the lost interval ends. ok is false if the attempt is the last of the rank
// and no loop of it repeats the iteration.
func (v *view) undoneBy(r *rankView, k, x int) (by disrupted, until int64, ok bool) {
	a := &r.attempts[k]
	number := a.iterations[x].number
	if number >= 0 {
		for j := int(a.iterations[x].loop) + 1; j < len(a.loops); j++ {
			if lp := &a.loops[j]; lp.start < v.asOf && lp.from >= 0 && lp.from <= number {
				return disrupted{a.Attempt, a.Attempt, j}, lp.start, true
			}
		}
	}
	next, _, ok := v.follow(r, k)
	if _, open := a.partial[x]; ok && !open {
		for at := v.find(next); at < len(v.tries); at++ {
			if v.tries[at].lowest <= number {
				return v.restartOf(v.tries[at].number), a.to, true
			}
		}
	}
	return disrupted{a.Attempt, next, 0}, a.to, ok
}
