package account

import (
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Live is the ledger of one rank while it runs. It is told of each span when
// it starts and when it ends, in the order of time as far as the program has
// one, and costs a few dozen nanoseconds for each; after the first spans it
// allocates nothing. What comes too late counts from the moment at which it
// comes: [Snapshot.Late] says how much that was. All methods are safe for
// concurrent use. A nil Live does nothing.
//
// An attempt reads the state that the attempts before it left in the run's
// directory, and takes back the work that a resume undoes. Call [Live.Alive]
// every few seconds: it writes the state, and what happened after the last
// state that was written is not known to the next attempt.
type Live struct {
	mu    sync.Mutex
	opts  LiveOptions
	s     sweep
	slots []liveSlot
	categories
	spent    []int64 // by what, without iterations
	meanings vocab.Book

	known  vocab.StepRule // by which there are steps
	strict bool           // bodies are steps only where something is trained in them
	body   int32          // slot of the open one that may be a step, or none
	loose  int64          // computing that belongs to no step of an optimizer

	open     liveSteps
	now      pastAttempt // of this attempt, the iterations that have ended
	usual    sample
	computed int64 // the part of these, lost ones included, that was computing in bodies
	ended    int64 // end of the attempt, job.NoEnd while it runs

	loop     liveLoop
	count    int64 // iterations opened
	job      carried
	late     int64
	lateness int64
	ring     ring
	file     stateFile
}

// liveLoop is where the training loop is.
type liveLoop struct {
	next   int64 // number of the next iteration without one, job.Unknown
	offset int64 // added to the numbers of a program that counts from 0
	nth    int   // from 1
	fresh  bool  // no iteration of it has started
}

// LiveOptions say whose ledger it is.
type LiveOptions struct {
	Rank    int
	Attempt int // from 1; 0 means one more than the last in the directory

	// Start is when the attempt began, nanoseconds since the Unix epoch.
	Start int64

	// Dir is the directory of the run, in which the state is kept for the
	// next attempt. It is made if need be. Empty means no state.
	Dir string

	// Resolution is the least time between two entries for rolling windows,
	// and History how far they reach back. Zero means 10 s and two hours.
	Resolution, History time.Duration

	// Every is how often Alive is called: an attempt that is killed may have lived for
	// so long after the last call. Zero is not known.
	Every time.Duration
}

// LiveSpan is what a span says when it starts.
type LiveSpan struct {
	Parent Handle // zero for a root
	Name   string // standard name, or that in the trace file
	Cat    string // DFTracer category of a span that is not named by its standard name
	Time   int64

	// Step is the number of an iteration, First the first iteration of a
	// training loop: job.Unknown where it is not known.
	Step, First int64

	// Background marks what runs beside the training thread: it is set aside.
	Background bool
}

// Handle stands for an open span. The zero Handle is none.
type Handle uint64

func handleOf(slot int32, seq uint64) Handle { return Handle(seq<<20 | uint64(slot+1)) }

type liveSlot struct {
	seq   uint64
	iter  what
	kind  kind
	own   kind
	aside bool

	rule    vocab.StepRule // by which it is a step, or marks one
	paused  bool           // inside of an evaluation
	trained bool           // a gradient was computed or applied in it
}

// liveStep is an open iteration.
type liveStep struct {
	number, own int64
	computed    int64 // the part of own that was computing, of the body of a loop
	order       int64 // counted from 1
	first       bool
	open        bool
}

// maxOpen bounds the open spans that are followed.
const maxOpen = 1<<20 - 2

// advance moves time on. Time never goes back.
func (l *Live) advance(t int64) {
	if t < l.s.now {
		if d := l.s.now - t; d > 0 {
			l.late++
			l.lateness += d
		}
		return
	}
	l.s.advance(t)
}

// find is the open span of a handle.
func (l *Live) find(h Handle) (*liveSlot, int32) {
	slot := int32(h&(1<<20-1)) - 1
	if slot < 0 || int(slot) >= len(l.slots) || l.slots[slot].seq != uint64(h>>20) {
		return nil, none
	}
	return &l.slots[slot], slot
}

// liveSteps are the open iterations, by what.
type liveSteps struct {
	steps  []liveStep
	unused []what
}

// add opens one.
func (o *liveSteps) add(st liveStep) what {
	if n := len(o.unused); n > 0 {
		w := o.unused[n-1]
		o.unused = o.unused[:n-1]
		*o.stepFor(w) = st
		return w
	}
	o.steps = append(o.steps, st)
	return firstIteration + what(len(o.steps)-1)
}

func (o *liveSteps) stepFor(w what) *liveStep {
	i, _ := w.iteration()
	return &o.steps[i]
}

func (o *liveSteps) release(w what) {
	*o.stepFor(w) = liveStep{}
	o.unused = append(o.unused, w)
}

// first returns the first iteration of the attempt while it is open, nil before and after.
func (o *liveSteps) first() *liveStep {
	for i := range o.steps {
		if o.steps[i].open && o.steps[i].first {
			return &o.steps[i]
		}
	}
	return nil
}

// finished counts an iteration.
func (l *Live) finished(w what, end int64) {
	st := *l.open.stepFor(w)
	l.open.release(w)
	if st.first {
		l.now.FirstOwn, l.now.FirstNumber, l.now.FirstIn = st.own, st.number, true
	} else {
		l.usual.add(st.own)
	}
	l.now.History.add(past{Number: st.number, Own: st.own, End: end})
	if st.number >= 0 && st.number <= l.job.Through {
		l.job.Through = st.number - 1 // run again: the checkpoint's own may be gone
	}
}
