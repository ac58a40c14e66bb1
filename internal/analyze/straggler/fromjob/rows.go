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

// row is the part of a span that is kept.
type row struct {
	id         uint64
	start, end int64 // end is job.NoEnd if the span has not ended
	number     int64 // recorded step number of a collective, or job.Unknown
	amount     int64 // for a device span: the launch time; for other spans: their device time without collectives
	parent     uint64
	thread     int64
	group      uint16 // index in sink.groups
	phase      straggler.Phase
	meeting    straggler.Meeting
	device     bool // device work
	long       bool // its start was recorded before it ended
	moved      bool // belongs to another step than the one it began in
	evaluation bool // evaluation or testing: what it contains is no work of a step
}

// sink converts the spans of one process into steps.
type sink struct {
	*Steps
	proc   *job.Process
	train  job.Training
	rows   []row
	role   string
	loader job.Loader
	pauses pauses
	cutOff int64 // unfinished spans that end from here on were ended by the end of the process
	long   longSpans
	groups []string // names of the groups of collectives; index 0 means none
	sizes  []int
	index  map[string]uint16
	any    bool  // a finished step was handed on
	until  int64 // steps that ended before this time were handed on
	handed int   // number of steps handed on
	last   int64 // number of the last step handed on
	step   straggler.Step
	busy   int64                     // end of the device work of the previous steps
	worked map[straggler.Phase]int64 // device time in the step, from a profiler

	evaluated map[int64]int64 // by thread: the end of its evaluations so far
}

// Steps holds the steps of one process. It is complete once its sink is closed.
type Steps struct {
	state   *straggler.State // as rank 0, because the rank may become known later
	spill   *extsort.Blocks
	late    int64
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

// maxLong bounds the number of remembered open spans.
const maxLong = 1 << 16

type longSpans struct {
	ops map[uint64]string // by span id: the operation of a collective
}

// span remembers sp if it is open, and reports whether its start was recorded before.
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

// failed reports whether a process ended with an error of its own, not of a child process.
func failed(p *job.Process) bool {
	return slices.ContainsFunc(p.Failures, func(f job.Failure) bool { return f.Child == 0 })
}

// place identifies a host within an attempt: clocks are only comparable within it.
type place struct {
	attempt int
	host    string
}

// interrupts returns when a person first interrupted the ranks of each place. Waits after that time, while
// processes unwind, are ignored.
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

// launched returns the row of a device span.
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

// assignDevice assigns device work to the iteration in which the host launched it. Work launched outside of
// all iterations is left out.
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
			continue // belongs to a later step
		}
		if r.moved = true; to >= 0 && r.amount < its[to].End {
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

// maxPauses bounds the number of open pauses; real programs nest less deeply.
const maxPauses = 64

// pauses tracks the pauses of a process. An open span is recorded first, and again when it ends.
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
			return // each part of the start-up occurs once, so the duration of another part is no reference
		}
		p.longest[kind] = max(p.longest[kind], sp.End-sp.Start)
	}
}

// all returns the longest and the open pause of each kind.
func (p *pauses) all() (out [straggler.PauseKinds]straggler.Pause) {
	for k, d := range p.longest {
		out[k].Longest = d
	}
	for _, o := range p.open {
		out[o.kind].Since = max(out[o.kind].Since, o.start)
	}
	return out
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
