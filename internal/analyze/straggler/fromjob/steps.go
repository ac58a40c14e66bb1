package fromjob

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/stats"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

const (
	// maxRows is the number of spans of a process that are buffered before they are sorted. Files with fewer
	// spans may be in any order. It corresponds to about 10,000 steps and 9 MB.
	maxRows = 125_000
	// keepRows is the number of spans that stay buffered when the earlier ones are handed on. Spans are
	// written when they end, so a file is almost sorted.
	keepRows = maxRows / 4
)

// OpenSink returns a sink that collects the steps of a process, for [job.Set.Read], and its steps, for
// [Attempts]. Packed steps are written to spill; if it is nil they stay in memory.
func OpenSink(p *job.Process, spill *extsort.Blocks) (job.Sink, *Steps) {
	s := newSink(p, spill)
	return s, s.Steps
}

func newSink(p *job.Process, spill *extsort.Blocks) *sink {
	return &sink{Steps: NewSteps(spill), proc: p, groups: []string{""}, sizes: []int{0}, index: make(map[string]uint16), cutOff: math.MaxInt64, worked: make(map[straggler.Phase]int64), until: math.MinInt64, last: -1}
}

// Span adds a span.
func (s *sink) Span(sp *job.Span) {
	if s.loader = max(s.loader, sp.Loader); sp.Role != "" {
		s.role = max(s.role, sp.Role) // does not depend on the order of spans
	}
	s.pauses.span(sp)
	phase, ok := phaseOf(sp)
	if sp.Launch == 0 && (!ok || sp.Background && phase != straggler.Communication || sp.Async) {
		return // a collective that is only launched is not a meeting
	}
	if sp.Start < s.until {
		s.late++
		return
	}
	if sp.Launch != 0 {
		s.add(s.launched(sp))
		return
	}
	r := row{
		id: sp.ID, start: sp.Start, end: sp.End, number: sp.Step, amount: max(sp.Device-sp.DeviceComm, 0), parent: sp.Parent, thread: sp.Thread, phase: phase,
	}
	if phase == straggler.Communication {
		r.group, r.meeting = s.group(sp), meetingOf(sp.Kind)
	}
	r.long = s.long.span(sp)
	s.add(r)
}

// rowMemory recycles row buffers of processes that have been read.
var rowMemory sync.Pool

func (s *sink) add(r row) {
	if s.rows == nil {
		if of, ok := rowMemory.Get().(*[]row); ok {
			s.rows = (*of)[:0]
		}
	}
	s.rows = append(s.rows, r)
	if len(s.rows) >= maxRows {
		s.handOn(keepRows, false)
	}
}

// Event does nothing: steps do not depend on events.
func (s *sink) Event(*job.Event) {}

// Close hands on the remaining spans.
func (s *sink) Close() error {
	s.cutOff = cutOff(s.proc)
	s.handOn(0, true)
	left := s.rows
	rowMemory.Put(&left)
	s.rows = nil
	s.state.SetRank(0, straggler.Rank{Role: s.role, Sampled: s.proc.Facts[job.FactSampled] != "", Pauses: s.pauses.all(), Loader: straggler.Loader(s.loader)})
	s.state.Pack()
	return nil
}

// groupName returns the name of a group, or "" if the group contains all ranks of the job.
func (s *sink) groupName(i uint16) string {
	if n := s.sizes[i]; n > 0 && n == s.proc.WorldSize {
		return ""
	}
	return s.groups[i]
}

// phaseOf returns the phase of a span; ok is false if the span is not part of a step.
func phaseOf(sp *job.Span) (straggler.Phase, bool) {
	p := phases[sp.Class]
	return p, p != straggler.Other && sp.Name != spans.CheckpointSaveFinalization // the finalization of a save overlaps training
}

// handOn converts all spans but the latest keep into steps. At the end of the process end is true.
func (s *sink) handOn(keep int, end bool) {
	s.sort()
	cut := len(s.rows) - keep
	if cut <= 0 && !end {
		return
	}
	its := s.proc.Steps.All()
	s.train = s.proc.Steps.Training()
	its = its[min(s.handed, len(its)):]
	if !end {
		// Only complete steps that end before the first span that stays.
		limit := s.rows[cut].start
		n := 0
		for n < len(its) && its[n].End <= limit {
			n++
		}
		if n == 0 {
			s.rows = slices.Delete(s.rows, 0, cut) // without steps the buffered spans belong to none
			return
		}
		its = its[:n]
	}
	before := s.handed
	s.handed += len(its)
	others := s.assign(its)
	next := 0
	for i := range its {
		next = s.emit(&its[i], s.proc.Steps.Shown(before+i), next, others[i])
	}
	if end {
		s.tail(next)
		return
	}
	s.until = its[len(its)-1].End
	s.rows = slices.Delete(s.rows, 0, next)
}

