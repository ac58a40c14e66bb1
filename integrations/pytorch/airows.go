package pytorch

import "github.com/trainspan/trainspan/internal/kineto"

// aiRows writes the events of the AI categories that single rows of the host stand
// for: steps, what a rule names, and collectives that the host runs.
type aiRows struct{ *out }

// pop writes the events of a row that has ended.
func (e aiRows) pop(s *sweep, f *frame) {
	if n, ok := f.isStep(); !ok {
		if f.rule > 0 {
			e.ruleEvent(s, f)
		}
	} else if !e.p.opts.NoSteps && !(e.p.hasTail && n == e.p.tail.n && f.r.start == e.p.tail.start) {
		e.nested("pipeline", e.p.stepName(), f)
		e.int("step", n)
		e.deviceTime(f.launched)
		e.common(-1, true)
	}
}

// ruleEvent writes the event of the AI category that a row's name stands for.
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
	e.str("annotation", f.name)
	e.common(f.step, true)
}

// ruleArg adds the argument that a rule finds in the name. An epoch is a number,
// and stands instead of that of the options.
func (e aiRows) ruleArg(f *frame, rule *Rule) {
	if rule.Arg == "" {
		return
	}
	text := e.p.rules.group(f.rule-1, f.name)
	if rule.Arg != "epoch" {
		e.text(rule.Arg, text)
	} else if n, ok := kineto.ParseInt([]byte(text)); ok {
		e.int("epoch", n)
		e.hasEpoch = true
	}
}

// hostCollective writes the comm event of a collective that the host runs itself.
func (e aiRows) hostCollective(f, up *frame) {
	if !f.isHostCollective(up, &e.p.findings) {
		return
	}
	e.nested("comm", f.comm.op, f)
	e.commArgs(f.comm)
	e.str("clock", "host")
	e.waited(f.comm, f.r.seq)
	e.common(f.step, true)
}
