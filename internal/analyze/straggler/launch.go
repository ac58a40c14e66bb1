package straggler

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// withLaunches appends to out the pieces of a host, with the launches of lane operations inserted. A lane
// runs in launch order.
func (g *graph) withLaunches(out []piece, r int, p *program) []piece {
	if len(p.lanes) == 0 {
		return append(out, p.host...)
	}
	type at struct{ time, op int64 }
	var list []at
	for i := range p.lanes {
		list = append(list, at{max(p.lanes[i].launch, 0), int64(i)})
	}
	p.collectives(func(i, nth int, waited bool) {
		if waited {
			list[i].time = g.launchOf(r, nth, p, list[i].time)
		}
	})
	slices.SortStableFunc(list, func(a, b at) int { return cmp.Compare(a.time, b.time) })
	var from int64
	for _, pc := range p.host {
		end := from + pc.dur
		for ; len(list) > 0 && list[0].time < end; list = list[1:] {
			if d := list[0].time - from; pc.kind == work && d > 0 {
				done := pc
				done.dur, done.lead = d, 1
				out = append(out, done)
				pc.dur, from = pc.dur-d, list[0].time
			}
			out = append(out, piece{kind: launch, lead: list[0].op})
		}
		out, from = append(out, pc), end
	}
	for _, l := range list {
		out = append(out, piece{kind: launch, lead: l.op})
	}
	return out
}

// launchOf estimates when the k-th collective of a lane was launched, from how far into backward it is
// launched in steps in which the lane is free. It returns latest if no estimate exists.
func (g *graph) launchOf(r, k int, p *program, latest int64) int64 {
	if g.places == nil || k >= len(g.places[g.roleOf[r]]) {
		return latest
	}
	part := g.places[g.roleOf[r]][k]
	if part != part {
		return latest
	}
	_, all := p.backwardBy(math.MaxInt64)
	left := int64(part * float64(all))
	var at int64
	for i := range p.host {
		pc := &p.host[i]
		if pc.kind == work && pc.phase == Backward {
			if left <= pc.dur {
				return min(at+left, latest)
			}
			left -= pc.dur
		}
		at += pc.dur
	}
	return latest
}

// mostPlaces and mostSteps bound the collectives per step and the steps that findPlaces inspects.
const (
	mostPlaces = 256
	mostSteps  = 4096
)

// findPlaces measures how far into backward the collectives of lanes are launched.
func (g *graph) findPlaces() {
	found := make([][][]float64, len(g.roles))
	rd := g.read()
	for range g.steps {
		rd.round()
		for r, p := range rd.programs {
			of := &found[g.roleOf[r]]
			p.collectives(func(i, nth int, waited bool) {
				done, all := p.backwardBy(p.lanes[i].start)
				if waited || all == 0 || nth >= mostPlaces {
					return
				}
				for len(*of) <= nth {
					*of = append(*of, nil)
				}
				if len((*of)[nth]) < mostSteps {
					(*of)[nth] = append((*of)[nth], float64(done)/float64(all))
				}
			})
		}
	}
	g.places = make([][]float64, len(g.roles))
	for role := range found {
		for _, list := range found[role] {
			m := math.NaN()
			if len(list) > 0 {
				m = stats.Median(list)
			}
			g.places[role] = append(g.places[role], m)
		}
	}
}

// backwardBy returns how much of backward was done by a time relative to the start of the step, and the total
// of backward.
func (p *program) backwardBy(at int64) (done, all int64) {
	var from int64
	for i := range p.host {
		pc := &p.host[i]
		if pc.kind == work && pc.phase == Backward {
			all += pc.dur
			done += min(max(at-from, 0), pc.dur)
		}
		from += pc.dur
	}
	return done, all
}
