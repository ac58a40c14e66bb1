// Package machine finds the causes of a slow rank in the machine, from the
// samples of trainspan run.
//
// It names a cause only if its evidence changes with the slowness: it is high
// on the late rank and not on the others, in most of the time in which the rank
// is late and less at other times, and large enough for at least 40 % of the
// delay. With the evidence of other ranks or times it names none.
package machine

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Rank has the data of a rank whose steps were compared.
type Rank struct {
	Rank int
	Host string
	// Starts are the starts of its steps, and the end of the last one, on its own
	// clock. Excess is the additional time of its own work over that of other
	// ranks, for each step. Both are nanoseconds; NaN is unknown.
	Starts []int64
	Excess []float64
	// Own are the samples of its process, System those of its host, GPU those of
	// its GPU. Each may be empty.
	Own, System, GPU []job.Sample
}

// Finding is the result of the samples.
type Finding struct {
	// Causes are the causes of late ranks, at most one of each rank.
	Causes []Cause `json:"causes,omitempty"`
	// NoCause are the late ranks that were compared with others, and whose samples
	// have nothing that changes with the delay.
	NoCause []int `json:"no_cause,omitempty"`
	// Overloaded are the hosts on which all ranks wait for CPUs.
	Overloaded []Overload `json:"overloaded,omitempty"`
	// Windows is the number of time windows in which ranks were compared.
	Windows int `json:"windows"`
}

// The causes.
const (
	CauseProcessor = "processor"    // other programs use the rank's CPUs
	CauseLimit     = "cpu_limit"    // the CPU limit of its control group
	CauseSteal     = "steal"        // the hypervisor takes CPU time of a virtual machine
	CauseIO        = "io"           // waiting for reads and writes
	CauseMemory    = "memory"       // waiting for memory
	CauseFaults    = "page_faults"  // pages are read from disk
	CauseClock     = "device_clock" // the GPU has a lower clock
)

// Cause is the cause of a late rank.
type Cause struct {
	Rank  int    `json:"rank"`
	Host  string `json:"host,omitempty"`
	Cause string `json:"cause"`
	// Value is the evidence while the rank is late, and Others the median of the
	// other ranks at that time: shares of the time, or page faults per second.
	Value  float64 `json:"value"`
	Others float64 `json:"others"`
	// Late is the share of the time by which the rank is late.
	Late float64 `json:"late"`
	// Cores is the number of CPUs that the rank may use, by its affinity or by the
	// limit. 0 is unknown.
	Cores float64 `json:"cores,omitempty"`
	// Periods is the share of the limit's periods in which the rank was throttled.
	Periods float64 `json:"periods,omitempty"`
	// Slowed is set if the GPU lowers its clock because of heat or power.
	Slowed bool `json:"slowed,omitempty"`
}

// Overload is a host with more runnable threads than CPUs.
type Overload struct {
	Host     string  `json:"host,omitempty"`
	Runnable float64 `json:"runnable"` // mean number of threads
	Cores    float64 `json:"cores"`    // of the host, or those that a rank may use
	// Least and Most are the smallest and the largest share of the time in which a
	// rank waited for a CPU.
	Least float64 `json:"least_share"`
	Most  float64 `json:"most_share"`
	// Limit is set if they wait because of the limit of the control group.
	Limit bool `json:"limit,omitempty"`
}

// Thresholds of the evidence.
const (
	leastWindows = 20   // in which a rank is late
	leastShare   = 0.05 // of the time
	leastPart    = 0.4  // of the delay that a share of time must explain
	leastFaults  = 20.0 // per second
	leastTimes   = 3    // as a multiple of the others, for page faults
	leastHeld    = 0.3  // of the periods, if the limit makes a rank wait
	leastWait    = 0.1  // of each rank of an overloaded host
	chance       = 0.001
)

// kind is one kind of evidence.
type kind struct {
	cause  string
	of     func(r *Rank) []job.Sample
	value  func(s *job.Sample) float64
	isTime bool // the value is a share of the time
}

