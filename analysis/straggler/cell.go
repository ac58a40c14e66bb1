package straggler

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/nest"
)

// barrier is where in a step all ranks leave together.
type barrier uint8

const (
	atCollective barrier = iota // the end of the last collective
	atBackward                  // the end of the last backward: it contains the wait
	atOptimizer                 // the end of the optimizer: the host waits for the device there
	barriers
)

var barrierNames = [barriers]string{"collective", "backward", "optimizer"}

// groupTime is the time in the collectives of one sub-group.
type groupTime struct {
	id  uint16 // 0: none
	dur int64
}

// cell is one step of one rank, reduced to what every choice of the barrier
// needs. Durations are nanoseconds.
type cell struct {
	step   int64
	split  int64           // own clock: the end of the last collective, else of backward, else of the optimizer
	before [phases]int64   // own work in the step before the split, by phase; [Host] is not used
	after  [phases]int64   // and after it
	shift  [barriers]int64 // release of each barrier minus split
	has    [barriers]bool  // which barriers the step has
	wait   [barriers]int64 // duration of the waiting span
	comm   [2]int64        // time covered by collectives before and after the split
	world  int64           // time in collectives of all ranks
	groups [2]groupTime    // numbered by rank
	tokens int64
	device [2]int64 // device time of forward and backward
	// Of collectives of other lanes: how much of forward and backward they
	// cover, and when the first one began, minus split.
	covered [2]int64
	first   int64
}

// leaf is time in which a span of a phase is the innermost.
type leaf struct {
	nest.Interval
	phase Phase
}

// reducer turns the spans of a step into a cell. Its buffers are reused.
type reducer struct {
	all    []Span
	spans  []Span
	stack  nest.Stack[Phase]
	leaves []leaf
	comms  []nest.Interval // of all lanes
	beside []nest.Interval // of other lanes
}

// tail is what is known of the last step of a rank.
type tail struct {
	step     int64
	done     bool  // the step has a barrier
	started  int   // spans that were started before the wait
	waiting  bool  // a span that never ended waits for the others
	open     Phase // the phase of the innermost span that never ended
	openSpan bool
	lastEnd  int64 // own clock: the end of the last span that ended, or the start of the open one
}

func (rd *reducer) reduce(st *Step, group func(string) uint16) (cell, tail) {
	c := cell{step: st.Number, tokens: st.Tokens}
	t := tail{step: st.Number}
	rd.spans = rd.spans[:0]
	rd.comms, rd.beside = rd.comms[:0], rd.beside[:0]
	var lastWorld, lastAny, lastBackward, lastOptimizer Span
	rd.all = append(rd.all[:0], st.Spans...)
	slices.SortFunc(rd.all, compareSpans)
	findLanes(rd.all)
	for _, sp := range rd.all {
		t.lastEnd = max(t.lastEnd, sp.Start, sp.End)
		if sp.End < sp.Start {
			t.openSpan, t.open = true, sp.Phase
			t.waiting = t.waiting || sp.Phase == Communication
			if sp.Phase != Communication {
				t.started++
			}
			continue
		}
		if sp.Phase == Communication {
			rd.comms = append(rd.comms, nest.Interval{Start: sp.Start, End: sp.End})
			if sp.Lane != 0 {
				rd.beside = append(rd.beside, nest.Interval{Start: sp.Start, End: sp.End})
			}
			d := sp.End - sp.Start
			if sp.Group == "" {
				c.world += d
				if sp.End > lastWorld.End {
					lastWorld = sp
				}
			} else {
				c.addGroup(group(sp.Group), d)
			}
			if sp.End > lastAny.End {
				lastAny = sp
			}
			continue
		}
		if sp.Lane != 0 {
			continue
		}
		t.started++
		switch sp.Phase {
		case Forward:
			c.device[0] += int64(sp.Device)
		case Backward:
			c.device[1] += int64(sp.Device)
			if sp.End > lastBackward.End {
				lastBackward = sp
			}
		case Optimizer:
			if sp.End > lastOptimizer.End {
				lastOptimizer = sp
			}
		}
		rd.spans = append(rd.spans, sp)
	}
	if lastWorld.End == 0 {
		lastWorld = lastAny
	}
	rd.flatten()
	rd.comms, rd.beside = nest.Union(rd.comms[:0], rd.comms, nil), nest.Union(rd.beside[:0], rd.beside, nil)

	ends := [barriers]Span{lastWorld, lastBackward, lastOptimizer}
	for b := barriers; b > 0; b-- {
		if ends[b-1].End != 0 {
			c.split = ends[b-1].End
		}
	}
	for b, sp := range ends {
		if sp.End != 0 {
			c.has[b] = true
			c.shift[b] = sp.End - c.split
			c.wait[b] = sp.End - sp.Start
		}
	}
	t.done = c.has[atCollective] || c.has[atOptimizer]
	if t.openSpan {
		c.has = [barriers]bool{} // it is not known what of the step the open span would have held
	}
	rd.account(&c)
	return c, t
}

