package account

import (
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// A process that runs cannot be asked by which rule its steps will be known: see
// [job.Steps]. So the best rule for which there was a span so far applies. When a
// better one shows, what was taken for steps is none.

// computing is what a stretch in the body of a loop belongs to that was computing:
// it stays so where the body turns out to be no step. The step's index is added.
const computing what = 1 << 28

// rule says whether a span that starts is a step, as far as is known.
func (l *Live) rule(m *vocab.Meaning, paused, background bool) bool {
	if m.Class == vocab.ClassBackward || m.Step == vocab.StepOptimizer {
		l.trains()
	}
	switch r := m.Step; {
	case background:
		return false
	case r == vocab.StepIteration || r == vocab.StepProfiler || r == vocab.StepNamed || r == vocab.StepCompute && !paused:
		if l.known == vocab.StepNone || r < l.known {
			if l.body != none {
				l.unbody()
			}
			l.demote()
			l.known = r
		}
		return r == l.known
	case r == vocab.StepBody:
		return !paused && l.body == none && (l.known == vocab.StepNone || l.known >= vocab.StepBody)
	}
	return false
}

// trains notes that a gradient is computed or applied: from then on only bodies in
// which that happens are steps.
func (l *Live) trains() {
	if l.body != none {
		l.slots[l.body].trained = true
	}
	if !l.strict {
		l.strict = true
		if l.known == vocab.StepBody {
			l.demote()
		}
	}
}

// endBody ends the body of a loop over a loader.
func (l *Live) endBody(n *liveSlot) {
	l.body = none
	if l.strict && !n.trained {
		l.dismiss(n.iter)
		return
	}
	if l.known != vocab.StepBody {
		l.demote()
		l.known = vocab.StepBody
	}
	l.computed += l.open.stepFor(n.iter).computed
	l.finished(n.iter, l.s.now)
}

// endOptimizer ends a step with that of the optimizer: what was computed since the
// one before.
func (l *Live) endOptimizer() {
	if l.body != none || l.known != vocab.StepNone && l.known != vocab.StepOptimizer {
		return
	}
	l.known = vocab.StepOptimizer
	w := l.step(job.Unknown)
	l.open.stepFor(w).own = l.spent[kindIteration] - l.loose
	l.spent[kindIteration] = l.loose
	l.finished(w, l.s.now)
}

// dismiss gives up what was taken for a step.
func (l *Live) dismiss(w what) {
	st := l.open.stepFor(w)
	l.spent[whatOther] += st.own - st.computed
	l.spent[kindIteration] += st.computed
	l.loose += st.computed
	for i := len(l.ring.entries) - 1; i >= 0 && l.ring.entries[i].order == st.order; i-- {
		l.ring.entries[i].moveOpen()
	}
	if st.number >= 0 && l.loop.next == st.number+1 {
		l.loop.next = st.number
	}
	l.open.release(w)
}

// demote takes back what was taken for steps by a rule that does not apply, at all
// moments: computing stays what it was, and the rest of bodies is nothing of its own.
func (l *Live) demote() {
	sum := l.now.History.Sum + l.now.History.Loose + l.now.Lost
	if l.known == vocab.StepOptimizer {
		l.computed = sum
	}
	l.spent[whatOther] += sum - l.computed
	l.spent[kindIteration] += l.computed
	l.loose += l.computed
	for i := range l.ring.entries {
		e := &l.ring.entries[i]
		if len(e.spent) == 0 {
			continue
		}
		if l.known == vocab.StepOptimizer {
			e.computed = e.sum + e.lost
		}
		e.spent[whatOther] += e.sum + e.lost - e.computed
		e.spent[kindIteration] += e.computed
		e.sum, e.lost, e.computed, e.first = 0, 0, 0, 0
		if n := l.body; n == none || e.order != l.open.stepFor(l.slots[n].iter).order {
			e.moveOpen()
		}
	}
	l.known = vocab.StepNone
	l.now.History, l.usual, l.now.Lost, l.computed = history{}, sample{}, 0, 0
	l.now.FirstOwn, l.now.FirstIn = job.Unknown, false
}

// unbody makes nothing of the open body: it goes on, as part of what is around it.
func (l *Live) unbody() {
	n := &l.slots[l.body]
	was := n.iter
	i, _ := was.iteration()
	l.dismiss(was)
	n.own, n.rule = kindOther, vocab.StepNone
	for slot := range l.slots { // what is open in it, too
		to := what(kindIteration)
		switch l.slots[slot].iter {
		case was:
			to = whatOther
		case computing + what(i):
		default:
			continue
		}
		if l.slots[slot].seq != 0 {
			l.slots[slot].iter, l.s.nodes[slot].what = to, to
		}
	}
	l.body = none
}

// moveOpen gives up the step that was open.
func (e *entry) moveOpen() {
	e.spent[whatOther] += e.open - e.opened
	e.spent[kindIteration] += e.opened
	e.order, e.open, e.opened = 0, 0, 0
}