func plain(m job.Measure) func(*job.Sample) float64 {
	return func(s *job.Sample) float64 { return float64(s.Values[m]) }
}

func own(r *Rank) []job.Sample    { return r.Own }
func system(r *Rank) []job.Sample { return r.System }
func gpu(r *Rank) []job.Sample    { return r.GPU }

// lostClock returns the share of the time that is lost by a lower clock.
func lostClock(s *job.Sample) float64 {
	return 1 - float64(s.Values[job.Clock])/float64(s.Values[job.ClockMax])
}

// kinds are in the order of precedence for causes that explain equally much.
var kinds = []kind{
	{CauseProcessor, own, plain(job.RunDelay), true},
	{CauseSteal, system, plain(job.Steal), true},
	{CauseClock, gpu, lostClock, true},
	{CauseIO, own, plain(job.IODelay), true},
	{CauseMemory, system, plain(job.MemoryPressure), true},
	{CauseIO, system, plain(job.IOPressure), true},
	{CauseFaults, own, plain(job.MajorFaults), false},
}

// Judge returns the causes of late ranks. It returns nil if no rank has
// samples.
func Judge(ranks []Rank, late []int) *Finding {
	if !slices.ContainsFunc(ranks, func(r Rank) bool { return len(r.Own) > 0 }) {
		return nil
	}
	g := newGrid(ranks)
	f := &Finding{Windows: g.windows()}
	for i := range ranks {
		if !slices.Contains(late, ranks[i].Rank) || len(ranks[i].Own) == 0 {
			continue
		}
		if c, compared := g.causeOf(i, late); c != nil {
			f.Causes = append(f.Causes, *c)
		} else if compared {
			f.NoCause = append(f.NoCause, ranks[i].Rank)
		}
	}
	f.Overloaded = g.overloaded()
	return f
}

// causeOf returns the cause that explains most of the delay of a rank, and
// whether the rank was compared with others.
func (g *grid) causeOf(i int, late []int) (best *Cause, compared bool) {
	var others []int
	for k := range g.ranks {
		if !slices.Contains(late, g.ranks[k].Rank) {
			others = append(others, k)
		}
	}
	for _, kd := range kinds {
		c, enough := g.explains(i, others, kd)
		compared = compared || enough
		if c == nil || best != nil && !(kd.isTime && c.Value-c.Others > 1.1*(best.Value-best.Others)) {
			continue
		}
		best = c
	}
	if best == nil {
		return nil, compared
	}
	r := &g.ranks[i]
	best.Rank, best.Host = r.Rank, r.Host
	switch best.Cause {
	case CauseProcessor:
		best.Cores = g.mean(i, own, plain(job.AllowedCores))
		if held := g.mean(i, own, plain(job.Throttled)); held >= leastHeld {
			best.Cause, best.Periods, best.Cores = CauseLimit, held, g.mean(i, own, plain(job.CoreLimit))
		}
	case CauseClock:
		best.Slowed = g.mean(i, gpu, plain(job.Slowed)) > 0.5
	}
	return best, true
}

// explains compares a rank with the others in each window: it returns a cause
// if a kind of evidence is high when the rank is late and not otherwise, and
// nil if not. It reports whether there are enough windows.
func (g *grid) explains(i int, others []int, kd kind) (c *Cause, enough bool) {
	x := g.values(i, kd.of, kd.value)
	rest := make([][]float64, 0, len(others))
	for _, k := range others {
		if v := g.values(k, kd.of, kd.value); v != nil {
			rest = append(rest, v)
		}
	}
	if x == nil || len(rest) == 0 {
		return nil, false
	}
	var dx, dy, ox, lx []float64 // differences of the evidence, delays, evidence of the others and of the rank
	buf := make([]float64, 0, len(rest))
	for w := range x {
		buf = buf[:0]
		for _, v := range rest {
			if !math.IsNaN(v[w]) {
				buf = append(buf, v[w])
			}
		}
		if y := g.late[i][w]; len(buf) > 0 && !math.IsNaN(x[w]) && !math.IsNaN(y) {
			o := stats.Median(buf)
			dx, dy, ox, lx = append(dx, x[w]-o), append(dy, y), append(ox, o), append(lx, x[w])
		}
	}
	if len(dx) < leastWindows {
		return nil, false
	}
	return judge(dx, dy, ox, lx, kd), true
}

