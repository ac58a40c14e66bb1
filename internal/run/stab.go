package run

import (
	"cmp"
	"container/heap"
	"slices"
)

func newRunning(procs []*Process) *running {
	r := &running{}
	for _, p := range procs {
		r.edges = append(r.edges, p.Start, p.LastSeen)
	}
	slices.Sort(r.edges)
	r.edges = slices.Compact(r.edges)
	r.latest = make([]int, 2*len(r.edges))
	return r
}

// put says which attempt p is. It may be said again, of a later one.
func (r *running) put(p *Process) {
	from, _ := slices.BinarySearch(r.edges, p.Start)
	to, _ := slices.BinarySearch(r.edges, p.LastSeen)
	n := len(r.edges)
	for from, to = from+n, to+n; from < to; from, to = from/2, to/2 {
		if from&1 == 1 {
			r.latest[from] = max(r.latest[from], p.Attempt)
			from++
		}
		if to&1 == 1 {
			to--
			r.latest[to] = max(r.latest[to], p.Attempt)
		}
	}
}

// at is the latest attempt of those that run at a moment, 0 without one.
func (r *running) at(t int64) (latest int) {
	i, found := slices.BinarySearch(r.edges, t)
	if !found {
		i--
	}
	if i < 0 {
		return 0
	}
	for i += len(r.edges); i > 0; i /= 2 {
		latest = max(latest, r.latest[i])
	}
	return latest
}

// freeRanks finds the lowest rank that no process has at a moment. It is asked
// with moments in their order.
type freeRanks struct {
	last map[int]*Process // of each rank, by the last sign of life
	busy rankHeap         // by that
	free rankHeap         // by rank
	next int              // no rank below it was never had
}

// take says that p has its rank.
func (f *freeRanks) take(p *Process) {
	if before := f.last[p.Rank]; before == nil || p.LastSeen > before.LastSeen {
		f.last[p.Rank] = p
		heap.Push(&f.busy, rankAt{p.LastSeen, p.Rank})
	}
}

// lowest is the lowest rank that is free when p starts.
func (f *freeRanks) lowest(p *Process) int {
	for len(f.busy) > 0 && f.busy[0].by <= p.Start {
		rank := heap.Pop(&f.busy).(rankAt).rank
		heap.Push(&f.free, rankAt{int64(rank), rank})
	}
	for f.last[f.next] != nil {
		f.next++
	}
	for len(f.free) > 0 {
		if rank := f.free[0].rank; f.last[rank].LastSeen <= p.Start {
			return min(rank, f.next)
		}
		heap.Pop(&f.free)
	}
	return f.next
}

type rankAt struct {
	by   int64
	rank int
}

// rankHeap implements [heap.Interface].
type rankHeap []rankAt

func (h rankHeap) Len() int           { return len(h) }
func (h rankHeap) Less(i, j int) bool { return cmp.Less(h[i].by, h[j].by) }
func (h rankHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rankHeap) Push(x any)        { *h = append(*h, x.(rankAt)) }
func (h *rankHeap) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	*h = (*h)[:n]
	return x
}
