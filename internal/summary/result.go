package summary

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Result is what an Aggregator found. All times are microseconds; Start and End
// since the Unix epoch.
type Result struct {
	Events     int64         `json:"events"`
	Counters   int64         `json:"counters"`
	Metadata   int64         `json:"metadata"`
	Start      int64         `json:"start_us"`
	End        int64         `json:"end_us"`
	Categories []NameStat    `json:"categories"`
	Names      []NameStat    `json:"names"`
	Processes  []ProcessStat `json:"processes"`
	Epochs     []EpochStat   `json:"epochs"`
	// UnionError bounds the time by which any of the unions is too long because
	// memory was bounded; 0 means that they are exact.
	UnionError int64 `json:"union_error_us"`
	// TooDeep is how many spans lay in more than 4096 others and were forgotten
	// for that: what lies in them may count for the self time of two names.
	TooDeep int64 `json:"too_deep,omitempty"`
}

// NameStat is the time of one category, or of one name in it.
type NameStat struct {
	Category string  `json:"category"`
	Name     string  `json:"name,omitempty"`
	Count    int64   `json:"count"`
	Total    int64   `json:"total_us"`
	Self     int64   `json:"self_us"` // without spans that ran inside on the same lane
	Mean     float64 `json:"mean_us"`
	P50      int64   `json:"p50_us"`
	P99      int64   `json:"p99_us"`
	Max      int64   `json:"max_us"`
}

// Use is how a stretch of one process's time was used. Each number is a union:
// a moment counts once, however many spans it is in. The stalls are what the job
// waits for: they count while nothing was computed.
type Use struct {
	Wall      int64 `json:"wall_us"`
	Compute   int64 `json:"compute_us"`
	IO        int64 `json:"io_us"`
	IOStall   int64 `json:"io_stall_us"` // I/O while nothing was computed
	Comm      int64 `json:"comm_us"`
	CommStall int64 `json:"comm_stall_us"` // communication while nothing was computed
	Copies    int64 `json:"copies_us"`     // data between host and device
	Idle      int64 `json:"idle_us"`       // none of the four
}

// ProcessStat is one process. Rank is "" when the trace does not tell.
type ProcessStat struct {
	HostHash string `json:"host_hash,omitempty"`
	Host     string `json:"host,omitempty"` // for the caller to fill in
	PID      int64  `json:"pid"`
	Rank     string `json:"rank,omitempty"`
	Run      string `json:"run,omitempty"` // where the files have several
	Attempt  int64  `json:"attempt"`       // of its rank, from 1
	Label    string `json:"label,omitempty"`
	Kernels  bool   `json:"compute_is_kernels,omitempty"` // computing is that of a device
	Events   int64  `json:"events"`
	Lanes    int    `json:"lanes"`
	Start    int64  `json:"start_us"`
	End      int64  `json:"end_us"`
	Use

	beside int64
}

// EpochStat is one epoch of one process.
type EpochStat struct {
	HostHash string `json:"host_hash,omitempty"`
	Epoch    int64  `json:"epoch"`
	PID      int64  `json:"pid"`
	Rank     string `json:"rank,omitempty"`
	Run      string `json:"run,omitempty"`
	Attempt  int64  `json:"attempt"`
	Events   int64  `json:"events"`
	Steps    int64  `json:"steps"`
	Start    int64  `json:"start_us"`
	End      int64  `json:"end_us"`
	Use

	beside int64
}

// Result returns the totals of what was added so far. More may be added.
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

// account is how a process used its time.
type account struct {
	use    Use
	epochs []*epoch // those that were
	uses   []Use    // of these
	steps  map[int64]int64
	closed int64
}

func (p *process) account() *account {
	acc := &account{}
	var sets unions
	for i, s := range p.busy[Compute:] {
		if i == 0 && p.kernels != nil {
			s = p.kernels
		}
		if s != nil {
			sets[i] = s.Sorted()
			acc.closed = max(acc.closed, s.Closed())
		}
	}
	acc.use = use(sets, p.start, p.end)
	framed := p.framed()
	for _, e := range p.epochs {
		if framed && !e.framed {
			continue // only mentioned, by work ahead of an epoch for one
		}
		acc.epochs, acc.uses = append(acc.epochs, e), append(acc.uses, use(sets, e.start, e.end))
	}
	acc.steps = p.countSteps()
	return acc
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

func (s *NameStat) fill(h *Histogram) {
	s.Count = int64(h.n)
	s.Mean = float64(s.Total) / float64(max(h.n, 1))
	s.P50, s.P99, s.Max = h.Quantile(0.50), h.Quantile(0.99), h.max
}

// use adds up one stretch of time.
func use(sets unions, from, to int64) Use {
	t := overlap(sets, from, to)
	bit := func(c Class) int { return 1 << (c - 1) }
	sum := func(with, without int) (n int64) {
		for mask, d := range t {
			if mask&with == with && mask&without == 0 {
				n += d
			}
		}
		return n
	}
	return Use{Wall: to - from, Compute: sum(bit(Compute), 0), IO: sum(bit(IO), 0), IOStall: sum(bit(IO), bit(Compute)),
		Comm: sum(bit(Comm), 0), CommStall: sum(bit(Comm), bit(Compute)), Copies: sum(bit(Copy), 0), Idle: t[0]}
}

// byRank orders numbers by value and puts what is no number last.
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
