package replay

import "fmt"

func Debug(s *State) {
	j := newJob(s)
	j.load()
	j.meet()
	j.findPlaces()
	o := j.replay()
	prev := 0.0
	for i := range j.steps {
		a := o.clock[i] - prev
		prev = o.clock[i]
		fmt.Println(j.steps[i], int(j.period[i]), int(a))
	}
	rd := j.read()
	for s := range j.steps {
		rd.round()
		if s >= 8 && s < 22 {
			p := rd.programs[0]
			fmt.Println("step", s, p.end-p.start)
			for _, h := range p.host {
				fmt.Println("  host", h.kind, h.phase, h.dur)
			}
			for _, l := range p.lanes {
				fmt.Println("  lane", l.kind, l.phase, l.launch, l.start, l.dur)
			}
		}
	}
}
