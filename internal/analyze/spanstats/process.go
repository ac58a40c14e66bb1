package spanstats

import (
	"maps"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

type process struct {
	who        *job.Process
	host       string // hash
	read       bool   // in the present file
	trains     bool
	label      string
	events     int64
	start, end int64
	lanes      map[int64]*nest.Tree
	lastTID    int64
	lastLane   *nest.Tree
	number     int64                 // of its attempt, see Aggregator.number
	beside     int64                 // its number among the parallel processes of its attempt
	busy       [classCount]*nest.Set // by Class
	kernels    *nest.Set             // computing on a device
	epochs     map[int64]*epoch
	lastEpoch  *epoch
	steps      job.Steps
	stepped    map[int64]int64 // steps by epoch, of the previous files
	kept       job.Steps       // the steps of the previous files
	run        string          // see job.Process
	done       *account        // of the previous files, nil if the process continues
}

// unions calls fn with each union of the process.
func (p *process) unions(fn func(*nest.Set)) {
	for _, s := range p.busy {
		if s != nil {
			fn(s)
		}
	}
	if p.kernels != nil {
		fn(p.kernels)
	}
}

// maxEpochs limits the epochs of a process.
const maxEpochs = 1 << 14

type epoch struct {
	number     int64
	framed     bool // start and end are those of its own span
	start, end int64
	events     int64
}

func (p *process) epochOf(number int64) *epoch {
	if p.lastEpoch != nil && p.lastEpoch.number == number {
		return p.lastEpoch
	}
	e := p.epochs[number]
	if e == nil {
		if len(p.epochs) == maxEpochs {
			return &epoch{} // discarded: no job has that many
		}
		e = &epoch{number: number}
		p.epochs[number] = e
	}
	p.lastEpoch = e
	return e
}

// framed reports whether the process has spans of its epochs.
func (p *process) framed() bool {
	for _, e := range p.epochs {
		if e.framed {
			return true
		}
	}
	return false
}

func (e *epoch) note(n *name, start, end int64) {
	e.events++
	switch {
	case n.epoch && !e.framed:
		e.framed, e.start, e.end = true, start, end
	case n.epoch:
		e.start, e.end = min(e.start, start), max(e.end, end)
	case !e.framed && e.events == 1:
		e.start, e.end = start, end
	case !e.framed:
		e.start, e.end = min(e.start, start), max(e.end, end)
	}
}

// allSteps returns the known steps of all files.
func (p *process) allSteps() job.Steps {
	p.steps.All()
	return p.kept.Then(&p.steps)
}

// countSteps returns the number of training steps of each epoch.
func (p *process) countSteps() map[int64]int64 {
	out := maps.Clone(p.stepped)
	if out == nil {
		out = make(map[int64]int64)
	}
	for _, st := range p.steps.All() {
		if st.Epoch >= 0 {
			out[st.Epoch]++
		}
	}
	return out
}

// account is the use of the time of a process.
type account struct {
	use    Use
	epochs []*epoch // those that took place
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
	framed := p.framed()
	times := []nest.Interval{{Start: p.start, End: p.end}}
	for _, e := range p.epochs {
		if framed && !e.framed {
			continue // only mentioned, for example by work ahead of an epoch
		}
		acc.epochs, times = append(acc.epochs, e), append(times, nest.Interval{Start: e.start, End: e.end})
	}
	uses := sets.uses(times)
	acc.use, acc.uses = uses[0], uses[1:]
	acc.steps = p.countSteps()
	return acc
}

type nameKey struct{ cat, name string }

type name struct {
	key    nameKey
	is     vocab.Meaning
	class  Class
	epoch  bool // its spans are epochs
	trains bool // only training processes have its spans
	steps  bool // its spans show where training steps are
	whole  bool // its spans last for all epochs; their epoch is the last one

	profile bool // its spans may be kernels
	hist    Histogram
	total   int64
}
