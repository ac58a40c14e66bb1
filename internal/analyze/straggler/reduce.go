package straggler

import (
	"cmp"
	"math"

	"github.com/trainspan/trainspan/internal/platform/stats"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

const (
	// crossing is how far inside a span a collective must begin, and how far beyond its end it must last, to
	// be moved to another lane. It exceeds the resolution of clocks in files.
	crossing = 2_000 // ns
	// A host that waits for a lane continues shortly after it ends; shorter gaps are not waits.
	joinLeast  = 150 // us
	joinWithin = 300 // us
	joinPart   = 20  // or within this fraction of the gap
	// A host that is far ahead of its device is blocked until the device catches up. Gaps of less than a
	// sixth of a step are host work.
	heldPart = 6
)

// reducer converts the spans of a step into a program. It reuses its buffers.
type reducer struct {
	all     []Span
	runs    stats.Runs[Span]
	stack   nest.Stack[int]
	host    []cut
	device  []cut
	out     program
	entered []int
}

// cut is an interval in which a span is the innermost one.
type cut struct {
	from, to int64
	span     int // index in reducer.all
}

// reduce returns the program of a step, which is valid until the next call, and its tail. It returns false if
// the step never ended.
func (rd *reducer) reduce(st *Step, rs *rankState) (*program, tail, bool) {
	t := tail{step: st.Number, done: st.End != 0 || st.Start == 0, entered: rd.entered[:0]}
	rd.all = append(rd.all[:0], st.Spans...)
	rd.runs.Sort(rd.all, compareSpans)
	findLanes(rd.all)
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	if st.Start != 0 {
		from = st.Start
	}
	if st.End != 0 {
		to = st.End
	}
	kept := 0
	for i := range rd.all {
		sp := &rd.all[i]
		if sp.Phase == Communication && (sp.Meeting == Launch || sp.Meeting == Collective && sp.Lane != Device) {
			g := int(rs.group(sp.Group, sp.GroupSize))
			for len(t.entered) <= g {
				t.entered = append(t.entered, 0)
			}
			t.entered[g]++
		}
		if sp.Phase == Communication && (sp.Meeting == Launch || sp.Meeting == Collective && sp.Lane == Device) {
			rs.countLaunch(sp.Group, sp.GroupSize, sp.Lane == Device)
		}
		switch sp.Lane {
		case 0:
			t.began++
		case Device:
			t.device++
		}
		if sp.End < sp.Start {
			t.open = append(t.open, openSpan{phase: sp.Phase, meeting: sp.Meeting, group: sp.Group, lane: sp.Lane, start: sp.Start, op: sp.Op})
			t.done = false
			continue
		}
		t.lastEnd = max(t.lastEnd, sp.End)
		if sp.Lane == 0 {
			from, to = min(from, sp.Start), max(to, sp.End)
		}
		if sp.Lane == 0 || sp.Lane == Device || sp.Phase == Communication {
			if kept < i {
				rd.all[kept] = *sp
			}
			kept++
		}
	}
	rd.all, rd.entered = rd.all[:kept], t.entered
	blocking(rd.all)
	if from > to {
		return nil, t, false
	}
	rd.host = rd.flatten(rd.host[:0], func(sp *Span) bool { return sp.Lane == 0 })
	rd.device = rd.flatten(rd.device[:0], func(sp *Span) bool { return sp.Lane == Device })
	p := &rd.out
	*p = program{step: st.Number, start: micro(from), end: micro(to), tokens: st.Tokens, host: p.host[:0], lanes: p.lanes[:0]}
	rd.addOtherLanes(p, rs)
	at := from
	for _, c := range rd.host {
		p.work(at, c.from, Host)
		at = max(at, c.to)
		p.add(&rd.all[c.span], c, rs)
	}
	p.work(at, to, Host)
	return p, t, t.done
}

// compareSpans sorts by start, then the outer span first. A message with no duration precedes other
// communication with the same start.
func compareSpans(a, b *Span) int {
	if a.Start != b.Start {
		return cmp.Compare(a.Start, b.Start)
	}
	if a.Phase == Communication && b.Phase == Communication && (a.End == a.Start) != (b.End == b.Start) {
		if a.End == a.Start {
			return -1
		}
		return 1
	}
	return cmp.Or(nest.KeyOf(a.Start, a.End, 0).Compare(nest.KeyOf(b.Start, b.End, 0)), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Group, b.Group))
}

