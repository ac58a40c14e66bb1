package fromrun

import (
	"math"

	"github.com/trainspan/trainspan/internal/replay"
	"github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/internal/vocab"
)

// row is what is kept of a span.
type row struct {
	id         uint64
	start, end int64 // end is run.NoEnd without one
	number     int64 // of the step that a collective belongs to
	amount     int64 // when the device was asked; device time of another span, without collectives
	parent     uint64
	thread     int64
	group      uint16 // index of the name
	phase      replay.Phase
	meeting    replay.Meeting
	device     bool // what a device did
	long       bool // that it began was recorded before it ended
	moved      bool // handed on with another step than the one it began in
}

// sink makes steps of the spans of one process.
type sink struct {
	*Steps
	proc   *run.Process
	rows   []row
	role   string
	pauses pauses
	cutOff int64 // what lasted until here was ended by the end of the process
	long   longSpans
	groups []string // of collectives, as recorded; 0 is none
	sizes  []int
	index  map[string]uint16
	any    bool  // there was one
	until  int64 // steps that ended before were handed on
	handed int   // how many
	last   int64 // the number of the last one
	step   replay.Step
	busy   int64                  // until when it worked for the steps before
	worked map[replay.Phase]int64 // how long a device worked in the step, as a profiler saw it
}

// Steps are those of one process, once its sink is closed.
type Steps struct {
	state   *replay.State // as those of rank 0: its number is known last
	late    int64
	devices bool // it is recorded what the device did
}

// phases are what a rank does in spans of a class, [replay.Other] where that says nothing.
var phases = tableOf(replay.Other, map[vocab.Class]replay.Phase{
	vocab.ClassInputWait:      replay.Input,
	vocab.ClassInputWork:      replay.Input,
	vocab.ClassForward:        replay.Forward,
	vocab.ClassBackward:       replay.Backward,
	vocab.ClassOptimizer:      replay.Optimizer,
	vocab.ClassCheckpointSave: replay.Checkpoint,
	vocab.ClassCollective:     replay.Communication,
	vocab.ClassTransfer:       replay.Transfer,
})

func (s *sink) group(sp *run.Span) uint16 {
	name := sp.Group
	if name == "" || meetingOf(sp.Kind) != replay.Collective {
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
func meetingOf(kind string) replay.Meeting {
	switch kind {
	case "send":
		return replay.Send
	case "receive":
		return replay.Receive
	case "wait":
		return replay.Join
	}
	return replay.Collective
}
