package goodput

import (
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/vocab"
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

	steps    []liveStep // open iterations, by what
	unused   []what
	own      history
	usual    sample
	first    int64 // own time of the first iteration, run.Unknown before it ends
	number   int64 // its number
	firstIn  bool  // it is among those that count
	computed int64 // the part of own and lost that was computing in bodies
	lost     int64 // own time of iterations that a later loop of this process undid
	ended    int64 // end of the attempt, run.NoEnd while it runs

	loop     int64 // number of the next iteration without one, run.Unknown
	offset   int64 // added to the numbers of a program that counts from 0
	fresh    bool  // no iteration of the loop has started
	loops    int
	saved    int64 // iterations up to this one are in a checkpoint
	peak     int64 // of the committed time
	earlier  []pastAttempt
	count    int64 // iterations opened
	unknown  bool  // lost work is unknown
	rough    bool  // a resume went back to where sums are not exact
	late     int64
	lateness int64
	ring     ring
	file     stateFile
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
}

// LiveSpan is what a span says when it starts.
type LiveSpan struct {
	Parent Handle // zero for a root
	Name   string // standard name, or that in the trace file
	Cat    string // DFTracer category of a span that is not named by its standard name
	Time   int64

	// Step is the number of an iteration, First the first iteration of a
	// training loop: run.Unknown where it is not known.
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

// at moves time on. Time never goes back.
func (l *Live) at(t int64) {
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

func (l *Live) firstOpen() bool {
	for i := range l.steps {
		if l.steps[i].open && l.steps[i].first {
			return true
		}
	}
	return false
}

func (l *Live) release(w what) {
	i, _ := w.iteration()
	l.steps[i] = liveStep{}
	l.unused = append(l.unused, w)
}

// finished counts an iteration.
func (l *Live) finished(w what, end int64) {
	i, _ := w.iteration()
	st := l.steps[i]
	l.release(w)
	if st.first {
		l.first, l.number, l.firstIn = st.own, st.number, true
	} else {
		l.usual.add(st.own)
	}
	l.own.add(past{Number: st.number, Own: st.own, End: end})
	if st.number >= 0 && st.number <= l.saved {
		l.saved = st.number - 1 // run again: the checkpoint's own may be gone
	}
}
