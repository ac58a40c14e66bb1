package fromjob

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// row is what is kept of a span.
type row struct {
	id         uint64
	start, end int64 // end is job.NoEnd without one
	number     int64 // of the step that a collective belongs to
	amount     int64 // when the device was asked; device time of another span, without collectives
	parent     uint64
	thread     int64
	group      uint16 // index of the name
	phase      straggler.Phase
	meeting    straggler.Meeting
	device     bool // what a device did
	long       bool // that it began was recorded before it ended
	moved      bool // handed on with another step than the one it began in
}

// sink makes steps of the spans of one process.
type sink struct {
	*Steps
	proc   *job.Process
	train  job.Training
	rows   []row
	role   string
	loader job.Loader
	pauses pauses
	cutOff int64 // what lasted until here was ended by the end of the process
	long   longSpans
	groups []string // of collectives, as recorded; 0 for none
	sizes  []int
	index  map[string]uint16
	any    bool  // there was one
	until  int64 // steps that ended before were handed on
	handed int   // how many
	last   int64 // the number of the last one
	step   straggler.Step
	busy   int64                     // until when it worked for the steps before
	worked map[straggler.Phase]int64 // how long a device worked in the step, as a profiler saw it
}

// Steps are those of one process, once its sink is closed.
type Steps struct {
	state   *straggler.State // as those of rank 0: its number is known last
	spill   *extsort.Blocks
	late    int64
	devices bool // it is recorded what the device did
	updates Updates
}

// NewSteps returns the steps of a process that has none. Those that memory should not hold go to
// spill, which may be nil.
func NewSteps(spill *extsort.Blocks) *Steps {
	return &Steps{state: straggler.New(&straggler.Options{Spill: spill}), spill: spill}
}

// phases are what a rank does in spans of a class, [straggler.Other] where that says nothing.
var phases = tableOf(straggler.Other, map[vocab.Class]straggler.Phase{
	vocab.ClassInputWait:      straggler.Input,
	vocab.ClassInputWork:      straggler.Input,
	vocab.ClassForward:        straggler.Forward,
	vocab.ClassBackward:       straggler.Backward,
	vocab.ClassOptimizer:      straggler.Optimizer,
	vocab.ClassCheckpointSave: straggler.Checkpoint,
	vocab.ClassCollective:     straggler.Communication,
	vocab.ClassTransfer:       straggler.Transfer,
})

func (s *sink) group(sp *job.Span) uint16 {
	name := sp.Group
	if name == "" || meetingOf(sp.Kind) != straggler.Collective {
		return 0
	}
	i, ok := s.index[name]
	if !ok && len(s.groups) < math.MaxUint16 {
		i = uint16(len(s.groups))
		s.groups, s.sizes = append(s.groups, name), append(s.sizes, sp.GroupSize)
		s.index[name] = i
	}
	return i
}

// meetingOf returns what a kind of communication is: most are collectives.
func meetingOf(kind string) straggler.Meeting {
	switch kind {
	case "send":
		return straggler.Send
	case "receive":
		return straggler.Receive
	case "wait":
		return straggler.Join
	}
	return straggler.Collective
}

// A span is told of when it has lasted for seconds, and again when it has ended. Of one
// that an exception or the end of the process has ended, that is no end: it is where the
// process stood.

// endsWithin is how long the end of a process takes: what it unwinds.
const endsWithin = int64(time.Second)

// maxLong bounds the spans of which it is remembered that they began.
const maxLong = 1 << 16

type longSpans struct {
	ops map[uint64]string // which collective they are, by their ids
}

// span reports whether it was told of before it ended.
func (l *longSpans) span(sp *job.Span) bool {
	_, told := l.ops[sp.ID]
	if sp.End == job.NoEnd && len(l.ops) < maxLong {
		if l.ops == nil {
			l.ops = make(map[uint64]string)
		}
		l.ops[sp.ID] = sp.Kind
		if sp.Kind != "" && sp.Group != "" {
			l.ops[sp.ID] += " of group " + sp.Group
		}
	}
	return told
}

// failed reports whether a process ended with an error of its own.
func failed(p *job.Process) bool {
	return slices.ContainsFunc(p.Failures, func(f job.Failure) bool { return f.Child == 0 })
}

// place is a host in an attempt: the clocks of others may be days apart.
type place struct {
	attempt int
	host    string
}

