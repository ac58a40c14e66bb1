package replay

import "slices"

// WindowSteps is how many steps a window has. Windows begin at the same numbers on
// all ranks.
const WindowSteps = 100

// Window replaces steps by the mean step of each window of [WindowSteps], which takes
// as much as one step: for jobs of very many steps. A window's mean step is that of the
// steps with the usual pieces; what a single step had more is lost with it, and so are
// windows that are not complete.
func (s *State) Window() {
	s.Pack()
	s.windowed, s.cells = true, 0
	for _, rs := range s.ranks {
		var out store
		var list []program
		for c := rs.steps.open(); c.ok; c.next() {
			if len(list) > 0 && list[0].step/WindowSteps != c.p.step/WindowSteps {
				list = list[:0]
			}
			var p program
			p.copy(&c.p)
			if list = append(list, p); len(list) == WindowSteps {
				out.follow(meanStep(list))
			}
		}
		out.pack()
		rs.steps = out
		s.cells += out.n
	}
}

// meanStep is the mean of the steps of a window that have the pieces that most have.
func meanStep(list []program) *program {
	var usual []program
	for i := range list {
		alike := slices.DeleteFunc(slices.Clone(list), func(p program) bool { return !list[i].alike(&p) })
		if len(alike) > len(usual) {
			usual = alike
		}
		if 2*len(alike) > len(list) {
			break
		}
	}
	mean := func(of func(p *program) *int64) int64 {
		var sum int64
		for k := range usual {
			sum += *of(&usual[k])
		}
		return sum / int64(len(usual))
	}
	out := new(program)
	out.copy(&usual[0])
	out.step, out.start = list[0].step/WindowSteps, list[0].start
	out.tokens = mean(func(p *program) *int64 { return &p.tokens })
	for i := range out.host {
		out.host[i].dur = mean(func(p *program) *int64 { return &p.host[i].dur })
	}
	for i := range out.lanes {
		l := &out.lanes[i]
		l.dur = mean(func(p *program) *int64 { return &p.lanes[i].dur })
		l.start = mean(func(p *program) *int64 { return &p.lanes[i].start })
		l.launch = mean(func(p *program) *int64 { return &p.lanes[i].launch })
	}
	out.end = out.endOf(len(out.host) - 1)
	return out
}
