package account

import (
	"cmp"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

// Ledger holds the timelines of all processes of a job and answers questions
// about any stretch of time. The zero value is an empty ledger. Its methods
// may be called concurrently only while nothing is added.
type Ledger struct {
	ranks    map[int]*rank
	having   map[int][]int // the ranks that have an attempt, by its number, in order
	tried    []Interval
	expected int // ranks that the job should have, 0 when that is not known

	meeting sync.Mutex
	table   *table // of all meetings, nil until it is asked for
}

// rank is the attempts of one rank, by number.
type rank struct {
	id       int
	attempts []*attempt
	rivals   []*attempt // other processes with the number of one of them
}

// Add takes the timeline of a process. The same timeline twice counts once;
// two different ones for the same rank and attempt are two writers: one of
// them counts, always the same, and the report says so. The builder must not
// be used afterwards. An error means that the temporary file of a very large
// process could not be used; the ledger is then as before.
func (l *Ledger) Add(b *Builder) error {
	if err := b.finish(); err != nil {
		return err
	}
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

// better reports whether a, not b, is to stand for their rank and attempt.
func (a *attempt) better(b *attempt) bool {
	return cmp.Or(
		cmp.Compare(a.packed.iterations.n, b.packed.iterations.n),
		cmp.Compare(a.stop-a.Start, b.stop-b.Start),
		cmp.Compare(a.digest, b.digest)) > 0
}

// Expect says how many ranks the job has, so that missing ones are listed.
func (l *Ledger) Expect(ranks int) { l.expected, l.table = max(l.expected, ranks), nil }

// triedAt says that the job was started, and that the start ended before anything of it was
// recorded. It is downtime of all ranks, as what is between it and other attempts.
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

// startBefore is the start of the job as known at a moment.
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

// Iteration is a training iteration that ended, or several that follow each other
// without one that stands out: see [Builder.Windows].
type Iteration struct {
	First, Last int64 // the numbers or, where any of the process has none, how many came before
	End         int64 // on the clock of its rank
}

// Iterations returns those of one attempt by start, of the lowest rank that has any.
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

// EachFinished calls do with every iteration that ended, of all ranks and attempts, lost
// ones included: its rank, when it began, how long it took, in nanoseconds, and how many
// iterations that stands for. They are several in a digest with windows, and length is
// their mean then.
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

// coverage finds when all ranks, and when any of them, did something. The
// intervals of a rank come in order; next says that those of the next follow.
// What all and any share is kept, not what each rank did: ranks train in step,
// so that both stay as long as the list of one rank.
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