// interrupts is when a person ended the ranks of a place: what they waited after it,
// while the first of them unwound, nobody kept them waiting.
func interrupts(j *job.Job) map[place]int64 {
	ends := make(map[place]int64)
	for _, p := range j.Processes {
		for i := range p.Failures {
			if f := &p.Failures[i]; f.Interrupt() {
				at := place{p.Attempt, p.Host}
				if before, ok := ends[at]; !ok || f.Time < before {
					ends[at] = f.Time
				}
			}
		}
	}
	return ends
}

// cutOff is from when on spans were ended by the end of their process.
func cutOff(p *job.Process) int64 {
	if p.End != job.NoEnd && !failed(p) {
		return math.MaxInt64
	}
	at := p.LastSeen
	for i := range p.Failures {
		if f := &p.Failures[i]; f.Child == 0 {
			at = min(at, f.Time)
		}
	}
	return at - endsWithin
}

// What the host does is no step where it only launches work: the device comes to
// it later, and what the host waits for then is the device. So a step of a process
// that recorded when its device did what it was asked for (see [job.Span.Launch])
// is what the device did, and what the host did while the device had nothing to do.

// launched returns the row of a span of the device.
func (s *sink) launched(sp *job.Span) row {
	s.devices = true
	r := row{id: sp.ID, start: sp.Start, end: sp.End, number: job.Unknown, amount: sp.Launch, phase: phases[sp.For], device: true}
	switch r.phase {
	case straggler.Other:
		r.phase = straggler.Host
	case straggler.Communication:
		r.group = s.group(sp)
	}
	return r
}

// assignDevice puts what the device did to the iteration in which the host asked
// for it. What was asked for in none of them is left out.
func (s *sink) assignDevice(its []job.Step, out map[int][]int) {
	for i := range s.rows {
		r := &s.rows[i]
		if !r.device || r.moved {
			continue
		}
		to, at := slices.BinarySearchFunc(its, r.amount, func(it job.Step, launch int64) int { return cmp.Compare(it.Start, launch) })
		if !at {
			to--
		}
		if to >= 0 && to == len(its)-1 && r.amount >= its[to].End {
			continue // of a step to come
		}
		if r.moved = true; to >= 0 && r.amount < its[to].End {
			out[to] = append(out[to], i)
		}
	}
}

// pauseKinds has [straggler.PauseKinds] for classes that are none.
var pauseKinds = tableOf(straggler.PauseKinds, map[vocab.Class]straggler.PauseKind{
	vocab.ClassCheckpointSave: straggler.PauseSave,
	vocab.ClassCheckpointLoad: straggler.PauseLoad,
	vocab.ClassCompile:        straggler.PauseCompile,
	vocab.ClassEvaluation:     straggler.PauseEvaluation,
	vocab.ClassTesting:        straggler.PauseEvaluation,
	vocab.ClassInit:           straggler.PauseStartUp,
	vocab.ClassCommInit:       straggler.PauseStartUp,
	vocab.ClassStartUp:        straggler.PauseStartUp,
})

// maxPauses bounds the open ones: none nests so deep.
const maxPauses = 64

// pauses are those of a process. A span that is open is told of first, and again when
// it has ended.
type pauses struct {
	longest [straggler.PauseKinds]int64
	open    map[uint64]openPause
}

type openPause struct {
	kind  straggler.PauseKind
	start int64
}

func (p *pauses) span(sp *job.Span) {
	kind := pauseKinds[sp.Class]
	switch {
	case kind == straggler.PauseKinds || sp.Background || sp.Name == spans.CheckpointSaveFinalization:
	case sp.End == job.NoEnd:
		if p.open == nil {
			p.open = make(map[uint64]openPause)
		}
		if len(p.open) < maxPauses {
			p.open[sp.ID] = openPause{kind, sp.Start}
		}
	default:
		delete(p.open, sp.ID)
		if kind == straggler.PauseStartUp {
			return // each part of it comes once: what another took says nothing
		}
		p.longest[kind] = max(p.longest[kind], sp.End-sp.Start)
	}
}

// all returns what is known of them.
func (p *pauses) all() (out [straggler.PauseKinds]straggler.Pause) {
	for k, d := range p.longest {
		out[k].Longest = d
	}
	for _, o := range p.open {
		out[o.kind].Since = max(out[o.kind].Since, o.start)
	}
	return out
}

// tableOf makes a table of a map: it is asked of every span.
func tableOf[T any](other T, of map[vocab.Class]T) (out [vocab.Classes]T) {
	for c := range out {
		out[c] = other
	}
	for c, v := range of {
		out[c] = v
	}
	return out
}