// findLanes moves collectives of the training thread to another lane if they partly overlap a backward span.
// Files without thread ids put all spans on one thread, and spans of one thread must nest.
func findLanes(all []Span) {
	for i := range all {
		work := &all[i]
		if work.Lane != 0 || work.Phase != Backward {
			continue
		}
		crosses := func(c *Span) bool {
			return c.Phase == Communication && c.Lane == 0 && c.Meeting == Collective && c.End > c.Start
		}
		out := false
		for j := i + 1; j < len(all) && all[j].Start < work.End-crossing; j++ {
			out = out || crosses(&all[j]) && all[j].End > work.End+crossing
		}
		for j := i + 1; out && j < len(all) && all[j].Start < work.End-crossing; j++ {
			if crosses(&all[j]) {
				all[j].Lane = 1
			}
		}
	}
}

// blocking moves the collectives of communication lanes to the training thread if some begin within forward:
// there each layer waits for its parameters. If the training thread has joins within forward, these are the
// waits.
func blocking(all []Span) {
	waits := false
	for i := range all {
		f := &all[i]
		if f.Lane != 0 || f.Phase != Forward {
			continue
		}
		for k := i + 1; k < len(all) && all[k].Start < f.End-crossing; k++ {
			c := &all[k]
			if c.Phase == Communication && c.Meeting == Join && c.Lane == 0 {
				return
			}
			waits = waits || c.Phase == Communication && c.Meeting == Collective && c.Lane != 0 && c.Lane != Device && c.Start > f.Start+crossing
		}
	}
	for i := range all {
		if c := &all[i]; waits && c.Phase == Communication && c.Lane != Device {
			c.Lane = 0
		}
	}
}

// flatten cuts the spans of a lane into intervals with exactly one innermost span. A collective hides
// everything inside it.
func (rd *reducer) flatten(out []cut, of func(*Span) bool) []cut {
	rd.stack = rd.stack[:0]
	var busy int64 = math.MinInt64 // end of the current collective
	emit := func(i int, from, to int64) {
		if from < to {
			out = append(out, cut{from, to, i})
		}
	}
	var at int64
	for i := range rd.all {
		sp := &rd.all[i]
		if !of(sp) || sp.End <= sp.Start && sp.Phase != Communication {
			continue
		}
		if sp.Start < busy { // device clocks disagree by microseconds
			if sp.End <= busy {
				continue
			}
			sp.Start = busy
		}
		rd.stack.Pieces(at, sp.Start, emit)
		at = sp.Start
		if sp.Phase == Communication && sp.Meeting != Launch {
			// The enclosing span is split around the collective.
			out = append(out, cut{sp.Start, sp.End, i})
			at, busy = sp.End, sp.End
			continue
		}
		rd.stack.Push(sp.End, i)
	}
	rd.stack.Pieces(at, math.MaxInt64, emit)
	return out
}

// work appends time of a phase to the host.
func (p *program) work(from, to int64, phase Phase) {
	d := micro(to) - micro(from)
	if d <= 0 {
		return
	}
	if n := len(p.host); n > 0 && p.host[n-1].kind == work && p.host[n-1].phase == phase {
		p.host[n-1].dur += d
		return
	}
	p.host = append(p.host, piece{kind: work, phase: phase, dur: d})
}

// add appends an interval in which sp is the innermost span.
func (p *program) add(sp *Span, c cut, rs *rankState) {
	switch {
	case sp.Phase == Communication && sp.Meeting != Launch:
		kind := collective + pieceKind(sp.Meeting)
		p.host = append(p.host, piece{kind: kind, group: rs.groupOf(sp), dur: micro(c.to) - micro(c.from)})
	case sp.Phase >= phases:
		p.work(c.from, c.to, Host)
	default:
		p.work(c.from, c.to, sp.Phase)
	}
}

// addOtherLanes appends the operations of other lanes, the collectives first and then device work, each in
// start order.
func (rd *reducer) addOtherLanes(p *program, rs *rankState) {
	for i := range rd.all {
		sp := &rd.all[i]
		if sp.Lane == 0 || sp.Lane == Device || sp.Meeting != Collective {
			continue
		}
		start := micro(sp.Start) - p.start
		p.lanes = append(p.lanes, laneOp{
			piece: piece{kind: collective, group: rs.group(sp.Group, sp.GroupSize), dur: micro(sp.End) - micro(sp.Start)}, lane: 1, launch: start, start: start,
		})
	}
	for _, c := range rd.device {
		sp := &rd.all[c.span]
		l := laneOp{lane: Device, start: micro(c.from) - p.start, launch: micro(sp.Launch) - p.start}
		l.piece = piece{phase: sp.Phase, dur: micro(c.to) - micro(c.from)}
		if sp.Phase == Communication {
			l.piece.kind, l.piece.phase, l.piece.group = collective, Host, rs.group(sp.Group, sp.GroupSize)
		}
		p.lanes = append(p.lanes, l)
	}
}
