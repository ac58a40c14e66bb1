package fromjob

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

const (
	// maxRows is the number of spans of a process that are held before the first of them are handed on.
	maxRows = 62_500
	// keepRows is the number of spans that stay then: a device works on the spans of a step after the host.
	keepRows = maxRows / 2
	// mostUp limits the spans between a step and a span in it.
	mostUp = 64
)

// NewReader returns a reader that collects the steps of a process, for [account.OpenSink], and its steps, for
// [Attempts]. Packed steps are written to spill; if it is nil they stay in memory.
func NewReader(p *job.Process, spill *extsort.Blocks) (account.Reader, *Steps) {
	s := &reader{Steps: NewSteps(spill), proc: p, worked: make(map[straggler.Phase]int64), evaluated: make(map[int64]int64), last: -1}
	s.bare = NewSteps(spill).state
	return s, s.Steps
}

// Begin implements [account.Reader].
func (s *reader) Begin(all *account.Spans) {
	s.spans, s.ops, s.cutOff = all, opsOf(s.proc, all.Ops), cutOff(s.proc)
	s.its, s.train = s.proc.Steps.All(), s.proc.Steps.Training()
	if of, ok := rowMemory.Get().(*[]row); ok {
		s.rows = (*of)[:0]
	}
}

// Row takes a span.
func (s *reader) Row(r *account.Row) {
	s.pause(r)
	if s.up != nil || r.Thread != job.ThreadOf(r.Thread) {
		s.noteParent(r)
	}
	phase := phases[r.Class]
	switch {
	case r.OfDevice:
		s.devices = true
		if phase == straggler.Other {
			phase = straggler.Host
		}
	case r.Outside, r.Background && phase != straggler.Communication:
		return
	case pauseKinds[r.Class] == straggler.PauseEvaluation:
		s.evaluate(r)
		return
	case phase == straggler.Other, phase != straggler.Communication && r.Start < s.evaluated[r.Thread]:
		return
	}
	s.rows = append(s.rows, row{r.Parent, r.Start, r.End, r.Thread, r.Number, r.Op, phase, r.OfDevice, r.Long, false})
	if len(s.rows) >= maxRows {
		s.handOn(keepRows, false)
	}
}

// noteParent remembers the parent of a span on one of several lanes.
func (s *reader) noteParent(r *account.Row) {
	if s.up == nil || len(s.up) >= maxRows {
		s.upBefore, s.up = s.up, make(map[uint64]uint64)
	}
	s.up[r.ID] = r.Parent
}

// isInside reports whether a row is part of a step, as its child or as a descendant of one.
func (s *reader) isInside(r *row, it *job.Step) bool {
	id := r.Parent
	for range mostUp {
		if id == it.ID || id == 0 {
			break
		}
		up, ok := s.up[id]
		if !ok {
			up = s.upBefore[id]
		}
		id = up
	}
	return id == it.ID
}

// evaluate remembers an evaluation between or in steps. The work in it, such as its forward passes, is no work of a
// step: the evaluation as a whole is host time. Its collectives stay, because ranks wait for each other in them.
func (s *reader) evaluate(r *account.Row) {
	n, _ := slices.BinarySearchFunc(s.its, r.Start, func(it job.Step, at int64) int { return cmp.Compare(it.Start, at) })
	if r.End != job.NoEnd && (n == len(s.its) || s.its[n].End > r.End) { // else it contains a training step
		s.evaluated[r.Thread] = max(s.evaluated[r.Thread], r.End)
	}
}

// rowMemory recycles row buffers of processes that have been read.
var rowMemory sync.Pool

// End hands on the remaining spans.
func (s *reader) End() error {
	s.handOn(0, true)
	if !s.parts {
		s.state.Merge(s.bare)
	}
	left := s.rows
	rowMemory.Put(&left)
	s.rows, s.its, s.bare = nil, nil, nil
	s.state.SetRank(0, straggler.Rank{Role: s.spans.Role, Sampled: s.proc.Facts[job.FactSampled] != "", Pauses: s.pauses, Loader: straggler.Loader(s.spans.Loader)})
	s.state.Pack()
	return nil
}

