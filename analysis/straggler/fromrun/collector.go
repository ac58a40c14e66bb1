package fromrun

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/analysis/straggler"
)

// Collector takes the steps of all processes of a set.
type Collector struct {
	mu sync.Mutex
	of map[*run.Process]*sink
}

// New makes an empty Collector.
func New() *Collector { return &Collector{of: make(map[*run.Process]*sink)} }

// Open makes the sink of a process, for [run.Set.Read]. It may be called
// concurrently.
func (c *Collector) Open(p *run.Process) run.Sink {
	s := newSink(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[p] = s
	return s
}

// Attempt is the steps of one attempt of a job.
type Attempt struct {
	Number int
	State  *straggler.State
	// Iterations are those of the lowest rank that has any, by start.
	Iterations []Iteration
	// Late counts spans of steps that had been handed on when they came: only
	// in a file of very many spans that is far from the order of time.
	Late int64
}

// firstHeartbeat is when the first heartbeat of a process must be there, in
// nanoseconds: it is written after ten seconds, and then on disk within a few.
// That a shorter attempt has none says nothing about who writes its files.
const firstHeartbeat = int64(15 * time.Second)

// Iteration is one training iteration of one rank.
type Iteration struct {
	Step       int64 // its number, or how many came before it where none is recorded
	Start, End int64
}

// Attempts gives the steps of a job by attempt, once the set has been read. The
// steps of a job can be asked for once.
func (c *Collector) Attempts(j *run.Job) []Attempt {
	byNumber := make(map[int]*Attempt)
	first := make(map[int]int) // rank of Iterations
	for _, p := range j.Processes {
		s := c.of[p]
		if s == nil {
			continue
		}
		a := byNumber[p.Attempt]
		if a == nil {
			a = &Attempt{Number: p.Attempt, State: straggler.New(&straggler.Options{WorldSize: j.Ranks})}
			byNumber[p.Attempt] = a
		}
		info := straggler.Rank{Host: p.Host}
		if p.Heartbeats || p.LastSeen-p.Start < firstHeartbeat {
			info.LastSeen = p.LastSeen
		}
		a.State.AddRank(p.Rank, info, s.state)
		a.Late += s.late
		if r, any := first[p.Attempt]; len(s.iterations) > 0 && (!any || p.Rank < r) {
			first[p.Attempt], a.Iterations = p.Rank, s.iterations
		}
		delete(c.of, p)
	}
	var out []Attempt
	for _, a := range slices.SortedFunc(maps.Values(byNumber), func(a, b *Attempt) int { return cmp.Compare(a.Number, b.Number) }) {
		out = append(out, *a)
	}
	return out
}
