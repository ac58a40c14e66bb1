package spanstats

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

// rank returns the rank as text, empty if unknown.
func (p *process) rank() string {
	if !p.who.RankKnown {
		return ""
	}
	return strconv.Itoa(p.who.Rank)
}

// number assigns processes the number of their attempt by their job. It counts
// a process that runs in parallel to another of its rank and attempt
// separately.
func (a *Aggregator) number() {
	of := make(map[*job.Process]*process)
	var all []*job.Process
	for _, p := range a.order {
		if p.events == 0 {
			continue
		}
		c := *p.who
		c.Start, c.LastSeen, c.Spans, c.Training = p.start*1000, p.end*1000, p.events, p.trains
		c.Steps = p.allSteps()
		of[&c], p.number, p.beside = p, 1, 0
		all = append(all, &c)
	}
	for _, j := range job.Assemble(all, a.opts.Starts...) {
		for _, c := range j.Processes {
			of[c].number = int64(c.Attempt)
		}
		for _, c := range j.Helpers {
			of[c].number = int64(max(j.AttemptAt(c.Start+(c.LastSeen-c.Start)/2), 1))
		}
	}
	for c, p := range of {
		p.run = c.Run
	}
	type place struct {
		run    string
		rank   int
		number int64
	}
	beside := make(map[place]int64)
	slices.SortStableFunc(a.order, func(x, y *process) int {
		return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.who.PID, y.who.PID), cmp.Compare(x.host, y.host))
	})
	for _, p := range a.order {
		if at := (place{p.run, p.who.Rank, p.number}); p.events > 0 && p.who.RankKnown {
			p.beside = beside[at]
			beside[at]++
		}
	}
}

// rankKey identifies a rank. The attempts of a rank in one run are one; each
// process without a rank is separate, and so is each parallel process of a
// rank.
type rankKey struct {
	run, rank, host string
	pid, beside     int64
}

func rankOf(run, rank, host string, pid, beside int64) rankKey {
	if rank != "" {
		return rankKey{run: run, rank: rank, beside: beside}
	}
	return rankKey{host: host, pid: pid}
}

// Mean returns the time of a rank, in the mean over all ranks, and the number
// of ranks. The times of several attempts of a rank add up.
func (r *Result) Mean() (mean Use, ranks int64) {
	seen := make(map[rankKey]bool)
	for i := range r.Processes {
		p := &r.Processes[i]
		mean.add(&p.Use)
		seen[rankOf(p.Run, p.Rank, p.HostHash, p.PID, p.beside)] = true
	}
	ranks = int64(len(seen))
	return mean.dividedBy(ranks), ranks
}

// EpochMean is one epoch in the mean over the ranks that have it.
type EpochMean struct {
	Epoch, Ranks  int64
	Steps, Events int64 // steps of the rank with the most, events of all
	Use
}

// EpochMeans returns the epochs in their order. The times of several attempts
// of a rank for an epoch add up.
func (r *Result) EpochMeans() []EpochMean {
	var out []EpochMean
	for i := 0; i < len(r.Epochs); {
		m := EpochMean{Epoch: r.Epochs[i].Epoch}
		steps := make(map[rankKey]int64)
		for ; i < len(r.Epochs) && r.Epochs[i].Epoch == m.Epoch; i++ {
			e := &r.Epochs[i]
			m.Use.add(&e.Use)
			m.Events += e.Events
			steps[rankOf(e.Run, e.Rank, e.HostHash, e.PID, e.beside)] += e.Steps
		}
		for _, n := range steps {
			m.Steps = max(m.Steps, n)
		}
		m.Ranks = int64(len(steps))
		m.Use = m.Use.dividedBy(m.Ranks)
		out = append(out, m)
	}
	return out
}

func (u *Use) add(o *Use) {
	u.Wall += o.Wall
	u.Compute += o.Compute
	u.IO += o.IO
	u.IOStall += o.IOStall
	u.Comm += o.Comm
	u.CommStall += o.CommStall
	u.Copies += o.Copies
	u.Idle += o.Idle
}

func (u Use) dividedBy(n int64) Use {
	n = max(n, 1)
	return Use{Wall: u.Wall / n, Compute: u.Compute / n, IO: u.IO / n, IOStall: u.IOStall / n,
		Comm: u.Comm / n, CommStall: u.CommStall / n, Copies: u.Copies / n, Idle: u.Idle / n}
}

// unions has one union for each class except Other, in their order.
type unions [classCount - 1][]nest.Interval

// shares has, for every combination of unions (bit 0 for the first), the time
// in which exactly these applied.
type shares [1 << len(unions{})]int64

// sharesUntil returns the shares of the time from the first point to each of
// the points, which are sorted.
func (sets unions) sharesUntil(points []int64) []shares {
	var (
		out  = make([]shares, len(points))
		now  shares
		mask int
		next [len(unions{})]int   // the intervals that have not ended
		edge [len(unions{})]int64 // when they begin or, those in mask, end
	)
	at := points[0]
	enter := func(k int) {
		edge[k] = math.MaxInt64
		if next[k] < len(sets[k]) {
			edge[k] = sets[k][next[k]].Start
		}
	}
	for k, set := range sets {
		next[k], _ = slices.BinarySearchFunc(set, at, func(iv nest.Interval, t int64) int {
			if iv.End <= t {
				return -1
			}
			return 1
		})
		if enter(k); edge[k] <= at {
			mask |= 1 << k
			edge[k] = set[next[k]].End
		}
	}
	for i, point := range points {
		for at < point {
			until := point
			for _, t := range edge {
				until = min(until, t)
			}
			now[mask] += until - at
			at = until
			for k := range edge {
				if edge[k] != at {
					continue
				}
				if mask ^= 1 << k; mask&(1<<k) != 0 {
					edge[k] = sets[k][next[k]].End
				} else {
					next[k]++
					enter(k)
				}
			}
		}
		out[i] = now
	}
	return out
}

// uses returns the use of each of some intervals.
func (sets unions) uses(of []nest.Interval) []Use {
	points := make([]int64, 0, 2*len(of))
	for _, iv := range of {
		points = append(points, iv.Start, iv.End)
	}
	slices.Sort(points)
	points = slices.Compact(points)
	sums := sets.sharesUntil(points)
	out := make([]Use, len(of))
	for i, iv := range of {
		from, _ := slices.BinarySearch(points, iv.Start)
		to, _ := slices.BinarySearch(points, iv.End)
		out[i] = useOf(&sums[from], &sums[to], iv.End-iv.Start)
	}
	return out
}

// useOf returns the use of the time between two points.
func useOf(from, to *shares, wall int64) Use {
	bit := func(c Class) int { return 1 << (c - 1) }
	sum := func(with, without int) (n int64) {
		for mask := range to {
			if mask&with == with && mask&without == 0 {
				n += to[mask] - from[mask]
			}
		}
		return n
	}
	return Use{Wall: wall, Compute: sum(bit(Compute), 0), IO: sum(bit(IO), 0), IOStall: sum(bit(IO), bit(Compute)),
		Comm: sum(bit(Comm), 0), CommStall: sum(bit(Comm), bit(Compute)), Copies: sum(bit(Copy), 0), Idle: to[0] - from[0]}
}
