package torch

import (
	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// profilerRows writes every host row as a profiler event, in category PP.
type profilerRows struct{ *out }

// pop writes a row that has ended, after its children.
func (e profilerRows) pop(f, up *frame) {
	cat := "PP"
	if e.p.report.Foreign {
		cat = "trace_event"
	}
	e.begin(cat, f.name, e.p.lanes.host[f.r.lane].tid, f.r.start, f.r.end)
	e.ev.ID, e.ev.Level = f.id, f.level
	if up != nil {
		e.ev.Parent = int64(up.id)
	}
	dur := f.r.end - f.r.start
	self := max(dur-f.childDur, 0)
	op := f.r.kind == kineto.KindCPUOp || f.r.kind == kineto.KindUserAnnotation
	size := int64(0)
	if op {
		size = f.r.a
	}
	e.int(`,"device":0,"cpu_memory":`, f.hostMem)
	e.int(`,"device_memory_usage":`, f.devMem)
	e.int(`,"is_remote":0,"input_size":`, size)
	e.float(`,"total_cpu_percent":`, percent(dur, e.p.totalSelf))
	e.float(`,"total_device_percent":`, percent(f.devTotal, e.p.totalDevice))
	e.float(`,"self_cpu_percent":`, percent(self, e.p.totalSelf))
	if f.hostMemSelf != 0 {
		e.int(`,"self_cpu_memory":`, f.hostMemSelf)
	}
	if f.devMemSelf != 0 {
		e.int(`,"self_device_memory_usage":`, f.devMemSelf)
	}
	if op && f.r.b > 0 {
		e.int(`,"input_bytes":`, f.r.b)
	}
	if f.devTotal > 0 {
		e.us(`,"device_us":`, f.devTotal)
	}
	if f.r.corr != 0 {
		e.int(`,"correlation":`, f.r.corr)
	}
	if !op {
		e.str(`,"kind":`, f.r.kind.String())
		if f.r.kind == kineto.KindRuntime || f.r.kind == kineto.KindDriver {
			e.addIfKnown(`,"bytes":`, f.r.a)
		}
	}
	if f.clamped > 0 {
		e.us(`,"clamped_us":`, f.clamped)
	}
	e.tied(f)
	e.recomputed(f)
	e.exact(f.r.start, dur+f.clamped)
	e.common(f.step, false)
}

// tied adds the arguments of a pair.
func (e profilerRows) tied(f *frame) {
	if f.tie == nil {
		return
	}
	e.int(`,"seq":`, f.tie.seq)
	if f.tie.backward {
		e.int(`,"fwd_id":`, int64(f.tie.id))
		e.str(`,"fwd_op":`, f.tie.name)
	}
}

// recomputed adds the arguments of an operator that ran in the forward pass
// before.
func (e profilerRows) recomputed(f *frame) {
	if !f.recompute {
		return
	}
	e.add(`,"recompute":1`)
	if !f.checkpoint {
		e.add(`,"inferred":1`)
		e.p.report.guess("recompute: operators that autograd recorded inside backward")
	}
}

// point assigns an allocator event to the innermost row around it, or writes it
// as a separate event if there is none: frees by Python's reference counting
// belong to no operator, and a step does not count.
func (e profilerRows) point(top *frame, r *row) {
	if top != nil {
		if _, step := vocab.ProfilerStepNumber(top.name); step {
			top = nil
		}
	}
	host, device := r.b == 0, r.b == 1 || r.b == 6 || r.b == 12 || r.b == 15 || r.b == 19 || r.b == 20
	if top != nil && host {
		top.hostMemSelf += r.a
		top.hostMem += r.a
		return
	}
	if top != nil && device {
		top.devMemSelf += r.a
		top.devMem += r.a
		return
	}
	e.p.report.MemoryUnattributed++
	e.begin("PP", e.p.names.nameOf(r), e.p.lanes.host[r.lane].tid, r.start, r.start)
	e.int(`,"device":`, r.b)
	e.addIfKnown(`,"device_id":`, r.c)
	if host {
		e.int(`,"cpu_memory":`, r.a)
		e.add(`,"device_memory_usage":0`)
	} else {
		e.int(`,"cpu_memory":0,"device_memory_usage":`, r.a)
	}
	e.add(`,"is_remote":0,"input_size":0,"total_cpu_percent":0.0,"total_device_percent":0.0,"unattributed":1`)
	if r.launch > 0 {
		e.int(`,"total_allocated":`, r.launch)
		e.int(`,"total_reserved":`, r.launchEnd)
	}
	e.exact(r.start, 0)
	e.common(e.p.stepAt(r.start), false)
}

// aiRows writes the events of the AI categories for single host rows: steps,
// rows that match a rule, and collectives that the host runs.
type aiRows struct{ *out }

// pop writes the events of a row that has ended.
func (e aiRows) pop(s *sweep, f *frame) {
	if n, ok := f.isStep(); !ok {
		if f.rule > 0 {
			e.ruleEvent(s, f)
		}
	} else if !(e.p.hasTail && n == e.p.tail.n && f.r.start == e.p.tail.start) {
		e.nested("pipeline", e.p.stepName(), f)
		e.int(`,"step":`, n)
		e.deviceTime(f.launched)
		e.common(-1, true)
	}
}

// ruleEvent writes the event of the AI category for a row that matches a rule.
func (e aiRows) ruleEvent(s *sweep, f *frame) {
	rule := &e.p.rules.rules[f.rule-1]
	if f.inBackward(rule) {
		return
	}
	if rule.Outermost {
		for i := range s.stack[:len(s.stack)-1] {
			if r := s.stack[i].rule; r > 0 && e.p.rules.rules[r-1].Cat == rule.Cat && e.p.rules.rules[r-1].Name == rule.Name {
				return
			}
		}
	}
	e.nested(rule.Cat, rule.Name, f)
	e.ruleArg(f, rule)
	e.deviceTime(f.launched)
	e.str(`,"annotation":`, f.name)
	e.common(f.step, true)
}

// ruleArg adds the argument that a rule finds in the name. An epoch is a
// number, and replaces the one of the options.
func (e aiRows) ruleArg(f *frame, rule *Rule) {
	if rule.Arg == "" {
		return
	}
	text := e.p.rules.group(f.rule-1, f.name)
	if rule.Arg != "epoch" {
		e.text(e.p.rules.keys[f.rule-1], text)
	} else if n, ok := kineto.ParseInt([]byte(text)); ok {
		e.int(`,"epoch":`, n)
		e.hasEpoch = true
	}
}

// hostCollective writes the comm event of a collective that the host runs itself.
func (e aiRows) hostCollective(f, up *frame) {
	if !f.isHostCollective(up, e.p) {
		return
	}
	e.nested("comm", f.comm.op, f)
	e.commArgs(f.comm)
	e.add(`,"clock":"host"`)
	e.waited(f.comm, f.r.seq)
	e.common(f.step, true)
}
