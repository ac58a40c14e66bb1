// Package simjob simulates distributed training jobs with faults, for tests and
// benchmarks: the records of each rank, and the true gain of a repair, which it
// determines by running the job again without the fault and with the same
// random numbers.
//
// A [Job] has many layouts and faults, and its truth is known. An [Attempt] is
// one of several attempts of a plain data-parallel job, a [Large] has any
// number of ranks, and [WriteProfile] writes a profile of PyTorch.
//
// A Job is a set of lanes (the host of a rank, its device, its collectives, its
// loader), each with a program of four kinds of operations: work, meet, signal
// and await. Everything else (sends, overlapped buckets, queues, hosts that run
// ahead of their devices) consists of these.
package simjob

import (
	"fmt"
	"slices"
	"strings"
)

type kind uint8

const (
	work   kind = iota // takes dur
	meet               // all n lanes that reach key leave dur after the last one
	signal             // records when the lane reached it, plus dur
	await              // waits for the signal
	begin              // a span opens; key is the launch that started it
	end                // the innermost span closes
)

// key identifies a meeting or a signal of a job.
type key struct {
	what    string
	a, b, c int
}

type op struct {
	kind  kind
	dur   int64 // microseconds
	key   key
	n     int  // of meet: number of lanes
	idle  bool // of await: the time is a wait for another rank
	stuck bool // it never ends
	span  *mark
}

// mark has the arguments of a recorded span.
type mark struct {
	cat, name string
	step      int // -1 if the record has none
	args      []arg
}

type arg struct {
	name  string
	value any // int or string
}

// Span is a recorded span of a rank. Times are microseconds since the start of
// the job, on the clock of the job; End is Open if it never ended.
type Span struct {
	ID, Parent int // Parent is -1 for a root
	Cat, Name  string
	Start, End int64
	Launch     int64 // time of the host's launch of device work, else -1
	Thread     int64
	Step, Deep int
	args       []arg
}

// Open is the end of a span that never ended.
const Open int64 = -1

// lane runs a program in order.
type lane struct {
	rank    int
	thread  int64
	ops     []op
	at      int   // the next operation
	now     int64 // the current time of the lane
	until   int64 // arrival of the last lane at the latest meeting
	arrived bool  // at the next meeting
	open    []int // indices in spans
	spans   []Span
	waited  int64
	ends    []int64 // of the steps
}

type meeting struct {
	came int
	last int64
}

type given struct{ at, until int64 }

type engine struct {
	lanes    []*lane
	meetings map[key]*meeting
	signals  map[key]given
}

// run runs until no lane can continue. The lanes wait only for each other, so
// the order has no effect.
func (e *engine) run() {
	e.meetings, e.signals = map[key]*meeting{}, map[key]given{}
	for moved := true; moved; {
		moved = false
		for _, l := range e.lanes {
			for l.at < len(l.ops) && e.step(l) {
				l.at++
				moved = true
			}
		}
	}
}

// step runs the next operation of a lane, if possible.
func (e *engine) step(l *lane) bool {
	o := &l.ops[l.at]
	if o.stuck && o.kind != meet {
		return false
	}
	switch o.kind {
	case work:
		l.now += o.dur
	case meet:
		m := e.meetings[o.key]
		if m == nil {
			m = &meeting{}
			e.meetings[o.key] = m
		}
		if !l.arrived {
			m.came, m.last, l.arrived = m.came+1, max(m.last, l.now), true
		}
		if m.came < o.n || o.stuck {
			return false
		}
		l.waited += m.last - l.now
		l.until, l.now, l.arrived = m.last, m.last+o.dur, false
	case signal:
		g := given{at: l.now + o.dur}
		if l.thread == commTID {
			g.until = l.until
		}
		e.signals[o.key] = g
	case await:
		g, ok := e.signals[o.key]
		if !ok {
			return false
		}
		if o.idle && g.at > l.now {
			until := g.at
			if g.until > 0 { // a collective on another lane: the rest is transfer
				until = min(until, g.until)
			}
			l.waited += max(until-l.now, 0)
		}
		l.now = max(l.now, g.at)
	case begin:
		s := Span{Parent: -1, Cat: o.span.cat, Name: o.span.name, Start: l.now, End: Open, Launch: -1, Thread: l.thread, Step: o.span.step, Deep: len(l.open) + 1, args: o.span.args}
		if len(l.open) > 0 {
			s.Parent = l.open[len(l.open)-1]
		}
		if g, ok := e.signals[o.key]; ok {
			s.Launch = g.at
		} else if len(l.open) > 0 {
			s.Launch = l.spans[s.Parent].Launch // as its parent
		}
		l.open = append(l.open, len(l.spans))
		l.spans = append(l.spans, s)
	case end:
		if len(l.open) == 0 {
			l.ends = append(l.ends, l.now) // of a step, which may have no span
			break
		}
		l.spans[l.open[len(l.open)-1]].End = l.now
		l.open = l.open[:len(l.open)-1]
	}
	return true
}

// stuckLanes returns the waiting lanes and what they wait for.
func (e *engine) stuckLanes() (out []string) {
	for _, l := range e.lanes {
		if l.at < len(l.ops) {
			out = append(out, fmt.Sprintf("rank %d thread %d at %v", l.rank, l.thread, l.ops[l.at].key))
		}
	}
	return out
}

func (e *engine) mustFinish() {
	if out := e.stuckLanes(); len(out) > 0 {
		panic("trainsim: deadlock: " + strings.Join(out[:min(len(out), 8)], "; "))
	}
}

// counted returns how long the lane waited, if that is time of its rank:
// overlapped collectives wait beside the training, and their join is on the
// training thread.
func (l *lane) counted() int64 {
	if l.thread == commTID {
		return 0
	}
	return l.waited
}

// cut ends the job at a time: open spans stay open, and later ones are not
// recorded.
func (l *lane) cut(at int64) {
	for i := range l.spans {
		if l.spans[i].End > at {
			l.spans[i].End = Open
		}
	}
	n := 0
	moved := make([]int, len(l.spans))
	for i, s := range l.spans {
		moved[i] = n
		if s.Start < at {
			if s.Parent >= 0 {
				s.Parent = moved[s.Parent]
			}
			l.spans[n] = s
			n++
		}
	}
	l.spans = l.spans[:n]
	l.ends = slices.DeleteFunc(l.ends, func(t int64) bool { return t > at })
}
