package account

import (
	"cmp"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// walk passes the rows of one process to a sweep and fills its timeline.
type walk struct {
	sweep
	a       *attempt
	t       *timeline
	train   job.Training
	lanes   bool       // steps are on further lanes of their thread
	step    opened     // the step span that was opened last
	all     []job.Step // the steps
	steps   []job.Step // the same if steps have no spans, else nil
	at      int        // index of the current one in steps
	ids     openIDs
	live    []liveRow // by slot
	ends    queue     // ends of open spans, the earliest first
	waiting []int32   // slots of open spans without an end, which a sibling may close
	stacks  map[int64]*nest.Stack[opened]
	done    []bool // memory of moment.done
}

// liveRow is an open span.
type liveRow struct {
	Row
	seq  uint64
	up   int32
	ends int64 // its end, or that of its parent if its own is not recorded
	placed
}

// placed determines how the time of a span counts.
type placed struct {
	aside  bool
	result kind // the kind that it counts as: for compute, that of the enclosing iteration
	part   part
	iter   what
}

// openIDs finds open spans by id. It is a list, and two maps once there were more than
// fewOpen.
type openIDs struct {
	list  []openID
	slots map[uint64]int32
	ids   map[int32]uint64
}

type openID struct {
	id   uint64
	slot int32
}

const fewOpen = 32

func (o *openIDs) open(slot int32, id uint64) {
	if o.slots != nil {
		o.slots[id], o.ids[slot] = slot, id
		return
	}
	if o.list = append(o.list, openID{id, slot}); len(o.list) > fewOpen {
		o.slots, o.ids = make(map[uint64]int32), make(map[int32]uint64)
		for _, s := range o.list {
			o.slots[s.id], o.ids[s.slot] = s.slot, s.id
		}
		o.list = nil
	}
}

func (o *openIDs) close(slot int32) {
	if o.slots != nil {
		if id, ok := o.ids[slot]; ok {
			delete(o.ids, slot)
			if o.slots[id] == slot {
				delete(o.slots, id)
			}
		}
		return
	}
	for i := len(o.list) - 1; i >= 0; i-- {
		if o.list[i].slot == slot {
			o.list = append(o.list[:i], o.list[i+1:]...)
			return
		}
	}
}

// find returns the slot of the open span with an id other than 0, or none.
func (o *openIDs) find(id uint64) int32 {
	if o.slots != nil {
		if slot, ok := o.slots[id]; ok {
			return slot
		}
		return none
	}
	for i := len(o.list) - 1; i >= 0; i-- {
		if o.list[i].id == id {
			return o.list[i].slot
		}
	}
	return none
}

// opened is a span that was opened at a slot.
type opened struct {
	slot int32
	seq  uint64
}

func newWalk(a *attempt, t *timeline, steps *job.Steps) *walk {
	w := &walk{a: a, t: t, all: steps.All(), train: steps.Training(), stacks: make(map[int64]*nest.Stack[opened])}
	if steps.Rule.Between() {
		w.steps = w.all
	}
	w.lanes = slices.ContainsFunc(w.all, func(s job.Step) bool { return s.Thread != job.ThreadOf(s.Thread) })
	w.emit = func(from, to int64, what what, p part) {
		t.extend(from, what)
		t.divide(what, p, to-from)
	}
	w.overlap = func(from, to int64, what what) {
		if what != gap && what != whatOther {
			t.overlap(overlapped{from, to, what})
		}
	}
	return w
}

const whatOther = what(kindOther)

// run divides the time of the attempt among rows. next returns the rows of the next
// start, or nil at the end.
func (w *walk) run(next func() []Row) {
	a := w.a
	w.now, w.top = a.Start, none
	rows := next()
	for {
		t := a.stop
		if rows != nil {
			t = min(t, rows[0].Start)
		}
		if len(w.ends) > 0 {
			t = min(t, w.ends[0].key)
		}
		w.advance(t)
		if t >= a.stop {
			break
		}
		for len(w.ends) > 0 && w.ends[0].key <= t {
			if e := w.ends.pop(); w.isOpen(opened{e.slot, e.seq}) {
				w.close(e.slot)
			}
		}
		switch {
		case rows == nil || rows[0].Start > t:
		case len(rows) == 1:
			r := rows[0]
			rows = next()
			if w.alone(&r, rows) {
				continue
			}
			w.open(&r)
		default:
			w.openAll(rows)
			rows = next()
		}
		w.settle()
	}
	for slot := range w.live {
		if l := &w.live[slot]; l.seq != 0 && w.nodes[slot].kids == 0 {
			w.noLeaf(int32(slot))
		}
	}
	w.t.close(a.stop)
}

// openAll opens spans with the same start, parents first.
func (w *walk) openAll(rows []Row) {
	m := moment{rows: rows, done: w.done[:0]}
	m.done = append(m.done, make([]bool, len(rows))...)
	w.done = m.done
	if len(rows) > fewRows {
		m.byID = make(map[uint64]int, len(rows))
		for i := range rows {
			m.byID[rows[i].ID] = i
		}
	}
	for i := range rows {
		w.visit(&m, i)
	}
}

// moment holds spans with the same start.
type moment struct {
	rows []Row
	done []bool
	byID map[uint64]int // nil if there are at most fewRows
}

const fewRows = 16

// visit opens a span of a moment once its parent is open.
func (w *walk) visit(m *moment, i int) {
	if m.done[i] {
		return
	}
	m.done[i] = true
	if p := m.find(m.rows[i].Parent); p >= 0 {
		w.visit(m, p)
	}
	w.open(&m.rows[i])
}

// find returns the index of the last row with an id, or -1.
func (m *moment) find(id uint64) int {
	if m.byID != nil {
		if i, ok := m.byID[id]; ok {
			return i
		}
		return -1
	}
	i := len(m.rows) - 1
	for i >= 0 && m.rows[i].ID != id {
		i--
	}
	return i
}

// alone handles a span during which nothing else begins or ends, without opening and
// closing it, and reports whether the span is one. Most spans are.
func (w *walk) alone(r *Row, next []Row) bool {
	if r.nested || r.End <= r.Start || r.End >= w.a.stop || len(w.waiting) > 0 ||
		next != nil && next[0].Start < r.End || len(w.ends) > 0 && w.ends[0].key < r.End {
		return false
	}
	up := w.parentOf(r)
	p := w.place(r, up)
	switch free := up == none || !w.nodes[up].aside; {
	case free && p.aside:
		w.settle()
		w.overlap(r.Start, r.End, p.iter)
		return true
	case free && up == w.best() && (up == none || p.result <= w.nodes[up].rank): // the span wins
		w.settle()
		w.met(r, &p, up)
		w.emit(r.Start, r.End, p.iter, p.part)
		w.now = r.End
		return true
	}
	return false
}

// open opens one span, unless its length is 0.
func (w *walk) open(r *Row) {
	w.closeSiblings(r)
	if r.End < r.Start || r.End == r.Start && r.meet == 0 {
		return
	}
	up := w.parentOf(r)
	l := liveRow{Row: *r, up: up, ends: r.End, placed: w.place(r, up)}
	if r.End == r.Start {
		w.met(r, &l.placed, up) // a message that had already arrived
		return
	}
	if l.ends == job.NoEnd && up != none {
		l.ends = w.live[up].ends
	}
	w.met(r, &l.placed, up)
	slot := w.start(l.iter, l.result, l.aside)
	w.nodes[slot].part = l.part
	l.seq = w.nodes[slot].seq
	for int(slot) >= len(w.live) {
		w.live = append(w.live, liveRow{})
	}
	w.live[slot] = l
	if up != none {
		w.setParent(slot, up)
	}
	w.ids.open(slot, r.ID)
	if r.kind == kindIteration {
		w.step = opened{slot, l.seq}
	}
	if r.nested {
		w.stacks[r.Thread].Push(l.ends, opened{slot, l.seq})
	}
	if r.End == job.NoEnd && (r.role == roleIteration || r.role == rolePhase) {
		w.waiting = append(w.waiting, slot)
	}
	if l.ends < w.a.stop {
		w.ends.push(queueEntry{l.ends, slot, l.seq})
	}
}

// place determines how the time of a span counts. up is its parent, or none.
func (w *walk) place(r *Row, up int32) placed {
	l := placed{result: r.kind, iter: r.what}
	var parent *liveRow
	if up != none {
		parent = &w.live[up]
	}
	switch {
	case r.kind == kindCompute, r.kind == kindCollective:
		l.result, l.iter = kindIteration, w.stepAt(r.Start)
		if parent != nil && parent.result != kindOther {
			l = parent.placed
		}
		l.part = partCompute
		if r.kind == kindCollective {
			if l.part = partCollective; l.iter == what(kindIteration) {
				l.iter = what(kindMeeting)
			}
		}
	case r.kind == kindCustom:
		switch {
		case parent != nil && parent.part == partCompute: // a layer of a pass through the model
			l = parent.placed
		case w.isFrame(r):
			l.result, l.iter = kindOther, whatOther
		}
	case r.kind == kindStartUp:
		if parent != nil && parent.result != kindOther && parent.result != kindStartUp {
			l = parent.placed
		}
	case r.kind == kindData:
		if parent != nil && parent.result == kindStartUp {
			l = parent.placed
		}
	case r.kind == kindDetail:
		l.result, l.iter = kindOther, whatOther
		if parent != nil {
			l = parent.placed
		}
	}
	beside, known := w.onOtherThread(r)
	beside = beside || known && w.besideStep(r, up)
	l.aside = r.Background || beside || parent != nil && parent.aside && (beside || !known)
	return l
}

// isFrame reports whether a span is around a step, as one around the training loop: on its thread, or as its parent.
func (w *walk) isFrame(r *Row) bool {
	i, _ := slices.BinarySearchFunc(w.all, r.Start, func(s job.Step, start int64) int { return cmp.Compare(s.Start, start) })
	if i == len(w.all) || w.all[i].End > r.End {
		return false
	}
	st := &w.all[i]
	return r.Thread != 0 && r.Thread == st.Thread || r.ID != 0 && r.ID == st.Parent
}

// onOtherThread reports whether a span ran on another thread than the training, and
// whether the thread is known.
func (w *walk) onOtherThread(r *Row) (beside, known bool) {
	return r.kind != kindOther && w.train.Beside(r.Thread, r.pass()), w.train.Knows(r.Thread)
}

// besideStep reports whether a span runs at the same time as a step on whose thread it is, without being part of it.
func (w *walk) besideStep(r *Row, up int32) bool {
	if !w.lanes && r.Thread == job.ThreadOf(r.Thread) || r.kind == kindOther || r.kind == kindIteration {
		return false
	}
	next, _ := slices.BinarySearchFunc(w.all, r.Start, func(s job.Step, start int64) int { return cmp.Compare(s.Start, start) })
	for i := max(next-1, 0); i < min(next+1, len(w.all)); i++ {
		if st := &w.all[i]; st.Beside(r.Thread, r.Start, r.End) && !w.isInside(up, st.ID) {
			return true
		}
	}
	return false
}

// isInside reports whether the span with an id is the open span at a slot, or around it.
func (w *walk) isInside(slot int32, id uint64) bool {
	for slot != none && w.live[slot].ID != id {
		n := &w.nodes[slot]
		if slot = n.up; slot != none && w.nodes[slot].seq != n.upSeq {
			return false
		}
	}
	return slot != none
}

// parentOf returns the slot of the open span that a row is part of, or none. A pass through the
// model that runs only on other threads is part of the open step.
func (w *walk) parentOf(r *Row) int32 {
	up := w.enclosing(r)
	if up == none && w.train.Elsewhere(r.pass()) && w.step.seq != 0 && w.isOpen(w.step) {
		return w.step.slot
	}
	return up
}

// enclosing returns the slot of the open span that encloses a row, or none. In files
// without parents it uses the thread, as described in package nest: an open span of
// the thread that ends before the row does gets no more time.
func (w *walk) enclosing(r *Row) int32 {
	if !r.nested {
		if r.Parent == 0 || r.Parent == r.ID {
			return none
		}
		return w.ids.find(r.Parent)
	}
	stack := w.stacks[r.Thread]
	if stack == nil {
		stack = new(nest.Stack[opened])
		w.stacks[r.Thread] = stack
	}
	for top := stack.Top(); top != nil && !w.isOpen(top.Of); top = stack.Top() {
		stack.Pop()
	}
	if r.End != job.NoEnd && !r.Background {
		for _, o := range stack.Leave(r.Start, r.End) {
			if w.isOpen(o.Of) && !w.live[o.Of.slot].aside {
				w.cover(o.Of.slot)
			}
		}
	}
	for i := len(*stack) - 1; i >= 0 && i >= len(*stack)-64; i-- {
		if o := (*stack)[i]; o.End >= r.End && w.isOpen(o.Of) {
			return o.Of.slot
		}
	}
	return none
}

func (w *walk) isOpen(o opened) bool { return w.live[o.slot].seq == o.seq }

// closeSiblings closes spans without a recorded end that must have ended when r
// began: an iteration if r is the next one, an initialization or a load if r is the
// next phase, a loop or an iteration.
func (w *walk) closeSiblings(r *Row) {
	if len(w.waiting) == 0 || r.role == roleNone || r.Background {
		return
	}
	keep := w.waiting[:0]
	for _, slot := range w.waiting {
		l := &w.live[slot]
		switch {
		case l.seq == 0 || l.End != job.NoEnd || l.role != roleIteration && l.role != rolePhase:
			// It has ended, and its slot may be in use by another span.
		case l.Parent == r.Parent && l.Start < r.Start && job.ThreadOf(l.Thread) == job.ThreadOf(r.Thread) &&
			(l.role == rolePhase || r.role == roleIteration):
			w.a.missingEnds++
			w.closeTree(slot)
		default:
			keep = append(keep, slot)
		}
	}
	w.waiting = keep
}

// closeTree closes a span and its descendants without an end.
func (w *walk) closeTree(slot int32) {
	for i := range w.live {
		if l := &w.live[i]; l.seq != 0 && l.End == job.NoEnd && l.up == slot && int32(i) != slot {
			w.closeTree(int32(i))
		}
	}
	w.close(slot)
}

func (w *walk) close(slot int32) {
	l := &w.live[slot]
	w.ids.close(slot)
	l.seq = 0
	w.end(slot)
}

// met records a meeting of the training thread, or a pass through the model, which determines
// the sending stage of messages.
func (w *walk) met(r *Row, p *placed, up int32) {
	if p.aside || r.End == job.NoEnd {
		return
	}
	n, inside := p.iter.iteration()
	if pass := r.pass(); pass != vocab.ClassOther && inside {
		w.t.messages.pass(n, pass)
	}
	if r.meet == 0 {
		return
	}
	kind := &w.a.meets[r.meet-1]
	switch op := kind.op; {
	case op == message:
		if before := vocab.ClassOther; inside && !w.t.devices {
			if up != none && w.live[up].End > r.End {
				before = w.live[up].pass()
			}
			w.t.messages.receive(n, w.a.anchor(w.t.iterations, n), r.End-r.Start, kind.peer, before)
		}
		return
	case r.End == r.Start:
		return
	case op == waiting && !w.t.joins, op != setUp && w.t.devices:
		return
	}
	if inside {
		w.t.met.in(n, w.a.anchor(w.t.iterations, n), r.meet, r.End-r.Start)
	} else if w.a.meetsIn(p.iter) {
		w.t.met.out(w.a, w.t.iterations, r.meet, r.Start, r.End-r.Start)
	}
}

// meetsIn reports whether ranks may wait for each other in time of w, which is not an
// iteration.
func (a *attempt) meetsIn(w what) bool {
	return w == what(kindMeeting) || w == what(kindInit) || a.names[w] == StartupRendezvous
}

// stepAt returns the owner of compute time at t outside of step spans: the step in
// steps that contains t. Calls must be in the order of t.
func (w *walk) stepAt(t int64) what {
	for w.at < len(w.steps) && w.steps[w.at].End <= t {
		w.at++
	}
	if w.at < len(w.steps) && w.steps[w.at].Start <= t {
		return firstIteration + what(w.at)
	}
	return what(kindIteration)
}
