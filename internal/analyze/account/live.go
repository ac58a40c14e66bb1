package account

import (
	"time"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

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
		opts: o, categories: newCategories(), now: pastAttempt{FirstOwn: job.Unknown}, ended: job.NoEnd,
		loop: liveLoop{next: job.Unknown}, job: carried{Through: job.Unknown}, body: none,
	}
	l.spent = make([]int64, len(l.table), len(l.table)+maxNamed)
	l.s.reset(o.Start)
	l.s.emit, l.s.overlap = l.emit, func(_, _ int64, _ what) {}
	err := l.file.load(&l.opts, &l.job)
	if err != nil {
		l.opts.Dir = ""
	}
	last := 0
	if n := len(l.job.Earlier); n > 0 {
		last = l.job.Earlier[n-1].Attempt
	}
	if l.opts.Attempt <= last {
		l.opts.Attempt = last + 1
	}
	l.ring.init(o)
	return l, err
}

// emit gives a stretch of time to its category or iteration.
func (l *Live) emit(from, to int64, w what, _ part) {
	if n, ok := w.iteration(); ok {
		if w >= computing {
			n = int(w - computing)
		}
		if !l.open.steps[n].open { // it has ended, or is none, and something in it goes on
			l.spent[kindIteration] += to - from
			l.loose += to - from
			return
		}
		if w >= computing {
			l.open.steps[n].computed += to - from
		}
		l.open.steps[n].own += to - from
		return
	}
	if w == gap {
		w = whatOther
	}
	l.spent[w] += to - from
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
	if l.ended != job.NoEnd || l.s.count >= maxOpen {
		return 0
	}
	l.advance(s.Time)
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
	case kindCompute, kindCollective:
		result, w = kindIteration, what(kindIteration)
		if parent != nil && parent.kind != kindOther {
			result, w = parent.kind, parent.iter
			if parent.rule == vocab.StepBody {
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
	if isStep || m.Step == vocab.StepOptimizer && result == kindIteration {
		l.slots[slot].rule = m.Step
	}
	if isStep && m.Step == vocab.StepBody {
		l.body = slot
	}
	if parent != nil {
		l.s.setParent(slot, up)
	}
	l.s.settle()
	return handleOf(slot, seq)
}

// End tells that a span has ended. A handle that was ended before is ignored.
func (l *Live) End(h Handle, t int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, slot := l.find(h)
	if n == nil || l.ended != job.NoEnd {
		return
	}
	l.advance(t)
	n.seq = 0
	l.s.end(slot)
	l.s.settle()
	switch n.rule {
	case vocab.StepNone:
	case vocab.StepBody:
		l.endBody(n)
	case vocab.StepOptimizer:
		l.endOptimizer()
	default:
		l.finished(n.iter, l.s.now)
	}
}

// step opens an iteration.
func (l *Live) step(number int64) what {
	if l.loop.fresh && number == 0 && l.loop.next > 0 {
		l.loop.offset = l.loop.next // the program counts from 0 in each loop
	}
	l.loop.fresh = false
	switch {
	case number >= 0:
		number += l.loop.offset
	case l.loop.next >= 0:
		number = l.loop.next
	}
	if number >= 0 {
		l.loop.next = number + 1
	}
	l.count++
	return l.open.add(liveStep{number: number, order: l.count, first: l.now.FirstOwn == job.Unknown && l.open.first() == nil, open: true})
}

// begin notes a training loop, and undoes what it will run again.
func (l *Live) begin(first int64) {
	l.loop = liveLoop{next: first, nth: l.loop.nth + 1, fresh: true}
	if first < 0 {
		l.job.Unknown = l.job.Unknown || l.loop.nth > 1 || len(l.job.Earlier) > 0
		return
	}
	l.job.Rough = !l.now.undo(first, l.ring.undo) || l.job.Rough
	for i := range l.job.Earlier {
		l.job.Rough = !l.job.Earlier[i].undo(first, nil) || l.job.Rough
		l.job.Unknown = l.job.Unknown || l.job.Earlier[i].History.Loose > 0
	}
	l.job.Through = min(l.job.Through, first-1)
}

// Saved tells that a checkpoint was saved that holds every iteration up to
// and including one.
func (l *Live) Saved(t, through int64) {
	if l == nil || through < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(t)
	l.s.settle()
	l.now.History.fold(through)
	l.job.Through = max(l.job.Through, through)
	l.committed()
}

// Alive is a sign of life: it brings the ledger up to the moment and writes
// the state for the next attempt. Call it every few seconds, not from the
// thread that trains. An error is about the state's file.
func (l *Live) Alive(t int64) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.advance(t)
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
	if l.ended != job.NoEnd {
		l.mu.Unlock()
		return nil
	}
	l.advance(t)
	l.ended = l.s.now
	l.ring.note(l)
	st := l.state()
	l.mu.Unlock()
	return l.file.save(&l.opts, st, true)
}
