package replay

import (
	"cmp"
	"math"
	"slices"
)

// placesOf returns where in its program a host launches what runs on lanes, in that
// order.
func (g *graph) placesOf(out []launchPlace, r int, p *program) []launchPlace {
	var free int64 = math.MinInt64 // when the collectives' lane was free
	nth := 0
	for i := range p.lanes {
		l := &p.lanes[i]
		at := l.launch
		if l.lane == 1 {
			if l.start-free < behind {
				at = g.launchOf(r, nth, p, at)
			}
			free = l.start + l.dur
			nth++
		}
		out = append(out, placeAt(p, at, i))
	}
	// A lane runs in the order of its launches.
	slices.SortStableFunc(out, func(a, b launchPlace) int {
		return cmp.Or(cmp.Compare(a.piece, b.piece), cmp.Compare(a.part, b.part))
	})
	return out
}

// placeAt finds the place of a moment of a step.
func placeAt(p *program, at int64, op int) launchPlace {
	var from int64
	for i := range p.host {
		d := p.host[i].dur
		if at < from+d {
			part := 0.0
			if at > from {
				part = float64(at-from) / float64(d)
			}
			return launchPlace{i, part, op}
		}
		from += d
	}
	return launchPlace{len(p.host), 0, op}
}

// launchOf estimates when the k-th collective of a lane was launched: as far into
// backward as in the steps in which the lane was free.
func (g *graph) launchOf(r, k int, p *program, latest int64) int64 {
	if g.places == nil || k >= len(g.places[g.roleOf[r]]) {
		return latest
	}
	part := g.places[g.roleOf[r]][k]
	if part != part {
		return latest
	}
	all := int64(0)
	for i := range p.host {
		if pc := &p.host[i]; pc.kind == work && pc.phase == Backward {
			all += pc.dur
		}
	}
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

// findPlaces measures where in backward collectives of lanes are launched.
func (g *graph) findPlaces() {
	found := make([][][]float64, len(g.roles))
	rd := g.read()
	any := false
	for range g.steps {
		rd.round()
		for r, p := range rd.programs {
			if len(p.lanes) == 0 {
				continue
			}
			var free int64 = math.MinInt64
			nth := 0
			for i := range p.lanes {
				l := &p.lanes[i]
				if l.lane != 1 {
					continue
				}
				if role := g.roleOf[r]; l.start-free >= behind || free == math.MinInt64 {
					if part := backwardAt(p, l.start); part == part && nth < 256 {
						for len(found[role]) <= nth {
							found[role] = append(found[role], nil)
						}
						if len(found[role][nth]) < 4096 {
							found[role][nth] = append(found[role][nth], part)
							any = true
						}
					}
				}
				free = l.start + l.dur
				nth++
			}
		}
	}
	if !any {
		return
	}
	g.places = make([][]float64, len(g.roles))
	for role := range found {
		for _, list := range found[role] {
			m := math.NaN()
			if len(list) > 0 {
				slices.Sort(list)
				m = list[len(list)/2]
			}
			g.places[role] = append(g.places[role], m)
		}
	}
}

// backwardAt returns which part of the work of backward is done at a moment.
func backwardAt(p *program, at int64) float64 {
	var all, done, from int64
	for i := range p.host {
		pc := &p.host[i]
		if pc.kind == work && pc.phase == Backward {
			all += pc.dur
			done += min(max(at-from, 0), pc.dur)
		}
		from += pc.dur
	}
	if all == 0 {
		return math.NaN()
	}
	return float64(done) / float64(all)
}
