package machine

import (
	"math"
	"time"

	"github.com/trainspan/trainspan/internal/job"
)

// grid divides the steps into windows, with the same steps on all ranks,
// because clocks of hosts differ.
type grid struct {
	ranks []Rank
	first []int       // the first step of each window, and one after the last
	late  [][]float64 // by rank and window: the excess as a share of the time
}

// Length of windows: at least two samples; and the maximum number of windows.
const (
	windowTime  = 2 * time.Second
	shortWindow = time.Second // of a run of less than a minute
	mostWindows = 100
)

func newGrid(ranks []Rank) *grid {
	g := &grid{ranks: ranks}
	var clock []int64
	for i := range ranks {
		if clock = ranks[i].Starts; len(clock) > 1 {
			break
		}
	}
	if len(clock) < 2 {
		return g
	}
	took := clock[len(clock)-1] - clock[0]
	length := max(int64(windowTime), took/mostWindows)
	if took < int64(time.Minute) {
		length = int64(shortWindow)
	}
	g.first = []int{0}
	from := clock[0]
	for s := 1; s < len(clock); s++ {
		if clock[s]-from >= length {
			g.first = append(g.first, s)
			from = clock[s]
		}
	}
	g.late = make([][]float64, len(ranks))
	for i := range ranks {
		g.late[i] = make([]float64, g.windows())
		for w := range g.late[i] {
			g.late[i][w] = ranks[i].lateIn(g.first[w], g.first[w+1])
		}
	}
	return g
}

func (g *grid) windows() int { return max(len(g.first)-1, 0) }

// lateIn returns the excess of the rank in some steps as a share of their time,
// NaN if unknown.
func (r *Rank) lateIn(from, to int) float64 {
	if to >= len(r.Starts) || to > len(r.Excess) {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range r.Excess[from:to] {
		sum += v
	}
	took := float64(r.Starts[to] - r.Starts[from])
	if took <= 0 {
		return math.NaN()
	}
	return sum / took
}

// values returns the mean of the samples of a rank in each window, NaN if they
// cover less than half of it; nil if no window has a value.
func (g *grid) values(i int, of func(*Rank) []job.Sample, value func(*job.Sample) float64) []float64 {
	r := &g.ranks[i]
	rows := of(r)
	if len(rows) < 2 || g.windows() == 0 {
		return nil
	}
	out := make([]float64, g.windows())
	any, k := false, 1
	for w := range out {
		out[w] = math.NaN()
		if g.first[w+1] >= len(r.Starts) {
			continue
		}
		from, to := r.Starts[g.first[w]], r.Starts[g.first[w+1]]
		for k < len(rows) && rows[k].At <= from {
			k++
		}
		sum, covered := 0.0, 0.0
		for n := k; n < len(rows) && rows[n-1].At < to; n++ {
			v := value(&rows[n])
			if d := float64(min(rows[n].At, to) - max(rows[n-1].At, from)); d > 0 && !math.IsNaN(v) && !math.IsInf(v, 0) {
				sum, covered = sum+v*d, covered+d
			}
		}
		if covered > 0 && 2*covered >= float64(to-from) {
			out[w], any = sum/covered, true
		}
	}
	if !any {
		return nil
	}
	return out
}

// mean returns the mean of samples of a rank over all windows, 0 if unknown.
func (g *grid) mean(i int, of func(*Rank) []job.Sample, value func(*job.Sample) float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range g.values(i, of, value) {
		if !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / max(n, 1)
}