func judge(dx, dy, ox, lx []float64, kd kind) *Cause {
	usual := stats.Mean(dy)
	if usual <= 0 {
		return nil
	}
	var more, delay, value, others, calm []float64
	for w := range dx {
		switch {
		case dy[w] >= usual/2:
			more, delay, value, others = append(more, dx[w]), append(delay, dy[w]), append(value, lx[w]), append(others, ox[w])
		case dy[w] < usual/4:
			calm = append(calm, dx[w])
		}
	}
	if len(more) < leastWindows {
		return nil
	}
	c := &Cause{Cause: kd.cause, Value: stats.Mean(value), Others: stats.Mean(others), Late: stats.Mean(delay)}
	mean := stats.Mean(more)
	if kd.isTime {
		if mean < max(leastShare, leastPart*c.Late) {
			return nil
		}
	} else if mean < leastFaults || c.Value < leastTimes*c.Others {
		return nil
	}
	// In nearly all of the time in which the rank is late, and more often than by
	// chance.
	above, positive := 0, 0
	for _, d := range more {
		if d > mean/4 {
			above++
		}
		if d > 0 {
			positive++
		}
	}
	if 5*above < 4*len(more) || byChance(positive/2, len(more)/2) > chance { // neighbors are similar, and count as one
		return nil
	}
	// Not when the rank is on time.
	if len(calm) >= 3 && stats.Mean(calm) > mean/2 {
		return nil
	}
	return c
}

// byChance returns the probability that k of n or more differences are above 0
// if both signs are equally probable.
func byChance(k, n int) float64 {
	p, sum := math.Pow(0.5, float64(n)), 0.0
	if p == 0 { // of more than a thousand
		z := (float64(2*k) - float64(n)) / math.Sqrt(float64(n))
		return math.Erfc(z/math.Sqrt2) / 2
	}
	for i := n; i >= 0; i-- {
		if i < k {
			break
		}
		sum += p
		p *= float64(i) / float64(n-i+1)
	}
	return sum
}

// overloaded returns the hosts on which all ranks wait for CPUs.
func (g *grid) overloaded() (out []Overload) {
	of := make(map[string][]int)
	var hosts []string
	for i := range g.ranks {
		host := g.ranks[i].Host
		if of[host] == nil {
			hosts = append(hosts, host)
		}
		of[host] = append(of[host], i)
	}
	slices.Sort(hosts)
	for _, host := range hosts {
		o := Overload{Host: host, Least: 1}
		held, allowed := 1.0, 0.0
		for _, i := range of[host] {
			d := g.mean(i, own, plain(job.RunDelay))
			o.Least, o.Most = min(o.Least, d), max(o.Most, d)
			held, allowed = min(held, g.mean(i, own, plain(job.Throttled))), max(allowed, g.mean(i, own, plain(job.AllowedCores)))
		}
		i := of[host][0]
		o.Runnable, o.Cores = max(g.mean(i, system, plain(job.Runnable))-1, 0), g.mean(i, system, plain(job.OnlineCores)) // one is the sampler itself
		switch {
		case o.Least < leastWait || o.Cores == 0:
			continue
		case held >= leastHeld:
			o.Limit, o.Cores = true, g.mean(i, own, plain(job.CoreLimit))
		case o.Runnable > o.Cores:
		case allowed > 0 && allowed < o.Cores: // ranks may use only some of the CPUs, perhaps the same
			o.Cores = allowed
		default:
			continue
		}
		out = append(out, o)
	}
	return out
}