// handOn converts all spans but the latest keep into steps. At the end of the process end is true.
func (s *reader) handOn(keep int, end bool) {
	cut, its := len(s.rows)-keep, s.its
	if !end {
		// Only complete steps that end before the first span that stays.
		limit := s.rows[cut].Start
		n := 0
		for n < len(its) && its[n].End <= limit {
			n++
		}
		if n == 0 {
			s.rows = slices.Delete(s.rows, 0, cut) // without steps these spans belong to none
			return
		}
		its = its[:n]
	}
	others := s.assign(its)
	next := 0
	for i := range its {
		if s.abandoned(s.handed+i, next, others[i]) {
			continue
		}
		next = s.emit(&its[i], s.proc.Steps.Shown(s.handed+i), next, others[i])
	}
	s.handed, s.its = s.handed+len(its), s.its[len(its):]
	if end {
		s.tail(next)
		return
	}
	s.rows = slices.Delete(s.rows, 0, next)
}

// assign returns, by index of the iteration, the collectives that record another iteration than the one they
// began in: the host may already run the next iteration while the device works. Collectives of iterations
// that are not in its are left out.
func (s *reader) assign(its []job.Step) map[int][]int {
	out := make(map[int][]int)
	if s.devices {
		s.assignDevice(its, out)
	}
	for i := 1; i < len(its); i++ {
		if its[i].Raw <= its[i-1].Raw {
			return out // step numbers restart, so they do not identify an iteration
		}
	}
	at := 0
	for i := range s.rows {
		r := &s.rows[i]
		for at < len(its) && its[at].End <= r.Start {
			at++
		}
		if r.OfDevice || r.phase != straggler.Communication || r.Number == job.Unknown || at < len(its) && its[at].Raw == r.Number {
			continue
		}
		to, ok := slices.BinarySearchFunc(its, r.Number, func(it job.Step, number int64) int { return cmp.Compare(it.Raw, number) })
		if !ok && at == len(its) {
			continue // belongs to a later step
		}
		if r.moved = true; ok {
			out[to] = append(out[to], i)
		}
	}
	return out
}

// abandoned reports whether the program gave up step k before its collectives and tried it again. Such a run is no step
// of its own, because other ranks have none to compare it with: its spans, among the rows from index next on, are left
// out, and its time is part of the time before the second run.
func (s *reader) abandoned(k, next int, others []int) bool {
	all := s.proc.Steps.All()
	if len(s.ops) == 1 || k+1 >= len(all) || s.proc.Steps.Shown(k+1) != s.proc.Steps.Shown(k) {
		return false
	}
	communicates := func(i int) bool { return s.rows[i].phase == straggler.Communication }
	if slices.ContainsFunc(others, communicates) {
		return false
	}
	for next < len(s.rows) && s.rows[next].Start < all[k].Start { // between the steps
		next++
	}
	end := next
	for until := min(all[k].End, all[k+1].Start); end < len(s.rows) && s.rows[end].Start < until; end++ {
		if communicates(end) && !s.rows[end].moved {
			return false
		}
	}
	for i := next; i < end; i++ {
		s.rows[i].moved = true
	}
	return true
}

// emit hands on one step with the spans from index next that begin before its end, and with others. It
// returns the index of the first span not handed on. If the program repeats a step, the step gets the next
// number, because ranks are compared in order.
func (s *reader) emit(st *job.Step, shown int64, next int, others []int) int {
	s.last = max(shown, s.last+1)
	s.open(s.last, st.Tokens)
	if s.step.Start = st.Start; st.End != job.NoEnd {
		s.step.End = st.End
	}
	for ; next < len(s.rows) && s.rows[next].Start < st.End; next++ {
		if !s.rows[next].moved {
			s.take(&s.rows[next], st)
		}
	}
	for _, i := range others {
		s.take(&s.rows[i], st)
	}
	if !s.devices {
		s.updates.step(s.step.Spans)
	}
	s.done()
	s.any = s.any || st.End != job.NoEnd
	return next
}

func (s *reader) open(number, tokens int64) {
	clear(s.worked)
	s.step = straggler.Step{Number: number, Tokens: tokens, Spans: s.step.Spans[:0]}
}

func (s *reader) done() {
	if s.devices {
		s.launches()
	}
	if len(s.worked) > 0 {
		s.profiled()
	}
	if len(s.step.Spans) == 0 {
		s.bare.Add(&s.step)
		return
	}
	s.state.Add(&s.step)
}

