package torch

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
)

// inference writes the phases without an annotation: forward and backward.
type inference struct {
	*out
	spans *spanWriter
	// Device time launched before the ends of inferred events, requested in order
	// of time.
	ofForward, ofStarts, ofEnds launchSum

	operators, modules, backward bool // what the forward is inferred from; whether there is a backward

	// The forward of the current lane.
	fwd     envelope
	open    bool
	nextEnv int
}

func newInference(o *out, spans *spanWriter) *inference {
	p := o.p
	forward := !p.opts.NoInference && !p.rules.seen["compute/forward"]
	of := launchSum{from: p.rows.launches}
	return &inference{
		out: o, spans: spans, ofForward: of, ofStarts: of, ofEnds: of,
		operators: forward && !p.moduleFrames, modules: forward && p.moduleFrames, backward: !p.opts.NoInference && !p.rules.seen["compute/backward"],
	}
}

func (e *inference) err() error { return cmp.Or(e.ofForward.err(), e.ofStarts.err(), e.ofEnds.err()) }

// moduleForward writes the outermost call of a module as a forward, in traces
// with Python frames and without an annotation of the forward.
func (e *inference) moduleForward(s *sweep, f *frame) {
	if !e.modules || !f.isModule() || f.engine {
		return
	}
	for i := range s.stack[:len(s.stack)-1] {
		if s.stack[i].isModule() {
			return
		}
	}
	e.nested("compute", "forward", f)
	e.add(`,"inferred":1`)
	e.str(`,"rule":`, moduleRule)
	e.str(`,"module":`, strings.TrimPrefix(f.name, "nn.Module: "))
	e.deviceTime(f.launched)
	e.p.report.guess("compute.forward: " + moduleRule)
	e.common(f.step, true)
}

const moduleRule = "outermost python frame of a module"

// forwards extends the inferred forward of the current lane: the operators that
// autograd numbered, up to the next backward. A trace without a backward has no
// inferred forward.
func (e *inference) forwards(f *frame) {
	if !e.operators || len(e.p.envelopes) == 0 || f.engine || f.backward || f.r.kind != kineto.KindCPUOp || f.r.c == 0 {
		return
	}
	envs := e.p.envelopes
	if e.nextEnv < len(envs) && envs[e.nextEnv].start <= f.r.start {
		// A backward began since the last operator: the forward ends there.
		e.closeForward(envs[e.nextEnv].start)
		after, _ := slices.BinarySearchFunc(envs[e.nextEnv:], f.r.start+1, func(v envelope, t int64) int { return cmp.Compare(v.start, t) })
		e.nextEnv += after
	}
	if e.nextEnv > 0 && f.r.start < envs[e.nextEnv-1].end {
		return
	}
	if e.nextEnv >= len(envs) {
		return // no backward follows
	}
	if e.open && e.fwd.step != f.step {
		e.closeForward(f.r.start)
	}
	if !e.open {
		e.fwd, e.open = envelope{start: f.r.start, end: f.r.end, lane: f.r.lane, step: f.step}, true
	}
	e.fwd.end = max(e.fwd.end, f.r.end)
}

func (e *inference) closeForward(limit int64) {
	if !e.open {
		return
	}
	e.open = false
	v := envelope{start: e.fwd.start, end: min(e.fwd.end, max(limit, e.fwd.start)), lane: e.fwd.lane, step: e.fwd.step}
	before := e.ofForward.launchedBefore(v.start)
	e.inferred("forward", v, e.ofForward.launchedBefore(v.end).minus(before), "operators with a sequence number before a backward")
}

// endLane closes the forward of a lane.
func (e *inference) endLane() {
	if e.open && e.nextEnv < len(e.p.envelopes) {
		e.closeForward(e.p.envelopes[e.nextEnv].start)
	}
	e.open, e.nextEnv = false, 0
}

// backwards writes the envelopes of the autograd engine.
func (e *inference) backwards() {
	if !e.backward {
		return
	}
	envs := e.p.envelopes
	before := make([]launched, len(envs))
	byEnd := make([]int, len(envs))
	for i := range envs {
		before[i], byEnd[i] = e.ofStarts.launchedBefore(envs[i].start), i
	}
	// Threads of several devices run the backward concurrently.
	slices.SortFunc(byEnd, func(a, b int) int { return cmp.Compare(envs[a].end, envs[b].end) })
	for _, i := range byEnd {
		before[i] = e.ofEnds.launchedBefore(envs[i].end).minus(before[i])
	}
	for i, v := range envs {
		e.inferred("backward", v, before[i], "envelope of the autograd engine, pauses under a millisecond bridged")
	}
}

// inferred writes an interval of forward or backward; device is the device time
// launched in it.
func (e *inference) inferred(name string, v envelope, device launched, rule string) {
	e.p.report.guess("compute." + name + ": " + rule)
	// A separate lane, because an envelope may overlap annotations.
	tid := inferredLanes + 2*int64(v.lane)
	if name == "backward" {
		tid++
	}
	e.nameLane(tid, name+", inferred")
	e.begin("compute", name, tid, v.start, v.end)
	e.add(`,"inferred":1`)
	e.str(`,"rule":`, rule)
	e.deviceTime(device)
	e.spans.phase(e.p, "compute."+name, &v, device.time)
	e.common(v.step, true)
}
