package replay

import (
	"math"
	"slices"
)

// A loader that works ahead puts batches into a queue. Whoever finds it empty waits until
// the next batch is ready; whoever does not takes no time, but would wait as well if the
// rest of the step were faster than the loader. So the fetch of a rank is no work that
// takes a time, but a moment before which it does not end.
const (
	queueUsual  = 200  // us: as long as a fetch from a queue takes that is not empty
	queueWaited = 0.05 // of a step: from here on it was, and nothing else held it up
	queuePart   = 0.1  // of the fetches of a rank that take no longer: then there is a queue
)

// findQueues finds the ranks whose batches come from a queue, and how long before the end
// of each fetch its batch was ready.
func (w *ownWork) findQueues() {
	x := w.row[rowOf(false, Input)]
	if x == nil {
		return
	}
	n, m := len(w.ranks), len(w.steps)
	least := queueWaited * w.typical()
	any := false // one rank has a queue: all run the same program
	for r := range n {
		fast, waited := 0, false
		for s := w.from; s < m; s++ {
			d := x[w.at(s, r)]
			if d < queueUsual {
				fast++
			}
			waited = waited || float64(d) > least
		}
		any = any || waited && float64(fast) >= queuePart*float64(m-w.from)
	}
	if !any {
		return
	}
	ends := make([]int64, n*m)
	rd := w.read()
	for s := range m {
		rd.round()
		for r, p := range rd.programs {
			for i := range p.host {
				if p.host[i].kind == work && p.host[i].phase == Input {
					ends[w.at(s, r)] = p.endOf(i)
				}
			}
		}
	}
	w.slack = make([][]float64, n)
	for r := range n {
		w.slack[r] = w.slackOf(r, x, ends)
	}
}

// slackOf interpolates when the batches of a rank were ready between those that it
// waited for.
func (w *ownWork) slackOf(r int, x []float32, ends []int64) []float64 {
	m := len(w.steps)
	var waited []int
	for s := range m {
		if float64(x[w.at(s, r)]) > queueWaited*w.typical() {
			waited = append(waited, s)
		}
	}
	out := slices.Repeat([]float64{math.Inf(1)}, m)
	end := func(s int) float64 { return float64(ends[w.at(s, r)]) }
	for _, s := range waited {
		out[s] = 0
	}
	if len(waited) < 2 {
		return out
	}
	// Between two of them batches come at the pace of these, else at that of all.
	first, last := waited[0], waited[len(waited)-1]
	next := 0
	for s := range m {
		for next < len(waited) && waited[next] < s {
			next++
		}
		a, b := first, last
		if next > 0 && next < len(waited) {
			a, b = waited[next-1], waited[next]
		}
		from := a
		if next == len(waited) {
			from = b
		}
		if out[s] != 0 {
			out[s] = max(end(s)-end(from)-(end(b)-end(a))*float64(s-from)/float64(b-a), 0)
		}
	}
	return out
}

// fetch lets a host take a batch from its queue. A repair of its loader has the batch
// there.
func (rp *replayer) fetch(a *actor, pc *piece) {
	after := a.clock[0] + float64(pc.dur)
	ready := after - rp.w.slack[a.rank][rp.s]
	for k := range a.clock {
		switch {
		case k == 0:
			a.clock[k] = after
		case !rp.plain[a.rank] && rp.factor[(a.rank*rows+rowOf(false, Input))*rp.k+k] != 1:
		default:
			a.clock[k] = max(a.clock[k], ready)
		}
	}
}