func (c *cell) addGroup(id uint16, d int64) {
	for i := range c.groups {
		if g := &c.groups[i]; g.id == id || g.id == 0 {
			g.id = id
			g.dur += d
			return
		}
	}
}

// release gives the moment of a barrier on the rank's own clock.
func (c *cell) release(b barrier) int64 { return c.split + c.shift[b] }

// flatten cuts the spans of the training thread into pieces in which exactly
// one of them is the innermost.
func (rd *reducer) flatten() {
	rd.stack, rd.leaves = rd.stack[:0], rd.leaves[:0]
	piece := func(p Phase, from, to int64) {
		rd.leaves = append(rd.leaves, leaf{nest.Interval{Start: from, End: to}, p})
	}
	var at int64
	for _, sp := range rd.spans {
		rd.stack.Pieces(at, sp.Start, piece)
		rd.stack.Push(sp.End, sp.Phase)
		at = sp.Start
	}
	rd.stack.Pieces(at, math.MaxInt64, piece)
}

// compareSpans sorts by start, the outer span first.
func compareSpans(a, b Span) int {
	return cmp.Or(nest.KeyOf(a.Start, a.End, 0).Compare(nest.KeyOf(b.Start, b.End, 0)), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Group, b.Group))
}

// inside gives how much of [from, to) the intervals cover.
func inside(ivs []nest.Interval, from, to int64) (covered int64) {
	i, _ := slices.BinarySearchFunc(ivs, from, func(iv nest.Interval, at int64) int { return cmp.Compare(iv.End, at) })
	for ; i < len(ivs) && ivs[i].Start < to; i++ {
		covered += min(ivs[i].End, to) - max(ivs[i].Start, from)
	}
	return covered
}

// account adds the pieces that no collective covers to the cell's phases.
func (rd *reducer) account(c *cell) {
	next := 0
	for _, lf := range rd.leaves {
		for next > 0 && rd.comms[next-1].End > lf.Start {
			next--
		}
		for next < len(rd.comms) && rd.comms[next].End <= lf.Start {
			next++
		}
		at := lf.Start
		for i := next; i < len(rd.comms) && rd.comms[i].Start < lf.End; i++ {
			c.addOwn(lf.phase, at, rd.comms[i].Start)
			at = max(at, rd.comms[i].End)
		}
		c.addOwn(lf.phase, at, lf.End)
	}
	if len(rd.beside) > 0 {
		c.first = rd.beside[0].Start - c.split
		for _, lf := range rd.leaves {
			if lf.phase == Forward || lf.phase == Backward {
				c.covered[lf.phase-Forward] += inside(rd.beside, lf.Start, lf.End)
			}
		}
	}
	for _, cm := range rd.comms {
		if cut := min(max(c.split, cm.Start), cm.End); c.split != 0 {
			c.comm[0] += cut - cm.Start
			c.comm[1] += cm.End - cut
		}
	}
}

func (c *cell) addOwn(p Phase, from, to int64) {
	if p >= phases || from >= to {
		return
	}
	cut := min(max(c.split, from), to)
	c.before[p] += cut - from
	c.after[p] += to - cut
}