// passOf returns the class of a forward or backward pass, ClassOther for other phases.
func passOf(p straggler.Phase) vocab.Class {
	switch p {
	case straggler.Forward:
		return vocab.ClassForward
	case straggler.Backward:
		return vocab.ClassBackward
	}
	return vocab.ClassOther
}

func (s *reader) take(r *row, it *job.Step) {
	sp := straggler.Span{Phase: r.phase, Start: r.Start, End: r.End}
	s.parts = s.parts || r.phase == straggler.Forward || r.phase == straggler.Backward || r.phase == straggler.Communication
	if r.phase == straggler.Communication {
		o := &s.ops[r.Op]
		sp.Group, sp.GroupSize, sp.Peer = o.group, o.groupSize, o.peer
		if sp.Meeting = o.meeting; r.OfDevice {
			sp.Meeting = straggler.Collective
		}
	}
	if r.End == job.NoEnd || r.Long && r.End >= s.cutOff {
		sp.End, sp.Op = math.MinInt64, s.ops[r.Op].words
	}
	switch {
	case r.OfDevice:
		sp.Lane, sp.Launch = straggler.Device, r.Number
	case r.Number > 0 && (r.phase == straggler.Forward || r.phase == straggler.Backward):
		s.worked[r.phase] += r.Number
	}
	if !r.OfDevice && it != nil && it.ID != 0 && r.Parent != it.ID &&
		(it.Beside(r.Thread, r.Start, r.End) && !s.isInside(r, it) || s.train.Beside(r.Thread, passOf(r.phase))) {
		sp.Lane = 1
	}
	s.step.Spans = append(s.step.Spans, sp)
}

// tail hands on the spans after the last iteration of a process that did not end properly: the step in which
// it, or the job, was lost.
func (s *reader) tail(next int) {
	if s.proc.End != job.NoEnd && !failed(s.proc) || !s.any {
		return
	}
	s.open(s.last+1, 0)
	if next < len(s.rows) {
		s.step.Start = s.rows[next].Start
	}
	began := false
	for ; next < len(s.rows); next++ {
		if r := &s.rows[next]; !r.moved && !r.OfDevice {
			began = began || r.phase != straggler.Checkpoint
			s.take(r, nil)
		}
	}
	if began {
		s.done()
	}
}

// launches turns host communication into launches if the device runs the collectives: the host does not wait
// in them.
func (s *reader) launches() {
	for i := range s.step.Spans {
		if sp := &s.step.Spans[i]; sp.Lane != straggler.Device && sp.Phase == straggler.Communication && sp.End >= sp.Start {
			if sp.Meeting != straggler.Collective {
				sp.Phase = straggler.Other
			}
			sp.Meeting, sp.Lane = straggler.Launch, 0
		}
	}
}

// profiled composes a step of a profile from the host's waits for data, the device time of forward and
// backward, the last collective (in which ranks wait), and the other phases.
func (s *reader) profiled() {
	took := make(map[straggler.Phase]int64)
	var last straggler.Span
	for _, sp := range s.step.Spans {
		switch {
		case sp.End < sp.Start:
			return // the process was lost in this step
		case sp.Phase == straggler.Communication:
			if sp.End > last.End {
				last = sp
			}
		case sp.Lane == 0:
			took[sp.Phase] += sp.End - sp.Start
		}
	}
	for p, d := range s.worked {
		took[p] = d
	}
	// The device starts the step after it finished the previous one.
	s.step.Start = max(s.step.Start, s.busy)
	at := s.step.Start
	s.step.Spans = s.step.Spans[:0]
	add := func(sp straggler.Span, d int64) {
		if d > 0 {
			sp.Start, sp.End, sp.Lane = at, at+d, 0
			s.step.Spans = append(s.step.Spans, sp)
			at += d
		}
	}
	for _, p := range [...]straggler.Phase{straggler.Input, straggler.Transfer, straggler.Forward, straggler.Backward} {
		add(straggler.Span{Phase: p}, took[p])
	}
	add(last, last.End-last.Start)
	for _, p := range [...]straggler.Phase{straggler.Optimizer, straggler.Checkpoint} {
		add(straggler.Span{Phase: p}, took[p])
	}
	s.step.End = at
	s.busy = at
}
