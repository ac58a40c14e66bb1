package torch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// windowNeighbours bounds with how many others, in order of time, a file is
// compared.
const windowNeighbours = 1000

// pairing is how well two files of different ranks fit together.
type pairing struct {
	a, b     int
	shared   int   // step numbers that both have
	distance int64 // ns between their windows' starts and ends
}

// windows groups the files of the same interval of one job: of different ranks,
// of one job as far as they show, with common step numbers if both have them,
// and at nearly the same time. A file that does not fit gets the reason.
func windows(procs []*process, opts *Options) [][]*process {
	var ranked []*process
	for _, p := range procs {
		if p.rank >= 0 {
			ranked = append(ranked, p)
		}
	}
	slices.SortStableFunc(ranked, func(a, b *process) int { return cmp.Compare(a.window[0]+a.base, b.window[0]+b.base) })
	reasons := make([]string, len(ranked))
	var pairs []pairing
	for i, a := range ranked {
		for j := i + 1; j < min(len(ranked), i+windowNeighbours); j++ {
			b := ranked[j]
			if a.rank == b.rank {
				continue
			}
			shared, why := a.fits(b, opts)
			if why != "" {
				reasons[i], reasons[j] = cmp.Or(reasons[i], why), cmp.Or(reasons[j], why)
				continue
			}
			pairs = append(pairs, pairing{i, j, shared, a.distance(&b.timeline)})
		}
	}
	slices.SortStableFunc(pairs, func(x, y pairing) int {
		return cmp.Or(cmp.Compare(y.shared, x.shared), cmp.Compare(x.distance, y.distance))
	})
	group := make([]int, len(ranked))
	members := make([][]int, len(ranked))
	for i := range ranked {
		group[i], members[i] = i, []int{i}
	}
	for _, x := range pairs {
		into, from := group[x.a], group[x.b]
		if into == from || clash(ranked, members[into], members[from], opts) {
			continue
		}
		for _, i := range members[from] {
			group[i] = into
		}
		members[into] = append(members[into], members[from]...)
		members[from] = nil
	}
	var out [][]*process
	for _, m := range members {
		if len(m) == 1 && reasons[m[0]] != "" {
			p := ranked[m[0]]
			p.report.cannot("its place among the other ranks: " + reasons[m[0]])
		}
		if len(m) < 2 {
			continue
		}
		g := make([]*process, 0, len(m))
		for _, i := range m {
			g = append(g, ranked[i])
		}
		slices.SortStableFunc(g, func(a, b *process) int { return cmp.Compare(a.rank, b.rank) })
		out = append(out, g)
	}
	return out
}

// clash reports whether two groups have the same rank, or files that cannot
// belong together.
func clash(ranked []*process, a, b []int, opts *Options) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	has := make(map[int64]bool, len(b))
	for _, j := range b {
		has[ranked[j].rank] = true
	}
	for _, i := range a {
		if has[ranked[i].rank] {
			return true
		}
	}
	// Files of one group fit to each other, so it is enough to compare a few.
	for _, i := range a[:min(len(a), 4)] {
		for _, j := range b[:min(len(b), 4)] {
			if _, why := ranked[i].fits(ranked[j], opts); why != "" {
				return true
			}
		}
	}
	return false
}

// fits returns why two files cannot show the same interval of one job, or "",
// and how many step numbers they share.
func (p *process) fits(q *process, opts *Options) (shared int, why string) {
	if p.world > 0 && q.world > 0 && p.world != q.world {
		return 0, fmt.Sprintf("different jobs: the world sizes are %d and %d", min(p.world, q.world), max(p.world, q.world))
	}
	if p.report.Backend != "" && q.report.Backend != "" && p.report.Backend != q.report.Backend {
		return 0, fmt.Sprintf("different jobs: the backends are %s and %s", p.report.Backend, q.report.Backend)
	}
	if p.job != "" && q.job != "" && p.job != q.job {
		return 0, "different jobs: the job ids differ"
	}
	if len(p.steps) > 0 && len(q.steps) > 0 {
		if shared = sharedSteps(p.stepNumbers(), q.stepNumbers()); shared == 0 {
			return 0, fmt.Sprintf("different profiler windows: the steps are %s and %s", stepRange(p.steps), stepRange(q.steps))
		}
	}
	if gap := p.gap(&q.timeline); gap > int64(opts.MaxSkew) {
		return 0, fmt.Sprintf("the profiler windows are %s apart, more than the %s by which clocks may differ", time.Duration(gap).Round(time.Millisecond), opts.MaxSkew)
	}
	return shared, ""
}

// sharedSteps returns how many numbers are in both lists.
func sharedSteps(a, b []int64) (n int) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			n++
			a, b = a[1:], b[1:]
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return n
}

func stepRange(s []step) string {
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for _, x := range s {
		lo, hi = min(lo, x.n), max(hi, x.n)
	}
	if lo == hi {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}
