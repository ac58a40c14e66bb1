package fromrun

import (
	"sync"

	"github.com/trainspan/trainspan/internal/run"
)

// Collector takes the steps of all processes of a set.
type Collector struct {
	mu sync.Mutex
	of map[*run.Process]*Steps
}

// New makes an empty Collector.
func New() *Collector { return &Collector{of: make(map[*run.Process]*Steps)} }

// Open makes the sink of a process, for [run.Set.Read]. It may be called
// concurrently.
func (c *Collector) Open(p *run.Process) run.Sink {
	s, steps := OpenSink(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[p] = steps
	return s
}

// Attempts returns the steps of a job by attempt, once the set has been read.
func (c *Collector) Attempts(j *run.Job) []Attempt {
	return Attempts(j, func(p *run.Process) *Steps { return c.of[p] })
}
