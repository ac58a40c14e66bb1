package fromjob

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// row is a span that is part of a step: see [account.Row].
type row struct {
	Parent                     uint64
	Start, End, Thread, Number int64
	Op                         uint16
	phase                      straggler.Phase
	OfDevice, Long             bool
	moved                      bool // belongs to another step than the one it began in
}

// reader converts the spans of one process into steps.
type reader struct {
	*Steps
	proc   *job.Process
	train  job.Training
	its    []job.Step // not handed on
	rows   []row
	spans  *account.Spans
	ops    []op // by number of [account.Op]
	pauses [straggler.PauseKinds]straggler.Pause
	cutOff int64 // unfinished spans that end from here on were ended by the end of the process
	any    bool  // a finished step was handed on
	handed int   // number of steps handed on
	last   int64 // number of the last step handed on
	step   straggler.Step
	bare   *straggler.State          // the steps without spans
	parts  bool                      // the work of steps is recorded in parts: those without spans are not recorded in full
	busy   int64                     // end of the device work of the previous steps
	worked map[straggler.Phase]int64 // device time in the step, from a profiler

	evaluated map[int64]int64 // by thread: the end of its evaluations so far

	// The parents of spans, once spans of a thread are on several lanes: of the latest, and of those before them.
	up, upBefore map[uint64]uint64
}

// op is a kind of communication.
type op struct {
	meeting   straggler.Meeting
	group     string // "" if it contains all ranks of the job
	groupSize int
	peer      int // the other rank of a message plus 1, 0 if unknown
	words     string
}

// Steps holds the steps of one process. It is complete once its sink is closed.
type Steps struct {
	state   *straggler.State // as rank 0, because the rank may become known later
	spill   *extsort.Blocks
	devices bool // device work is recorded
	updates Updates
}

// NewSteps returns empty Steps. Packed steps are written to spill; if it is nil they stay in memory.
func NewSteps(spill *extsort.Blocks) *Steps {
	return &Steps{state: straggler.New(&straggler.Options{Spill: spill}), spill: spill}
}

// phases maps the class of a span to a phase, [straggler.Other] if the class has none.
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

// opsOf returns the kinds of communication of a process. The size of a group is the largest one recorded.
func opsOf(p *job.Process, list []account.Op) []op {
	sizes := make(map[string]int)
	for i := range list {
		sizes[list[i].Group] = max(sizes[list[i].Group], list[i].Size)
	}
	out := make([]op, 1, 1+len(list))
	for i := range list {
		o := op{meeting: meetingOf(list[i].Kind), words: list[i].Kind, peer: list[i].Peer}
		if name := list[i].Group; name != "" {
			if recorded, _ := meet.Recorded(name); o.words != "" {
				o.words += " of group " + recorded
			}
			if n := sizes[name]; o.meeting == straggler.Collective && (n == 0 || n != p.WorldSize) {
				o.group, o.groupSize = name, n
			}
		}
		out = append(out, o)
	}
	return out
}

// meetingOf returns the kind of a communication span. The default is a collective.
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

// A span that lasts for seconds is recorded once while it is open and again when it ends. If an exception or
// the end of the process ended it, its end is ignored: the process was still in it.

// endsWithin bounds the time between a failure and the end of the process, in which its spans unwind.
const endsWithin = int64(time.Second)

// failed reports whether a process ended with an error of its own, not of a child process.
func failed(p *job.Process) bool {
	return slices.ContainsFunc(p.Failures, func(f job.Failure) bool { return f.Child == 0 })
}

// place identifies a host within an attempt: clocks are only comparable within it.
type place struct {
	attempt int
	host    string
}

// interrupts returns when a person first interrupted the ranks of each place, or a signal first asked them to end.
// Waits after that time, while processes save or unwind, are ignored.
func interrupts(j *job.Job) map[place]int64 {
	ends := make(map[place]int64)
	first := func(p *job.Process, at int64) {
		k := place{p.Attempt, p.Host}
		if before, ok := ends[k]; !ok || at < before {
			ends[k] = at
		}
	}
	for _, p := range j.Processes {
		for i := range p.Failures {
			if f := &p.Failures[i]; f.Interrupt() {
				first(p, f.Time)
			}
		}
		if at, ok := j.AskedToEnd(p); ok {
			first(p, at)
		}
	}
	return ends
}

// cutOff returns the time from which spans count as ended by the end of their process.
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

// If the host only launches work, its spans do not describe the step: the device runs the work later, and the
// host waits for the device. So for a process that recorded device work with launch times (see
// [job.Span.Launch]), a step is the work of the device, plus the work of the host while the device was idle.

// assignDevice assigns device work to the iteration in which the host launched it. Work launched outside of
// all iterations is left out.
func (s *reader) assignDevice(its []job.Step, out map[int][]int) {
	for i := range s.rows {
		r := &s.rows[i]
		if !r.OfDevice || r.moved {
			continue
		}
		to, at := slices.BinarySearchFunc(its, r.Number, func(it job.Step, launch int64) int { return cmp.Compare(it.Start, launch) })
		if !at {
			to--
		}
		if to >= 0 && to == len(its)-1 && r.Number >= its[to].End {
			continue // belongs to a later step
		}
		if r.moved = true; to >= 0 && r.Number < its[to].End {
			out[to] = append(out[to], i)
		}
	}
}

// pauseKinds maps the class of a span to a kind of pause, [straggler.PauseKinds] if it is not a pause.
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

// pause takes a span that may be a pause.
func (s *reader) pause(r *account.Row) {
	kind := pauseKinds[r.Class]
	if kind == straggler.PauseKinds || r.Background || r.Outside || r.OfDevice {
		return
	}
	switch p := &s.pauses[kind]; {
	case r.End == job.NoEnd:
		p.Since = max(p.Since, r.Start)
	case kind != straggler.PauseStartUp: // each part of the start-up occurs once, so the duration of another part is no reference
		p.Longest = max(p.Longest, r.End-r.Start)
	}
}

// tableOf converts a map to an array, because it is looked up for every span.
func tableOf[T any](other T, of map[vocab.Class]T) (out [vocab.Classes]T) {
	for c := range out {
		out[c] = other
	}
	for c, v := range of {
		out[c] = v
	}
	return out
}
