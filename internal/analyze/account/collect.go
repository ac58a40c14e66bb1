package account

import (
	"cmp"
	"sync"

	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// Account is the ledger of one job.
type Account struct {
	Job    *job.Job
	Ledger *Ledger

	of func(*job.Process) *Builder
}

// Rebuild rebuilds the ledger with corrections, as [LedgerOf] does.
func (a *Account) Rebuild(c meet.Corrections) { a.Ledger = LedgerOf(a.Job, a.of, c) }

// Collect reads the files of a set and returns the ledger of each job in it.
// Its memory grows with the number of iterations, not of spans. Records are also
// passed to the readers that the functions in also return.
func Collect(set *job.Set, also ...func(*job.Process) Reader) ([]Account, error) {
	c := &collection{builders: make(map[*job.Process]*Builder), also: also, spill: extsort.NewBlocks(packedMemory, "")}
	jobs, err := set.Read(c.open)
	if err = cmp.Or(err, c.spill.Err()); err != nil {
		return nil, err
	}
	var out []Account
	for _, j := range jobs {
		a := Account{Job: j, of: func(p *job.Process) *Builder { return c.builders[p] }}
		a.Rebuild(nil)
		out = append(out, a)
	}
	return out, nil
}

// packedMemory is the number of bytes of the timelines of a set that stay in memory. The rest
// goes to a temporary file.
const packedMemory = 32 << 20

// LedgerOf returns the ledger of a job. The function of returns the builder of each
// process, whose sink, from [OpenSink], is closed. LedgerOf may be called again, also after the
// processes got other rank and attempt numbers.
func LedgerOf(j *job.Job, of func(*job.Process) *Builder, c meet.Corrections) *Ledger {
	l := &Ledger{corrections: c, world: make(map[int]int)}
	l.Expect(j.Ranks)
	for _, p := range j.Processes {
		if _, ok := l.world[p.Attempt]; !ok {
			l.world[p.Attempt] = j.RanksIn(p.Attempt)
		}
		b := of(p)
		if b == nil || b.done == nil {
			continue
		}
		a := *b.done
		a.Rank, a.Attempt = p.Rank, p.Attempt
		a.Latest, a.Died = j.Latest(p)
		a.move(c[p.Attempt].Clocks[p.Rank])
		l.spill = b.spill
		l.add(&a)
	}
	for _, s := range j.Silent {
		l.triedAt(s.Start, s.Stop)
	}
	return l
}

// collection makes a timeline of each process of a set.
type collection struct {
	spill    *extsort.Blocks
	mu       sync.Mutex
	builders map[*job.Process]*Builder
	also     []func(*job.Process) Reader
}

func (c *collection) open(p *job.Process) job.Sink {
	var readers []Reader
	for _, open := range c.also {
		readers = append(readers, open(p))
	}
	s, b := OpenSink(p, c.spill, readers...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.builders[p] = b
	return s
}
