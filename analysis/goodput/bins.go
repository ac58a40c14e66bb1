package goodput

import "slices"

// Bin is the ledger of a stretch of time.
type Bin struct {
	Interval
	Categories Totals         // as in Report
	Attempts   map[int]Totals // by number, as in AttemptReport
}

// Bins returns what Report says of each stretch between neighbouring edges, with
// all that is known, in one pass. Edges rise.
func (l *Ledger) Bins(edges []int64) []Bin {
	if len(edges) < 2 {
		return nil
	}
	v := l.see(Final)
	out := make([]Bin, len(edges)-1)
	for i := range out {
		out[i] = Bin{Interval: Interval{edges[i], edges[i+1]}, Categories: Totals{}, Attempts: make(map[int]Totals)}
	}
	if len(v.ranks) == 0 {
		return out
	}
	from, to := max(edges[0], v.start), edges[len(edges)-1]
	for r := range v.visit() {
		for k := range r.attempts {
			n := r.attempts[k].Attempt
			for i := range out {
				if out[i].Attempts[n] == nil {
					out[i].Attempts[n] = Totals{}
				}
			}
		}
		i, before := 0, from
		v.each(r, from, to, func(x, y int64, c Category, attempt, _ int) {
			if x < before {
				i, _ = slices.BinarySearch(edges, x)
				i = max(i-1, 0)
			}
			before = x
			for ; x < y; x = min(y, out[i].To) {
				for out[i].To <= x {
					i++
				}
				ns := min(y, out[i].To) - x
				out[i].Categories.add(c, ns)
				if attempt >= 0 {
					out[i].Attempts[r.attempts[attempt].Attempt].add(c, ns)
				}
			}
		})
	}
	return out
}
