package goodput

// coverage finds when all ranks, and when any of them, did something. The
// intervals of a rank come in order; next says that those of the next follow.
// What all and any share is kept, not what each rank did: ranks train in step,
// so that both stay as long as the list of one rank.
type coverage struct {
	all, any []Interval
	rank     []Interval
	ranks    int
	spare    []Interval
}

func (c *coverage) add(from, to int64) {
	if n := len(c.rank); n > 0 && c.rank[n-1].To == from {
		c.rank[n-1].To = to
		return
	}
	c.rank = append(c.rank, Interval{from, to})
}

func (c *coverage) next() {
	c.ranks++
	if c.ranks == 1 {
		c.all, c.any = append(c.all, c.rank...), append(c.any, c.rank...)
	} else {
		c.spare = intersection(c.spare[:0], c.all, c.rank)
		c.all, c.spare = c.spare, c.all
		c.spare = union(c.spare[:0], c.any, c.rank)
		c.any, c.spare = c.spare, c.any
	}
	c.rank = c.rank[:0]
}

func intersection(dst, a, b []Interval) []Interval {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if from, to := max(a[i].From, b[j].From), min(a[i].To, b[j].To); from < to {
			dst = append(dst, Interval{from, to})
		}
		if a[i].To < b[j].To {
			i++
		} else {
			j++
		}
	}
	return dst
}

func union(dst, a, b []Interval) []Interval {
	for i, j := 0, 0; i < len(a) || j < len(b); {
		var next Interval
		if j == len(b) || i < len(a) && a[i].From <= b[j].From {
			next = a[i]
			i++
		} else {
			next = b[j]
			j++
		}
		if n := len(dst); n > 0 && next.From <= dst[n-1].To {
			dst[n-1].To = max(dst[n-1].To, next.To)
			continue
		}
		dst = append(dst, next)
	}
	return dst
}

func length(list []Interval) (sum int64) {
	for _, x := range list {
		sum += x.To - x.From
	}
	return sum
}
