package pytorch

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// NodeKind is the kind of a node in an operator graph: a word of torch.fx. Those
// without a constant here, such as placeholder, run nothing.
type NodeKind string

// The kinds that run something.
const (
	CallFunction NodeKind = "call_function"
	CallModule   NodeKind = "call_module"
	CallMethod   NodeKind = "call_method"
)

// Ops records the operators of a graph that Go code runs itself, in the words
// that a torch.compile import uses. The zero value records nothing; Ops may be
// used from several goroutines when its sink may. Do not change it in between.
type Ops struct {
	// Sink takes the events; nil turns recording off.
	Sink Sink
	// PID is the process, zero for the sink's own. TID is the lane, zero for that
	// of the process itself; events that overlap without nesting belong on lanes
	// of their own.
	PID, TID int64
	// Level is the level around the operators, zero for none. An operator that
	// starts inside another one of the same Ops is one level deeper.
	Level int
	// GradEnabled reports whether gradients are recorded and becomes grad_enabled.
	GradEnabled bool
	// Epoch, Step, ImageIndex and ImageSize (in bytes) are written when positive,
	// as epoch, step, image_idx and image_size.
	Epoch, Step, ImageIndex, ImageSize int64
	// Name names the graph, as the argument name, empty for none.
	Name string
	// Disabled turns recording off without taking the sink away.
	Disabled bool
	// CompileID names the compiled region, empty for none.
	CompileID string
	// Now is the clock, time.Now when nil.
	Now func() time.Time

	open atomic.Int64 // operators that run
}

// Node is an operator whose name is made once. The zero Node records nothing.
type Node struct {
	ops  *Ops
	name string
}

// Node names an operator as category dynamo does: function.<target> for a function
// such as convolution.default, <path>.<Type>_<path with underscores> for a module,
// method.<target with underscores> for a method, <kind>.<target> for anything else.
// moduleType is used for modules alone; without one the name is the path.
func (o *Ops) Node(kind NodeKind, target, moduleType string) Node {
	if o == nil || o.Sink == nil {
		return Node{}
	}
	return Node{ops: o, name: nodeName(kind, target, moduleType)}
}

func nodeName(kind NodeKind, target, moduleType string) string {
	flat := strings.ReplaceAll(target, ".", "_")
	switch kind {
	case CallFunction:
		return "function." + target
	case CallModule:
		if moduleType == "" {
			return target
		}
		return target + "." + moduleType + "_" + flat
	case CallMethod:
		return "method." + flat
	}
	return string(kind) + "." + target
}

// Scope is one run of an operator. The zero Scope does nothing.
type Scope struct {
	node  Node
	start time.Time
	level int
}

// Start begins a run.
func (n Node) Start() Scope {
	if n.ops == nil || n.ops.Disabled {
		return Scope{}
	}
	return Scope{node: n, start: n.ops.now(), level: n.ops.Level + int(n.ops.open.Add(1))}
}

func (o *Ops) now() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

// opEvent keeps an event and its arguments in one reusable piece.
type opEvent struct {
	ev   dftracer.Event
	args [8]dftracer.Arg
}

var opEvents = sync.Pool{New: func() any { return new(opEvent) }}

// End writes the event of the run.
func (s Scope) End() {
	o := s.node.ops
	if o == nil {
		return
	}
	o.open.Add(-1)
	// The monotonic clock tells the length, so that it is never negative.
	start := s.start.UnixNano()
	end := start + int64(o.now().Sub(s.start))
	e := opEvents.Get().(*opEvent)
	args := append(e.args[:0], dftracer.Bool("grad_enabled", o.GradEnabled))
	for _, a := range [...]struct {
		key   string
		value int64
	}{{"epoch", o.Epoch}, {"step", o.Step}, {"image_idx", o.ImageIndex}, {"image_size", o.ImageSize}} {
		if a.value > 0 {
			args = append(args, dftracer.Int(a.key, a.value))
		}
	}
	if o.Name != "" {
		args = append(args, dftracer.String("name", o.Name))
	}
	if o.CompileID != "" {
		args = append(args, dftracer.String("compile_id", o.CompileID))
	}
	tid := o.TID
	if tid == 0 {
		if tid = o.PID; tid == 0 {
			tid = int64(os.Getpid())
		}
	}
	ts := start / 1000
	e.ev = dftracer.Event{
		Phase: dftracer.PhaseComplete, Name: s.node.name, Cat: "dynamo", PID: o.PID, TID: tid, Level: s.level, TS: ts, Dur: max(end/1000-ts, 0), Parent: dftracer.NoParent,
		Args: args,
	}
	o.Sink.Write(&e.ev)
	e.ev = dftracer.Event{}
	opEvents.Put(e)
}
