package goodput

import "github.com/trainspan/trainspan/internal/nest"

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
