package job

import (
	"cmp"
	"container/heap"
	"slices"
	"sort"
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

// put adds a process with its attempt. A later attempt may be put again.
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

// latestAt returns the latest attempt that runs at a time, or 0.
func (r *running) latestAt(t int64) (latest int) {
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

// During returns a function that returns those of some processes that lived in
// an interval, including its ends, in their order.
func During(procs []*Process) func(from, to int64) []*Process {
	n := len(procs)
	byStart := make([]int, n)
	for i := range byStart {
		byStart[i] = i
	}
	slices.SortStableFunc(byStart, func(a, b int) int { return cmp.Compare(procs[a].Start, procs[b].Start) })
	seen := make([]int64, 2*n) // a tree of the latest heartbeats; i is above 2i and 2i+1
	for i, of := range byStart {
		seen[n+i] = procs[of].LastSeen
	}
	for i := n - 1; i > 0; i-- {
		seen[i] = max(seen[2*i], seen[2*i+1])
	}
	return func(from, to int64) (out []*Process) {
		var found []int
		var look func(i int)
		look = func(i int) {
			switch {
			case seen[i] < from:
			case i >= n:
				found = append(found, byStart[i-n])
			default:
				look(2 * i)
				look(2*i + 1)
			}
		}
		end := sort.Search(n, func(i int) bool { return procs[byStart[i]].Start > to })
		for lo, hi := n, n+end; lo < hi; lo, hi = lo/2, hi/2 {
			if lo&1 == 1 {
				look(lo)
				lo++
			}
			if hi&1 == 1 {
				hi--
				look(hi)
			}
		}
		slices.Sort(found)
		for _, i := range found {
			out = append(out, procs[i])
		}
		return out
	}
}

// freeRanks finds the lowest rank that no process has at a time. Times must not
// decrease.
type freeRanks struct {
	last map[int]*Process // of each rank, by the last heartbeat
	busy rankHeap         // by last heartbeat
	free rankHeap         // by rank
	next int              // all lower ranks have been used
}

// take marks the rank of p as used.
func (f *freeRanks) take(p *Process) {
	if before := f.last[p.Rank]; before == nil || p.LastSeen > before.LastSeen {
		f.last[p.Rank] = p
		heap.Push(&f.busy, rankAt{p.LastSeen, p.Rank})
	}
}

// lowest returns the lowest rank that is free when p starts.
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
