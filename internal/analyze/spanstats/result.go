package spanstats

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Result returns the totals of the events so far. More may be added.
func (a *Aggregator) Result() *Result {
	r := &Result{Events: a.events, Counters: a.counters, Metadata: a.metadata,
		Categories: []NameStat{}, Names: []NameStat{}, Processes: []ProcessStat{}, Epochs: []EpochStat{}}
	a.nameStats(r)
	a.number()
	for _, p := range a.order {
		if p.events == 0 {
			continue
		}
		if r.Start == 0 || p.start < r.Start {
			r.Start = p.start
		}
		r.End = max(r.End, p.end)
		acc := p.done
		if acc == nil {
			acc = p.account()
		}
		r.UnionError = max(r.UnionError, acc.closed)
		for _, l := range p.lanes {
			r.TooDeep += l.Deep
		}
		r.Processes = append(r.Processes, ProcessStat{HostHash: p.host, PID: p.who.PID, Rank: p.rank(), Run: p.run, Attempt: p.number, beside: p.beside, Label: p.label,
			Kernels: p.kernels != nil, Events: p.events, Lanes: len(p.lanes), Start: p.start, End: p.end, Use: acc.use})
		for i, e := range acc.epochs {
			r.Epochs = append(r.Epochs, EpochStat{HostHash: p.host, Epoch: e.number, PID: p.who.PID, Rank: p.rank(), Run: p.run, Attempt: p.number, beside: p.beside, Events: e.events, Steps: acc.steps[e.number],
				Start: e.start, End: e.end, Use: acc.uses[i]})
		}
	}
	slices.SortFunc(r.Processes, func(a, b ProcessStat) int {
		return cmp.Or(byRank(a.Rank, b.Rank), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.PID, b.PID), strings.Compare(a.HostHash, b.HostHash))
	})
	slices.SortFunc(r.Epochs, func(a, b EpochStat) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), byRank(a.Rank, b.Rank), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Start, b.Start))
	})
	return r
}

func (a *Aggregator) nameStats(r *Result) {
	type category struct {
		stat NameStat
		hist Histogram
	}
	cats := make(map[string]*category)
	for id, n := range a.list {
		r.Names = append(r.Names, n.stat(a.self[id]))
		c := cats[n.key.cat]
		if c == nil {
			c = &category{stat: NameStat{Category: n.key.cat}}
			cats[n.key.cat] = c
		}
		c.stat.Total += n.total
		c.stat.Self += max(a.self[id], 0)
		c.hist.Merge(&n.hist)
	}
	for _, c := range cats {
		c.stat.fill(&c.hist)
		r.Categories = append(r.Categories, c.stat)
	}
	bySelf := func(a, b NameStat) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total),
			strings.Compare(a.Category, b.Category), strings.Compare(a.Name, b.Name))
	}
	slices.SortFunc(r.Names, bySelf)
	slices.SortFunc(r.Categories, bySelf)
}

func (n *name) stat(self int64) NameStat {
	s := NameStat{Category: n.key.cat, Name: n.key.name, Total: n.total, Self: max(self, 0)}
	s.fill(&n.hist)
	return s
}

// byRank compares numbers by value and puts other texts last.
func byRank(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	switch {
	case errX == nil && errY == nil:
		return cmp.Compare(x, y)
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return strings.Compare(a, b)
}
