package goodput

import (
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/spans"
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
	meanings spans.Book

	known  spans.StepRule // by which there are steps
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

	rule    spans.StepRule // by which it is a step, or marks one
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

// NewLive begins the ledger of an attempt. An error means that the state of
// earlier attempts cannot be read; the Live that comes with it works, knows
// nothing of them, and leaves their file as it is: it writes no state.
func NewLive(o LiveOptions) (*Live, error) {
	if o.Resolution <= 0 {
		o.Resolution = 10 * time.Second
	}
	if o.History <= 0 {
		o.History = 2 * time.Hour
	}
	l := &Live{
		opts: o, categories: newCategories(), first: run.Unknown, ended: run.NoEnd,
		loop: run.Unknown, saved: run.Unknown, body: none,
	}
	l.spent = make([]int64, len(l.table), len(l.table)+maxNamed)
	l.s.reset(o.Start)
	l.s.emit, l.s.overlap = l.emit, func(_, _ int64, _ what) {}
	err := l.load()
	if err != nil {
		l.opts.Dir = ""
	}
	if l.opts.Attempt <= 0 {
		l.opts.Attempt = 1
		if n := len(l.earlier); n > 0 {
			l.opts.Attempt = l.earlier[n-1].Attempt + 1
		}
	}
	l.ring.init(o)
	return l, err
}

// emit gives a stretch of time to its category or iteration.
func (l *Live) emit(from, to int64, w what) {
	if n, ok := w.iteration(); ok {
		if w >= computing {
			n = int(w - computing)
		}
		if !l.steps[n].open { // it has ended, or is none, and something in it goes on
			l.spent[kindIteration] += to - from
			l.loose += to - from
			return
		}
		if w >= computing {
			l.steps[n].computed += to - from
		}
		l.steps[n].own += to - from
		return
	}
	if w == gap {
		w = whatOther
	}
	l.spent[w] += to - from
}

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

// Start tells of a span that starts. It returns the handle to end it with,
// zero once the attempt has ended.
func (l *Live) Start(s *LiveSpan) Handle {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meanings.Of(s.Cat, s.Name)
	if l.ended != run.NoEnd || l.s.count >= maxOpen {
		return 0
	}
	l.at(s.Time)
	parent, up := l.find(s.Parent)
	paused := parent != nil && (parent.paused || parent.own == kindValidation || parent.own == kindTesting)
	k := kindOf[m.Class]
	isStep := l.rule(m, paused, s.Background)
	if isStep {
		k = kindIteration
	} else if k == kindIteration {
		k = kindOther
	}
	w := what(k)
	result := k
	switch k {
	case kindIteration:
		w = l.step(s.Step)
	case kindCustom, kindStartUp:
		switch {
		case k == kindCustom:
			w = l.custom(m.Name)
		case parent != nil && parent.kind != kindOther && parent.kind != kindStartUp:
			result, w = parent.kind, parent.iter
		default:
			w = l.startUp(m.Kind)
		}
		if int(w) == len(l.spent) {
			l.spent = append(l.spent, 0)
		}
	case kindCompute:
		result, w = kindIteration, what(kindIteration)
		if parent != nil && parent.kind != kindOther {
			result, w = parent.kind, parent.iter
			if parent.rule == spans.StepBody {
				i, _ := w.iteration()
				w = computing + what(i)
			}
		}
	case kindData:
		if parent != nil && parent.kind == kindStartUp {
			result, w = parent.kind, parent.iter
		}
	case kindDetail:
		result, w = kindOther, whatOther
		if parent != nil {
			result, w = parent.kind, parent.iter
		}
	case kindOther:
		if m.Name == spans.TrainingLoop {
			l.begin(s.First)
		}
	}
	aside := s.Background || parent != nil && parent.aside
	slot := l.s.start(w, result, aside)
	for int(slot) >= len(l.slots) {
		l.slots = append(l.slots, liveSlot{})
	}
	seq := l.s.nodes[slot].seq
	l.slots[slot] = liveSlot{seq: seq, iter: w, kind: result, own: k, aside: aside, paused: paused}
	if isStep || m.Step == spans.StepOptimizer && result == kindIteration {
		l.slots[slot].rule = m.Step
	}
	if isStep && m.Step == spans.StepBody {
		l.body = slot
	}
	if parent != nil {
		l.s.under(slot, up)
	}
	l.s.settle()
	return handleOf(slot, seq)
}

// find is the open span of a handle.
func (l *Live) find(h Handle) (*liveSlot, int32) {
	slot := int32(h&(1<<20-1)) - 1
	if slot < 0 || int(slot) >= len(l.slots) || l.slots[slot].seq != uint64(h>>20) {
		return nil, none
	}
	return &l.slots[slot], slot
}

// End tells that a span has ended. A handle that was ended before is ignored.
func (l *Live) End(h Handle, t int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, slot := l.find(h)
	if n == nil || l.ended != run.NoEnd {
		return
	}
	l.at(t)
	n.seq = 0
	l.s.end(slot)
	l.s.settle()
	switch n.rule {
	case spans.StepNone:
	case spans.StepBody:
		l.endBody(n)
	case spans.StepOptimizer:
		l.endOptimizer()
	default:
		l.finished(n.iter, l.s.now)
	}
}

// step opens an iteration.
func (l *Live) step(number int64) what {
	if l.fresh && number == 0 && l.loop > 0 {
		l.offset = l.loop // the program counts from 0 in each loop
	}
	l.fresh = false
	switch {
	case number >= 0:
		number += l.offset
	case l.loop >= 0:
		number = l.loop
	}
	if number >= 0 {
		l.loop = number + 1
	}
	l.count++
	st := liveStep{number: number, order: l.count, first: l.first == run.Unknown && !l.firstOpen(), open: true}
	if n := len(l.unused); n > 0 {
		w := l.unused[n-1]
		l.unused = l.unused[:n-1]
		i, _ := w.iteration()
		l.steps[i] = st
		return w
	}
	l.steps = append(l.steps, st)
	return firstIteration + what(len(l.steps)-1)
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

// begin notes a training loop, and undoes what it will run again.
func (l *Live) begin(first int64) {
	l.loops++
	l.loop, l.offset, l.fresh = first, 0, true
	if first < 0 {
		l.unknown = l.unknown || l.loops > 1 || len(l.earlier) > 0
		return
	}
	lost, exact := l.own.undo(first, l.ring.undo)
	l.lost += lost
	l.rough = l.rough || !exact
	if lost > 0 && l.firstIn && l.number >= first {
		l.firstIn = false
	}
	for i := range l.earlier {
		l.rough = !l.earlier[i].undo(first) || l.rough
		l.unknown = l.unknown || l.earlier[i].History.Loose > 0
	}
	l.saved = min(l.saved, first-1)
}

// Saved tells that a checkpoint was saved that holds every iteration up to
// and including one.
func (l *Live) Saved(t, through int64) {
	if l == nil || through < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at(t)
	l.s.settle()
	l.own.fold(through)
	l.saved = max(l.saved, through)
	l.settlePeak()
}

// Alive is a sign of life: it brings the ledger up to the moment and writes
// the state for the next attempt. Call it every few seconds, not from the
// thread that trains. An error is about the state's file.
func (l *Live) Alive(t int64) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.at(t)
	l.ring.note(l)
	st := l.state()
	l.mu.Unlock()
	return l.file.save(&l.opts, st, false)
}

// Close ends the attempt properly and writes the state. Later calls of any
// method but [Live.Snapshot] do nothing.
func (l *Live) Close(t int64) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if l.ended != run.NoEnd {
		l.mu.Unlock()
		return nil
	}
	l.at(t)
	l.ended = l.s.now
	l.ring.note(l)
	st := l.state()
	l.mu.Unlock()
	return l.file.save(&l.opts, st, true)
}
