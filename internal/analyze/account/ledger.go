package account

import (
	"cmp"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

// Ledger holds the timelines of all processes of a job and reports on any
// interval of time. The zero value is an empty ledger. Its methods may be called
// concurrently, but not concurrently with [Ledger.Add] or [Ledger.Expect].
type Ledger struct {
	ranks    map[int]*rank
	having   map[int][]int // by attempt number: the ranks with that attempt, in order
	tried    []Interval    // starts without records
	expected int           // number of ranks of the job, 0 if unknown
	world    map[int]int   // the same of an attempt: an elastic job changes it

	corrections meet.Corrections

	meeting sync.Mutex
	table   *table          // of the meetings, nil until first used
	spill   *extsort.Blocks // takes what exceeds the memory limit, nil: keep all in memory
}

// rank holds the attempts of one rank, by number.
type rank struct {
	id       int
	attempts []*attempt
	rivals   []*attempt // other processes with the same attempt number
}

// Add adds the timeline of a process. A timeline that is added twice counts once.
// If two different timelines have the same rank and attempt, one of them counts,
// independent of the order, and the report has a [TwoWriters] flag. The builder
// must not be used afterwards. Add returns an error if the temporary file of a
// very large process could not be used; the ledger is then unchanged.
func (l *Ledger) Add(b *Builder) error {
	if err := b.finish(); err != nil {
		return err
	}
	l.spill = b.spill
	l.add(b.done)
	return nil
}

func (l *Ledger) add(a *attempt) {
	l.table = nil
	if l.ranks == nil {
		l.ranks, l.having = make(map[int]*rank), make(map[int][]int)
	}
	r := l.ranks[a.Rank]
	if r == nil {
		r = &rank{id: a.Rank}
		l.ranks[a.Rank] = r
	}
	at, found := slices.BinarySearchFunc(r.attempts, a, func(x, y *attempt) int { return cmp.Compare(x.Attempt, y.Attempt) })
	if !found {
		r.attempts = slices.Insert(r.attempts, at, a)
		ranks := l.having[a.Attempt]
		at, _ = slices.BinarySearch(ranks, a.Rank)
		l.having[a.Attempt] = slices.Insert(ranks, at, a.Rank)
		return
	}
	have := r.attempts[at]
	if have.digest == a.digest || slices.ContainsFunc(r.rivals, func(x *attempt) bool { return x.Attempt == a.Attempt && x.digest == a.digest }) {
		return
	}
	if a.better(have) {
		r.attempts[at], a = a, have
	}
	r.rivals = append(r.rivals, a)
}

// better reports whether a, not b, counts for their rank and attempt.
func (a *attempt) better(b *attempt) bool {
	return cmp.Or(
		cmp.Compare(a.packed.iterations.n, b.packed.iterations.n),
		cmp.Compare(a.stop-a.Start, b.stop-b.Start),
		cmp.Compare(a.digest, b.digest)) > 0
}

// Expect sets how many ranks the job has, so that reports list the missing ones.
// A smaller number than before has no effect.
func (l *Ledger) Expect(ranks int) { l.expected, l.table = max(l.expected, ranks), nil }

// triedAt adds a start of the job that ended before anything was recorded. It is downtime of
// all ranks, like the time between it and the other attempts.
func (l *Ledger) triedAt(start, stop int64) {
	if t := (Interval{start, stop}); !slices.Contains(l.tried, t) {
		l.tried = append(l.tried, t)
	}
}

func (l *Ledger) rankIDs() []int {
	ids := make([]int, 0, len(l.ranks))
	for id := range l.ranks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// startBefore returns the start of the job as known at asOf. ok is false if no
// attempt had started.
func (l *Ledger) startBefore(asOf int64) (start int64, ok bool) {
	start = job.NoEnd
	for _, r := range l.ranks {
		for _, a := range r.attempts {
			if a.Start < asOf && a.Start < start {
				start, ok = a.Start, true
			}
		}
	}
	return start, ok
}

// Iteration is a finished training iteration, or a window of several consecutive
// ones: see [Builder.Windows].
type Iteration struct {
	First, Last int64 // their numbers; if any iteration of the process has no number, their indexes from 0
	End         int64 // on the clock of its rank
}

// Iterations returns the finished iterations of one attempt by start, those of the
// lowest rank that has any.
func (l *Ledger) Iterations(number int) (out []Iteration) {
	for _, id := range l.having[number] {
		of := l.ranks[id].attempts
		at, _ := slices.BinarySearchFunc(of, number, func(a *attempt, n int) int { return cmp.Compare(a.Attempt, n) })
		a := of[at]
		all, _ := a.packed.open(nil)
		before := int64(0)
		for i := range all {
			it := &all[i]
			first := it.number
			if a.unnumbered > 0 {
				first = before
			}
			if before += int64(it.count()); it.end != job.NoEnd {
				out = append(out, Iteration{First: first, Last: first + int64(it.more), End: it.end})
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// EachFinished calls do with every finished iteration of all ranks and attempts, including
// lost ones: its rank, start, length in nanoseconds, and count. In a digest with windows count
// may be greater than 1: the call is then for a window, and length is the mean of its iterations.
func (l *Ledger) EachFinished(do func(rank int, start, length int64, count int)) {
	var its []iteration
	for _, id := range l.rankIDs() {
		for _, a := range l.ranks[id].attempts {
			its, _ = a.packed.open(its[:0])
			for i := range its {
				if it := &its[i]; it.end != job.NoEnd {
					do(id, it.start, it.length()/int64(it.count()), it.count())
				}
			}
		}
	}
}

// Interval is the time from From up to, not including, To.
type Interval struct {
	From int64 `json:"from_ns"`
	To   int64 `json:"to_ns"`
}

// coverage computes the intervals in which all ranks, and in which any rank, did
// something. The intervals of a rank are added in order; next ends a rank. Only the
// intersection and the union are kept: because ranks train in step, both stay about
// as long as the list of one rank.
type coverage struct {
	all, any []nest.Interval
	rank     []nest.Interval
	ranks    int
	spare    []nest.Interval
}

func (c *coverage) add(from, to int64) {
	if n := len(c.rank); n > 0 && c.rank[n-1].End == from {
		c.rank[n-1].End = to
		return
	}
	c.rank = append(c.rank, nest.Interval{Start: from, End: to})
}

func (c *coverage) next() {
	c.ranks++
	if c.ranks == 1 {
		c.all, c.any = append(c.all, c.rank...), append(c.any, c.rank...)
	} else {
		c.spare = nest.Intersection(c.spare[:0], c.all, c.rank)
		c.all, c.spare = c.spare, c.all
		c.spare = nest.Union(c.spare[:0], c.any, c.rank)
		c.any, c.spare = c.spare, c.any
	}
	c.rank = c.rank[:0]
}
