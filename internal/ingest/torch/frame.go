package torch

import (
	"cmp"
	"strings"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// container is the kind of compiled code whose direct children are nodes of a
// graph.
type container uint8

const (
	notContainer container = iota
	inRegion               // Torch-Compiled Region
	inForward              // CompiledFunction
	inBackward             // CompiledFunctionBackward
	inGraph                // ## Call CompiledFxGraph key ##
)

// frame is an open row of the lane being swept.
type frame struct {
	r     row
	name  string
	ord   int64
	level int
	step  int32
	rule  int // 1 + index of the AI rule, or 0
	id    uint64

	// The compiled code that the frame is, or is inside.
	own, parent   container // the kind of the row, and of the code around it
	region, graph uint32    // names of compile id and cache key
	fwdRegion     uint32    // of the forward pass of this backward pass
	backward      bool
	compiling     bool // under a dynamo_timed row
	node          int64
	used          map[string]int // graph nodes consumed, for containers

	engine     bool // under the autograd engine
	checkpoint bool // under activation checkpointing, in the backward pass
	recompute  bool // an operator of the forward pass, run again in the backward pass
	phase      bool // it owns what is launched inside it; known while writing
	tie        *tie
	comm       *collective

	clamped  int64
	childDur int64
	// Device time launched from here, without and with everything below.
	devSelf, devTotal int64
	// Device time that any thread launched during a phase; until its end, the time
	// launched before it.
	launched launched

	// Bytes it allocated on the host and on devices, without and with everything
	// below.
	hostMemSelf, hostMem, devMemSelf, devMem int64

	spanID uint64
}

// tie connects a row to the other half of a pair of forward and backward
// operators.
type tie struct {
	seq      int64
	id       uint64 // of the event of the forward operator
	backward bool
	name     string // of the forward operator
	ord      int64  // of the forward operator
	step     int32
}

// isStep returns the number of the profiler's step if the row is one.
func (f *frame) isStep() (int64, bool) {
	if f.r.kind != kineto.KindUserAnnotation {
		return 0, false
	}
	return vocab.ProfilerStepNumber(f.name)
}

// isPhase reports whether a row is a phase, which owns what all threads launch
// in it.
func (f *frame) isPhase() bool {
	if f.rule > 0 || f.isModule() {
		return true
	}
	_, step := f.isStep()
	return step
}

// isModule reports whether a row is the Python frame of a module's call.
func (f *frame) isModule() bool {
	return f.r.kind == kineto.KindPython && strings.HasPrefix(f.name, "nn.Module: ")
}

// isMarker reports whether the frame only wraps a graph node.
func (f *frame) isMarker() bool {
	return f.r.kind == kineto.KindCPUOp && strings.HasPrefix(f.name, "## ")
}

// isBackend reports whether a row belongs to a backend that runs collectives on
// the host.
func (f *frame) isBackend() bool { return hostBackendRow(f.name) }

// isHostCollective reports whether a row in up is a collective: the row of a
// backend that works on the host, or, in a trace without any such row and
// without collectives on a device or their launches, the dispatcher's.
func (f *frame) isHostCollective(up *frame, p *process) bool {
	if f.comm == nil || f.comm.op == "" || f.r.kind != kineto.KindCPUOp && f.r.kind != kineto.KindUserAnnotation {
		return false
	}
	if up != nil && up.comm == nil {
		up = nil
	}
	if p.hasGloo {
		return f.isBackend() && (up == nil || !up.isBackend())
	}
	return !p.hasComm && !p.launchesComm && up == nil // otherwise the enclosing row is the collective
}

// inBackward reports whether a rule's event is a forward inside the backward
// pass, to which its time belongs.
func (f *frame) inBackward(rule *Rule) bool {
	return f.engine && rule.Cat == "compute" && rule.Name == "forward"
}

// spanLevel returns the level of the span of a row.
func (f *frame) spanLevel() int {
	if _, step := f.isStep(); step {
		return levelStep
	}
	switch {
	case f.rule > 0:
		return levelPhase
	case f.r.kind == kineto.KindUserAnnotation, f.own != notContainer && !f.isMarker():
		return levelAnnotation
	case f.r.kind == kineto.KindCPUOp:
		return levelOp
	}
	return levelKernel
}

// compiledBy returns the compilation of a row; for a backward row, which has
// none, that of its forward.
func (f *frame) compiledBy() uint32 {
	if f.region == 0 && f.backward {
		return f.fwdRegion
	}
	return f.region
}

// note notes in the first sweep what kind of code each region runs.
func (f *frame) note(g *regions) {
	if f.isMarker() && f.own != inGraph {
		return
	}
	switch {
	case f.own == inGraph:
		g.entryFor(f.region, f.backward).graphCalls = true
	case f.own != notContainer:
		g.entryFor(f.region, f.backward)
	case f.parent != notContainer:
		rr := g.entryFor(f.region, f.backward)
		switch {
		case f.isTriton():
			rr.triton = true
		case f.isGraphLaunch():
			rr.cudaGraph = true
		case f.opName() != "":
			rr.hasOps = true
		}
	}
}

// isTriton reports whether a row is a fused kernel.
func (f *frame) isTriton() bool {
	if f.r.kind != kineto.KindCPUOp {
		return false
	}
	if strings.HasPrefix(f.name, "triton_") {
		return true
	}
	backend, ok := kineto.Args(f.r.extra).Text("kernel_backend")
	return ok && backend == "triton"
}

// isGraphLaunch reports whether a row launches a captured graph.
func (f *frame) isGraphLaunch() bool {
	switch f.name {
	case "cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch":
		return f.r.kind == kineto.KindRuntime || f.r.kind == kineto.KindDriver
	}
	return false
}

// opName returns "mul" or "mul.Tensor" for a dispatcher operator such as
// aten::mul, and "" for other rows.
func (f *frame) opName() string {
	if f.r.kind != kineto.KindCPUOp || f.isMarker() {
		return ""
	}
	ns, op, ok := strings.Cut(f.name, "::")
	if !ok || op == "" || strings.ContainsAny(ns, " :<(") || strings.ContainsAny(op, " :<(") || ns == "autograd" || ns == "torch" || ns == "c10d" {
		return ""
	}
	return op
}

// frameJoin adds to a frame of the second sweep what the first one found: the
// device time launched from it, and its forward or backward operator.
type frameJoin struct {
	names   *names
	onHost  *extsort.Iter[share]
	pending *share
	ties    *extsort.Iter[row]
	nextTie *row
	ids     idRuns
	// Device time launched before the ends of phases.
	launches launchSum
}

func newFrameJoin(p *process, nextID func() uint64) *frameJoin {
	j := &frameJoin{names: p.names, onHost: p.rows.onHost.Iter(), ties: p.rows.ties.Iter(), launches: launchSum{from: p.rows.launches}}
	for range p.tied {
		j.ids.add(nextID())
	}
	j.pending, j.nextTie = j.onHost.Next(), j.ties.Next()
	return j
}

func (j *frameJoin) push(f *frame) {
	j.tieUp(f)
	for j.pending != nil && j.pending.of <= f.ord {
		if j.pending.of == f.ord {
			f.devSelf += j.pending.time
		}
		j.pending = j.onHost.Next()
	}
	f.devTotal = f.devSelf
	if f.phase = f.isPhase(); f.phase {
		f.launched = j.launches.launchedBefore(f.r.start)
	}
}

func (j *frameJoin) pop(f *frame) {
	if f.phase {
		f.launched = j.launches.launchedBefore(f.r.end).minus(f.launched)
		f.devTotal = max(f.devTotal, f.launched.time)
	}
}

func (j *frameJoin) err() error { return cmp.Or(j.onHost.Err(), j.ties.Err()) }

// tieUp adds a frame's half of a pair.
func (j *frameJoin) tieUp(f *frame) {
	for j.nextTie != nil && j.nextTie.ord < f.ord {
		j.nextTie = j.ties.Next()
	}
	r := j.nextTie
	if r == nil || r.ord != f.ord {
		return
	}
	f.tie = &tie{seq: r.c - 1, id: j.ids.idOf(r.corr), backward: r.flags&flagBackward != 0, ord: r.launch, step: r.step}
	if f.tie.backward && r.region != 0 {
		f.fwdRegion = r.region
	}
	if !f.tie.backward {
		f.id = f.tie.id
	} else if f.tie.name = r.text; r.op != 0 {
		f.tie.name = j.names.text[r.op]
	}
	f.tie.name = ref(f.tie.name)
	j.nextTie = j.ties.Next()
}

// classifyRecompute finds operators of the forward pass that the backward pass
// runs again, as activation checkpointing does: inside the autograd engine,
// autograd records them again with new sequence numbers. Differentiating a
// backward pass (create_graph) looks the same, so it is a guess unless the
// checkpoint is visible: by its own backward node, or with Python frames by its
// source file.
func (f *frame) classifyRecompute(up *frame) {
	if up == nil {
		return
	}
	f.checkpoint = up.checkpoint
	if f.engine && !f.checkpoint {
		f.checkpoint = f.r.kind == kineto.KindCPUOp && f.name == "CheckpointFunctionBackward" ||
			f.r.kind == kineto.KindPython && strings.Contains(f.name, "torch/utils/checkpoint.py(")
	}
	if f.r.kind != kineto.KindCPUOp || !f.engine {
		f.recompute = up.recompute
		return
	}
	// What the engine runs for a node has the thread of its forward.
	f.recompute = f.r.launch == 0 && (up.recompute || f.r.c != 0) && !strings.HasPrefix(f.name, "autograd::engine::")
}

// Other tools write an event as a begin (B) and an end (E) on one thread
// instead of one row with a duration. The end closes the innermost begin.

// Bounds of the begins without an end, over all threads.
const (
	maxOpenBegins = 1 << 16
	maxOpenBytes  = 64 << 20
)

// beginEnd pairs begins and ends.
type beginEnd struct {
	open  map[laneKey][]*kineto.Event
	n     int
	bytes int
	// without counts events whose other half is missing or had no room.
	without int64
}

// sizeOf returns the memory that an event takes while it waits.
func sizeOf(ev *kineto.Event) int {
	return 256 + len(ev.Cat) + len(ev.Flow) + len(ev.Args) + len(ev.RawName()) + len(ev.PID.Text) + len(ev.TID.Text)
}

// pair handles an event of phase B or E and returns the whole event at its end,
// otherwise nil.
func (be *beginEnd) pair(ev *kineto.Event) *kineto.Event {
	if !ev.HasTS {
		return nil
	}
	key := threadOf(ev.PID, ev.TID)
	if ev.Phase == 'B' {
		if be.n >= maxOpenBegins || be.bytes+sizeOf(ev) > maxOpenBytes {
			be.without++
			return nil
		}
		if be.open == nil {
			be.open = map[laneKey][]*kineto.Event{}
		}
		be.open[key] = append(be.open[key], ev.Clone())
		be.n++
		be.bytes += sizeOf(ev)
		return nil
	}
	stack := be.open[key]
	if len(stack) == 0 {
		be.without++
		return nil
	}
	whole := stack[len(stack)-1]
	be.open[key] = stack[:len(stack)-1]
	be.n--
	be.bytes -= sizeOf(whole)
	if len(be.open[key]) == 0 {
		delete(be.open, key)
	}
	whole.Phase, whole.Dur = 'X', max(ev.TS-whole.TS, 0)
	return whole
}
