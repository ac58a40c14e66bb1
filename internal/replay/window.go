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
	s.windowed = true
	s.cells = 0
	for _, rs := range s.ranks {
		var out store
		var list []program
		number := int64(-1)
		flush := func() {
			if len(list) == WindowSteps {
				p := meanStep(list)
				out.add(&p)
			}
			list = list[:0]
		}
		for c := rs.steps.open(); c.ok; c.next() {
			if w := c.p.step / WindowSteps; w != number {
				flush()
				number = w
			}
			p := c.p
			p.host, p.lanes = slices.Clone(p.host), slices.Clone(p.lanes)
			list = append(list, p)
		}
		flush()
		out.pack()
		rs.steps = out
		s.cells += out.n
	}
}

// meanStep is the mean of the steps of a window that have the pieces that most have.
func meanStep(list []program) program {
	most, best := 0, 0
	for i := range list {
		n := 0
		for k := range list {
			if list[i].alike(&list[k]) {
				n++
			}
		}
		if n > most {
			most, best = n, i
		}
		if 2*n > len(list) {
			break
		}
	}
	out := list[best]
	out.host, out.lanes = slices.Clone(out.host), slices.Clone(out.lanes)
	mean := func(of func(p *program) int64) int64 {
		var sum int64
		for k := range list {
			if list[best].alike(&list[k]) {
				sum += of(&list[k])
			}
		}
		return sum / int64(most)
	}
	var took int64
	for i := range out.host {
		out.host[i].dur = mean(func(p *program) int64 { return p.host[i].dur })
		took += out.host[i].dur
	}
	for i := range out.lanes {
		l := &out.lanes[i]
		l.dur = mean(func(p *program) int64 { return p.lanes[i].dur })
		l.start = mean(func(p *program) int64 { return p.lanes[i].start })
		l.launch = mean(func(p *program) int64 { return p.lanes[i].launch })
	}
	out.tokens = mean(func(p *program) int64 { return p.tokens })
	out.step, out.start = list[0].step/WindowSteps, list[0].start
	out.end = out.start + took
	return out
}
