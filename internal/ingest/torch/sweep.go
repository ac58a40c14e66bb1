package torch

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
)

// visitor visits a sweep. push and pop come in nesting order, lane by lane;
// point comes for instants.
type visitor interface {
	push(s *sweep, f *frame) error
	pop(s *sweep, f *frame) error
	point(s *sweep, r *row) error
	endLane(s *sweep, lane uint32) error
}

// maxDepth is how deep rows nest. Deeper rows become siblings.
const maxDepth = 1024

// sweep rebuilds the call stacks of every lane from rows in nesting order. It
// holds one stack at a time.
type sweep struct {
	p     *process
	v     visitor
	stack []frame
	ord   int64
	step  int32 // of the last row
	deep  int64 // rows that are too deep
}

func (s *sweep) top() *frame {
	if len(s.stack) == 0 {
		return nil
	}
	return &s.stack[len(s.stack)-1]
}

// outerFrame returns the frame around the top, or nil.
func (s *sweep) outerFrame() *frame {
	if len(s.stack) < 2 {
		return nil
	}
	return &s.stack[len(s.stack)-2]
}

func (s *sweep) run(ctx context.Context) error {
	it := s.p.rows.host.Iter()
	lane, started := uint32(0), false
	for n := 0; ; n++ {
		if n&0xfff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := it.Next()
		if r == nil {
			break
		}
		if started && r.lane != lane {
			if err := s.finish(lane); err != nil {
				return err
			}
		}
		lane, started = r.lane, true
		if err := s.row(r); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	if started {
		return s.finish(lane)
	}
	return nil
}

func (s *sweep) finish(lane uint32) error {
	for len(s.stack) > 0 {
		if err := s.pop(); err != nil {
			return err
		}
	}
	return s.v.endLane(s, lane)
}

func (s *sweep) row(r *row) error {
	if r.kind == kineto.KindInstant {
		// Both ends of an operator count as inside it.
		for t := s.top(); t != nil && t.r.end < r.start; t = s.top() {
			if err := s.pop(); err != nil {
				return err
			}
		}
		return s.v.point(s, r)
	}
	for t := s.top(); t != nil && t.r.end <= r.start && !(t.r.start == t.r.end && r.start == r.end && t.r.start == r.start); t = s.top() {
		if err := s.pop(); err != nil {
			return err
		}
	}
	if len(s.stack) >= maxDepth {
		s.deep++
		if err := s.pop(); err != nil {
			return err
		}
	}
	s.push(r)
	return s.v.push(s, s.top())
}

func (s *sweep) pop() error {
	f := s.top()
	err := s.v.pop(s, f)
	if up := s.outerFrame(); up != nil {
		up.childDur += f.r.end - f.r.start
		up.devTotal += f.devTotal
		up.hostMem += f.hostMem
		up.devMem += f.devMem
	}
	s.stack = s.stack[:len(s.stack)-1]
	return err
}

func (s *sweep) push(r *row) {
	// The frame is filled in place, because it is large.
	n := len(s.stack)
	if n == cap(s.stack) {
		s.stack = slices.Grow(s.stack, n+16)
	}
	s.stack = s.stack[:n+1]
	f := &s.stack[n]
	*f = frame{}
	f.r, f.name, f.ord, f.node = *r, s.p.names.nameOf(r), s.ord, -1
	s.ord++
	var up *frame
	if n > 0 {
		up = &s.stack[n-1]
		f.level = up.level + 1
		f.parent, f.region, f.graph = up.own, up.region, up.graph
		f.fwdRegion = up.fwdRegion
		f.backward, f.compiling, f.engine, f.comm = up.backward, up.compiling, up.engine, up.comm
		if f.r.end > up.r.end {
			f.clamped = f.r.end - up.r.end
			f.r.end = up.r.end
		}
		if up.node >= 0 {
			f.node = up.node
		}
	} else {
		f.level = 1
	}
	f.step = s.stepOf(r.start)
	f.rule = s.p.rules.match(r, f.name)
	s.classify(f, up)
	f.classifyRecompute(up)
}

// stepOf is timeline.stepAt for times that mostly stay in one step.
func (s *sweep) stepOf(t int64) int32 {
	if i := s.step; int(i) < len(s.p.steps) && s.p.steps[i].start <= t && t <= s.p.steps[i].end &&
		(int(i)+1 == len(s.p.steps) || t < s.p.steps[i+1].start) {
		return i
	}
	i := s.p.stepAt(t)
	s.step = max(i, 0)
	return i
}

// classify finds the compiled code and communication of a row.
func (s *sweep) classify(f, up *frame) {
	switch f.r.kind {
	case kineto.KindCPUOp, kineto.KindUserAnnotation:
	default:
		return
	}
	name := f.name
	if len(name) == 0 {
		return
	}
	switch name[0] {
	case 'T':
		if rest, ok := strings.CutPrefix(name, "Torch-Compiled Region"); ok {
			f.own = inRegion
			id := strings.TrimSpace(strings.TrimPrefix(rest, ":"))
			f.region, f.graph = s.p.names.force(ref(id)), 0
		}
	case 'C':
		switch name {
		case "CompiledFunction":
			f.own = inForward
		case "CompiledFunctionBackward":
			f.own, f.backward = inBackward, true
		}
	case '#':
		s.classifyMarker(f, up)
	case 'a':
		if strings.HasPrefix(name, "autograd::engine::evaluate_function: ") {
			f.engine = true
		}
	}
	if s.p.legacy && !f.engine && f.r.kind == kineto.KindCPUOp && legacyBackward(name) {
		f.engine = true
	}
	if f.r.kind == kineto.KindUserAnnotation && strings.HasSuffix(name, "(dynamo_timed)") {
		f.compiling = true
	}
	switch name[0] {
	case 'r', 'c', '_', 'n', 'g', 'm', 'u', 'h', 'x':
		if c, ok := commFrom(name, &f.r, f.comm); ok {
			held := c
			f.comm = &held
		}
	}
}

// legacyBackward reports whether a name belongs to a backward node, the
// outermost row of the autograd engine in traces before torch 1.10.
func legacyBackward(name string) bool {
	if strings.Contains(name, "::") {
		return name == "torch::autograd::AccumulateGrad"
	}
	return strings.HasSuffix(strings.TrimRight(name, "0123456789"), "Backward")
}

func (s *sweep) classifyMarker(f, up *frame) {
	inner, ok := strings.CutPrefix(f.name, "## ")
	if !ok {
		return
	}
	if inner, ok = strings.CutSuffix(inner, " ##"); !ok {
		return
	}
	if key, ok := strings.CutPrefix(inner, "Call CompiledFxGraph "); ok {
		f.own = inGraph
		f.graph = s.p.names.force(ref(key))
		return
	}
	if f.r.kind != kineto.KindCPUOp || up == nil {
		return
	}
	// Markers around graph nodes, written when FX code is enriched: rows in them
	// still are direct children of the graph.
	if n, ok := kineto.ParseInt([]byte(inner)); ok {
		f.own, f.node = up.own, n
	} else if strings.HasSuffix(inner, ".py") {
		f.own = up.own
	}
}

// job is what the files of one process show about its run.
type job struct {
	start, end           int64 // nanoseconds since 1970
	trainStart, trainEnd int64 // the same; unset if the end is 0
}

// jobs merges the windows of each process.
func jobs(procs []*process) map[jobKey]*job {
	out := map[jobKey]*job{}
	for _, p := range procs {
		if !p.hasRows() {
			continue
		}
		lo, hi := p.bounds()
		start, end := p.wall(lo), p.wall(hi)
		j := out[p.jobKey()]
		if j == nil {
			j = &job{start: start, end: end, trainStart: math.MaxInt64}
			out[p.jobKey()] = j
		}
		j.start, j.end = min(j.start, start), max(j.end, end)
		if !p.training() {
			continue
		}
		if n := len(p.steps); n > 0 {
			start, end = p.wall(p.steps[0].start), math.MinInt64
			for _, s := range p.steps {
				end = max(end, p.wall(s.end))
			}
		}
		j.trainStart, j.trainEnd = min(j.trainStart, start), max(j.trainEnd, end)
	}
	return out
}

// root writes the events around the run of a process, which no profiler
// records: ai_root around everything and train around the steps.
func (e *emitter) root(jobs map[jobKey]*job) {
	j := jobs[e.p.jobKey()]
	if j == nil || e.p.opts.NoInference {
		return
	}
	delete(jobs, e.p.jobKey()) // once for all its files
	e.nameLane(jobLane, e.p.prefix()+"job")
	id := e.frame("ai_root", "ai_root", j.start, j.end, 0, "the profiler's window")
	if j.trainEnd > 0 {
		e.frame("pipeline", "train", j.trainStart, j.trainEnd, id, "the profiler's steps, or its window if there are none")
	}
	if j.trainEnd > 0 {
		e.p.report.guess("ai_root and train: the profiler's window and steps")
	} else {
		e.p.report.guess("ai_root: the profiler's window")
		if e.p.report.Steps > 0 {
			e.p.report.guess("no backward and no optimizer: the steps are named iteration, and there is no train span")
		}
	}
}

// frame writes an inferred event between two times since 1970.
func (e *emitter) frame(cat, name string, start, end int64, parent uint64, rule string) uint64 {
	ts := max(floorMicros(start), 0)
	e.beginAt(cat, name, jobLane, ts, max(floorMicros(end)-ts, 0))
	e.ev.ID, e.ev.Level = e.nextID(), 1
	if parent != 0 {
		e.ev.Parent, e.ev.Level = int64(parent), 2
	}
	id := e.ev.ID
	e.add(`,"inferred":1`)
	e.str(`,"rule":`, rule)
	e.common(-1, true)
	return id
}