// sort sorts the spans and removes duplicates, and open records of spans whose end was recorded.
func (s *sink) sort() {
	stats.SortRuns(s.rows, func(a, b *row) int {
		if c := cmp.Compare(a.start, b.start); c != 0 { // fast path: millions of rows are compared
			return c
		}
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.end, b.end))
	})
	kept := s.rows[:min(len(s.rows), 1)]
	for i := 1; i < len(s.rows); i++ {
		if a, b := &kept[len(kept)-1], &s.rows[i]; a.start != b.start || a.id != b.id || a.phase != b.phase {
			kept = append(kept, *b)
		}
	}
	s.rows = kept
}

// assign returns, by index of the iteration, the collectives that record another iteration than the one they
// began in: the host may already run the next iteration while the device works. Collectives of iterations
// that are not in its are left out.
func (s *sink) assign(its []job.Step) map[int][]int {
	out := make(map[int][]int)
	if s.devices {
		s.assignDevice(its, out)
	}
	of := make(map[int64]int, len(its))
	for i := range its {
		if i > 0 && its[i].Raw <= its[i-1].Raw {
			return out // step numbers restart, so they do not identify an iteration
		}
		of[its[i].Raw] = i
	}
	at := 0
	for i := range s.rows {
		r := &s.rows[i]
		for at < len(its) && its[at].End <= r.start {
			at++
		}
		if r.phase != straggler.Communication || r.number == job.Unknown || at < len(its) && its[at].Raw == r.number {
			continue
		}
		to, ok := of[r.number]
		if !ok && at == len(its) {
			continue // belongs to a later step
		}
		if r.moved = true; ok {
			out[to] = append(out[to], i)
		}
	}
	return out
}

// emit hands on one step with the spans from index next that begin before its end, and with others. It
// returns the index of the first span not handed on. If the program repeats a step, the step gets the next
// number, because ranks are compared in order.
func (s *sink) emit(st *job.Step, shown int64, next int, others []int) int {
	s.last = max(shown, s.last+1)
	s.open(s.last, st.Tokens)
	if s.step.Start = st.Start; st.End != job.NoEnd {
		s.step.End = st.End
	}
	for ; next < len(s.rows) && s.rows[next].start < st.End; next++ {
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

func (s *sink) open(number, tokens int64) {
	clear(s.worked)
	s.step = straggler.Step{Number: number, Tokens: tokens, Spans: s.step.Spans[:0]}
}

func (s *sink) done() {
	if s.devices {
		s.launches()
	}
	if len(s.worked) > 0 {
		s.profiled()
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

func (s *sink) take(r *row, it *job.Step) {
	sp := straggler.Span{Phase: r.phase, Meeting: r.meeting, Start: r.start, End: r.end, Group: s.groupName(r.group), GroupSize: s.sizes[r.group]}
	if sp.Group == "" {
		sp.GroupSize = 0
	}
	if r.end == job.NoEnd || r.long && r.end >= s.cutOff {
		sp.End, sp.Op = math.MinInt64, s.long.ops[r.id]
	}
	if r.device {
		sp.Lane, sp.Launch = straggler.Device, r.amount
	} else if r.amount > 0 && (r.phase == straggler.Forward || r.phase == straggler.Backward) {
		s.worked[r.phase] += r.amount
	}
	if !r.device && it != nil && it.ID != 0 && r.parent != it.ID && s.train.Beside(r.thread, passOf(r.phase)) {
		sp.Lane = 1
	}
	s.step.Spans = append(s.step.Spans, sp)
}

// tail hands on the spans after the last iteration of a process that did not end properly: the step in which
// it, or the job, was lost.
func (s *sink) tail(next int) {
	if s.proc.End != job.NoEnd && !failed(s.proc) || !s.any {
		return
	}
	s.open(s.last+1, 0)
	if next < len(s.rows) {
		s.step.Start = s.rows[next].start
	}
	began := false
	for ; next < len(s.rows); next++ {
		if r := &s.rows[next]; !r.moved && !r.device {
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
func (s *sink) launches() {
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
func (s *sink) profiled() {
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
