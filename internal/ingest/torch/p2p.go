package torch

import (
	"cmp"
	"slices"
	"time"
)

// A receive ends shortly after its send, so transfers in one direction cannot
// distinguish a slow link from a clock difference. Transfers in both directions
// can: the delay is half the difference of the two medians, as in the network
// time protocol. Ranks that share no collective, such as the stages of a
// pipeline, are connected by these.

// linkKey identifies the transfers from one rank to another.
type linkKey struct {
	group    string
	src, dst int32
}

// bridge joins axes through transfers between their ranks.
func (al *aligner) bridge() {
	sends, receives := map[linkKey][]member{}, map[linkKey][]member{}
	for i, p := range al.procs {
		for k := range p.comms.list {
			c := &p.comms.list[k]
			key := linkKey{c.group, c.src, c.dst}
			switch {
			case c.src < 0 || c.dst < 0 || c.src == c.dst:
			case c.op == "send":
				sends[key] = append(sends[key], member{i, c})
			case c.op == "receive":
				receives[key] = append(receives[key], member{i, c})
			}
		}
	}
	if len(sends) == 0 || len(receives) == 0 {
		return
	}
	// ends holds, for a pair of processes, the transfers from the first to the
	// second.
	ends := map[[2]int][]point{}
	for key, from := range sends {
		to := receives[key]
		if len(from) != len(to) || !oneProcess(from) || !oneProcess(to) {
			continue
		}
		for k := range from {
			pair := [2]int{from[k].proc, to[k].proc}
			ends[pair] = append(ends[pair], point{from[k].c.end, to[k].c.end})
		}
	}
	var pairs [][2]int
	for pair := range ends {
		if pair[0] < pair[1] {
			pairs = append(pairs, pair)
		}
	}
	slices.SortFunc(pairs, func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for again := true; again; {
		again = false
		for _, pair := range pairs {
			if al.places[pair[0]].axis != al.places[pair[1]].axis && al.join(pair, ends[pair], ends[[2]int{pair[1], pair[0]}]) {
				again = true
			}
		}
	}
}

func oneProcess(list []member) bool {
	return !slices.ContainsFunc(list, func(m member) bool { return m.proc != list[0].proc })
}

// join moves the axis of the second rank onto that of the first.
func (al *aligner) join(pair [2]int, there, back []point) bool {
	a, b := pair[0], pair[1]
	if len(there) < minShared || len(back) < minShared {
		if al.places[b].confidence == confidenceNone {
			al.places[b].reason = "it only sends or only receives, so a late transfer looks the same as a clock offset"
		}
		return false
	}
	// The values to add to the second rank's times, on the current axes.
	var pts []point
	for _, t := range there {
		y := al.places[b].toTrace(t.y)
		pts = append(pts, point{y, al.places[a].toTrace(t.x) - y})
	}
	forth := medianOf(pts, func(p point) int64 { return p.y })
	first := len(pts)
	for _, t := range back {
		x := al.places[b].toTrace(t.x)
		pts = append(pts, point{x, al.places[a].toTrace(t.y) - x})
	}
	delay := (medianOf(pts[first:], func(p point) int64 { return p.y }) - forth) / 2
	const tolerance = 50_000
	for i := range pts {
		if i < first {
			pts[i].y += delay
		} else {
			pts[i].y -= delay
		}
	}
	f := fitClock(pts, tolerance)
	if delay < -tolerance || delay > 20*tolerance || f.doubt(pts, tolerance, true) != "" {
		return false
	}
	from, to := al.places[b].axis, al.places[a].axis
	for i := range al.places {
		p := &al.places[i]
		if p.axis != from {
			continue
		}
		// The whole axis moves; a drift is added to those of its ranks.
		ref := al.procs[i].base + al.procs[i].window[0]
		moved := f.toTrace(p.toTrace(ref))
		p.clock = clock{offset: moved - ref, drift: p.drift + f.drift, ref: ref}
		p.axis, p.reason = to, ""
		if p.confidence == confidenceNone || p.confidence == confidenceReference {
			p.confidence, p.shared, p.residual = confidenceMedium, f.n, f.scale
		}
		p.residual = max(p.residual, f.scale, time.Duration(max(delay, 0)/4))
	}
	if al.places[a].confidence == confidenceNone {
		al.places[a].confidence, al.places[a].reason = confidenceReference, ""
	}
	return true
}
