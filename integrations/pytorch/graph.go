package pytorch

import (
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// NodeKind is the kind of a node in an operator graph, after torch.fx.
type NodeKind uint8

// The kinds. Placeholders, attributes and outputs run nothing.
const (
	NodeOther NodeKind = iota
	CallFunction
	CallModule
	CallMethod
	Placeholder
	GetAttr
	Output
)

var nodeKindNames = [...]string{"other", "call_function", "call_module", "call_method", "placeholder", "get_attr", "output"}

// String returns the word of torch.fx.
func (k NodeKind) String() string {
	if int(k) < len(nodeKindNames) {
		return nodeKindNames[k]
	}
	return nodeKindNames[0]
}

// ParseNodeKind reads the word of torch.fx; an unknown word is NodeOther.
func ParseNodeKind(word string) NodeKind {
	for i, name := range nodeKindNames {
		if name == word {
			return NodeKind(i)
		}
	}
	return NodeOther
}

// NodeName returns the name that category dynamo gives to a node:
// function.<target> for a function such as convolution.default,
// <path>.<Type>_<path with underscores> for a module, method.<target with
// underscores> for a method, <kind>.<target> for anything else. moduleType is
// used for modules alone; without one the name is the path.
func NodeName(kind NodeKind, target, moduleType string) string {
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
	return kind.String() + "." + target
}

// Ops records the operators of a graph that Go code runs itself, in the words
// that a torch.compile import uses. The zero value records nothing; Ops may be
// used from several goroutines when its sink may. Do not change it in between.
type Ops struct {
	// Sink takes the events; nil turns recording off.
	Sink Sink
	// PID is the process, zero for the sink's own. TID is the lane; events that
	// overlap without nesting belong on lanes of their own.
	PID, TID int64
	// GradEnabled tells whether gradients are recorded and becomes grad_enabled.
	GradEnabled bool
	// Epoch and Step are written when positive.
	Epoch, Step int64
	// CompileID names the compiled region, empty for none.
	CompileID string
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Node is an operator whose name is made once. The zero Node records nothing.
type Node struct {
	ops  *Ops
	name string
}

// Node names an operator.
func (o *Ops) Node(kind NodeKind, target, moduleType string) Node {
	if o == nil || o.Sink == nil {
		return Node{}
	}
	return Node{ops: o, name: NodeName(kind, target, moduleType)}
}

// Name returns the name of the node's events, empty for the zero Node.
func (n Node) Name() string { return n.name }

// Scope is one run of an operator. The zero Scope does nothing.
type Scope struct {
	node  Node
	start time.Time
}

// Start begins a run.
func (n Node) Start() Scope {
	if n.ops == nil {
		return Scope{}
	}
	return Scope{node: n, start: n.ops.now()}
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
	args [4]dftracer.Arg
}

var opEvents = sync.Pool{New: func() any { return new(opEvent) }}

// End writes the event of the run.
func (s Scope) End() {
	o := s.node.ops
	if o == nil {
		return
	}
	// The monotonic clock gives the length, so that it is never negative.
	start := s.start.UnixNano()
	end := start + int64(o.now().Sub(s.start))
	e := opEvents.Get().(*opEvent)
	args := append(e.args[:0], dftracer.Bool("grad_enabled", o.GradEnabled))
	if o.Epoch > 0 {
		args = append(args, dftracer.Int("epoch", o.Epoch))
	}
	if o.Step > 0 {
		args = append(args, dftracer.Int("step", o.Step))
	}
	if o.CompileID != "" {
		args = append(args, dftracer.String("compile_id", o.CompileID))
	}
	ts := start / 1000
	e.ev = dftracer.Event{
		Phase: dftracer.PhaseComplete, Name: s.node.name, Cat: "dynamo", PID: o.PID, TID: o.TID, TS: ts, Dur: max(end/1000-ts, 0), Parent: dftracer.NoParent,
		Args: args,
	}
	o.Sink.Write(&e.ev)
	e.ev = dftracer.Event{}
	opEvents.Put(e)
}
