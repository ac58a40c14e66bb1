package pytorch

import "github.com/trainspan/trainspan/integrations/pytorch/kineto"

// Other tools write an event as a begin (B) and an end (E) of one thread
// instead of as one row with a length. The end closes the innermost begin.

// maxOpenBegins bounds the begins that wait for their end, over all threads.
const maxOpenBegins = 1 << 16

// beginEnd pairs begins and ends.
type beginEnd struct {
	open map[laneKey][]*kineto.Event
	n    int
}

func threadOf(ev *kineto.Event) laneKey {
	k := laneKey{pid: ev.PID.Num, tid: ev.TID.Num}
	if !ev.TID.IsNum {
		k.text = string(ev.TID.Text)
	}
	return k
}

// pair takes an event of phase B or E and returns the whole one at its end,
// nil until then.
func (p *process) pair(ev *kineto.Event) *kineto.Event {
	if !ev.HasTS {
		return nil
	}
	be, key := &p.beginEnd, threadOf(ev)
	if ev.Phase == 'B' {
		if be.n >= maxOpenBegins {
			p.report.HalfEvents++
			return nil
		}
		if be.open == nil {
			be.open = map[laneKey][]*kineto.Event{}
		}
		be.open[key] = append(be.open[key], ev.Clone())
		be.n++
		return nil
	}
	stack := be.open[key]
	if len(stack) == 0 {
		p.report.HalfEvents++
		return nil
	}
	whole := stack[len(stack)-1]
	be.open[key] = stack[:len(stack)-1]
	be.n--
	whole.Phase, whole.Dur = 'X', max(ev.TS-whole.TS, 0)
	return whole
}
