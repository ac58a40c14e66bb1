package torch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// How certain the position of a rank on the common time axis is. A rank with
// confidenceNone was not moved.
const (
	confidenceNone      = "none"
	confidenceMedium    = "medium"
	confidenceHigh      = "high"
	confidenceReference = "reference"
	confidenceSameHost  = "same host"
)

// placement is the position of one rank on the axis.
type placement struct {
	clock
	axis       int // number of the axis, -1 if none
	confidence string
	residual   time.Duration
	shared     int
	reason     string
	tried      int // shared collectives at the last attempt
	// blur is the remaining uncertainty of the rank's times.
	blur int64
}

// aligner places the ranks of one window. Ranks that share collectives,
// directly or through others, get one axis; each axis has a rank that is not
// moved.
type aligner struct {
	procs  []*process
	all    []*instance
	of     [][]*instance // by process
	places []placement
	anchor map[*instance]int // a member of the instance on the current axis
	count  []int             // collectives shared with the current axis
}

func newAligner(procs []*process, all []*instance) *aligner {
	al := &aligner{procs: procs, all: all, of: make([][]*instance, len(procs)), places: make([]placement, len(procs))}
	for _, in := range all {
		for _, m := range in.members {
			al.of[m.proc] = append(al.of[m.proc], in)
		}
	}
	for i := range al.places {
		al.places[i].axis, al.places[i].confidence = -1, confidenceNone
	}
	return al
}

func (al *aligner) run() {
	for axis := range al.procs {
		root := slices.IndexFunc(al.places, func(p placement) bool { return p.axis < 0 })
		if root < 0 {
			return
		}
		al.anchor, al.count = map[*instance]int{}, make([]int, len(al.procs))
		al.places[root].axis = axis
		for i := range al.places {
			al.places[i].tried = 0
		}
		al.place(root)
		members := 1
		for i := al.next(); i >= 0; i = al.next() {
			if al.try(i, axis) {
				members++
			}
		}
		hosts := al.hosts(axis)
		for i := range al.procs {
			if al.places[i].axis < 0 && al.sameHost(i, axis, hosts) {
				members++
			}
		}
		if members > 1 {
			al.places[root].confidence, al.places[root].reason = confidenceReference, ""
		} else if r := &al.places[root]; r.reason == "" {
			r.reason = "it shares no collective with another rank"
			if slices.ContainsFunc(al.count, func(n int) bool { return n > 0 }) {
				r.reason = "no other rank could be compared with it"
			}
		}
	}
}

// place counts the collectives that a placed rank shares with the others.
func (al *aligner) place(i int) {
	for _, in := range al.of[i] {
		if _, known := al.anchor[in]; known {
			continue
		}
		al.anchor[in] = i
		for _, m := range in.members {
			al.count[m.proc]++
		}
	}
}

// next returns the rank that shares most collectives with the axis and was not
// tried with as many before, or -1.
func (al *aligner) next() int {
	best := -1
	for i := range al.places {
		if al.places[i].axis < 0 && al.count[i] > al.places[i].tried && (best < 0 || al.count[i] > al.count[best]) {
			best = i
		}
	}
	return best
}

// try places a rank on the axis if the evidence suffices.
func (al *aligner) try(i, axis int) bool {
	p := &al.places[i]
	p.tried = al.count[i]
	pts := make([]point, 0, len(al.of[i]))
	tolerance, anchored := int64(0), true
	for _, in := range al.of[i] {
		k, ok := al.anchor[in]
		if !ok {
			continue
		}
		own, other := in.end(i), in.end(k)
		pts = append(pts, point{own, al.places[k].toTrace(other) - own})
		tolerance = max(tolerance, in.first.tolerance())
		anchored = anchored && in.anchored
	}
	f := fitClock(pts, tolerance)
	p.shared, p.residual = f.n, f.scale
	if p.reason = f.doubt(pts, tolerance, anchored); p.reason != "" {
		return false
	}
	p.clock, p.axis, p.confidence = f.clock, axis, confidenceMedium
	if f.n >= 8 && f.scale <= 10*time.Microsecond && f.inliers*10 >= f.n*9 {
		p.confidence = confidenceHigh
	}
	al.place(i)
	return true
}

func (in *instance) end(proc int) int64 {
	if k, ok := slices.BinarySearchFunc(in.members, proc, func(m member, proc int) int { return m.proc - proc }); ok {
		return in.members[k].c.end
	}
	return 0
}

// doubt returns why a fit is not evidence, or "".
func (f *fit) doubt(pts []point, tolerance int64, anchored bool) string {
	switch {
	case f.n < minShared:
		return fmt.Sprintf("it shares only %d collectives with the others; at least %d are needed", f.n, minShared)
	case int64(f.scale) > tolerance:
		return fmt.Sprintf("the ends of its %d shared collectives differ by %s, more than the limit of %s", f.n, f.scale.Round(time.Microsecond), time.Duration(tolerance))
	case f.inliers*10 < f.n*6, !anchored && f.inliers*10 < f.n*9:
		return fmt.Sprintf("only %d of its %d shared collectives agree on one clock offset", f.inliers, f.n)
	case !anchored && f.ambiguous(pts):
		return "its collectives are too regular: another pairing fits as well, and no step or sequence number decides"
	}
	return ""
}

// maxShift is by how many collectives another pairing of two ranks may be
// shifted. It should exceed the collectives of one step.
const maxShift = 32

// ambiguous reports whether pairing every collective with a later one would fit
// nearly as well, if the offset is large enough for that: steps repeat
// themselves.
func (f *fit) ambiguous(pts []point) bool {
	pts = pts[:min(len(pts), 1024)]
	gaps := make([]int64, 0, len(pts))
	for i := range pts[:len(pts)-1] {
		gaps = append(gaps, pts[i+1].x-pts[i].x)
	}
	if abs(f.offset)*2 <= stats.MedianInt(gaps, 0) {
		return false
	}
	for shift := 1; shift <= min(maxShift, max(len(pts)-3, 1)); shift++ {
		shifted := make([]point, 0, len(pts))
		for i, p := range pts[:len(pts)-shift] {
			q := pts[i+shift]
			shifted = append(shifted, point{p.x, q.x + q.y - p.x})
		}
		if fitClock(shifted, 0).scale <= 5*max(f.scale, time.Microsecond) {
			return true
		}
	}
	return false
}

// hosts returns the first rank of each known host on the axis.
func (al *aligner) hosts(axis int) map[string]int {
	first := map[string]int{}
	for k, p := range al.procs {
		if _, has := first[p.host]; al.places[k].axis == axis && p.hostKnown && !has {
			first[p.host] = k
		}
	}
	return first
}

// sameHost places a rank on a host that shares a clock with the axis.
func (al *aligner) sameHost(i, axis int, hosts map[string]int) bool {
	p := &al.places[i]
	k, ok := hosts[al.procs[i].host]
	if !ok || !al.procs[i].hostKnown || p.shared >= minShared {
		return false
	}
	p.clock, p.axis, p.confidence, p.residual, p.reason = al.places[k].clock, axis, confidenceSameHost, 5*time.Microsecond, ""
	al.place(i)
	return true
}

// leastSkew is the clock difference below which ranks count as sharing a clock, in ns.
const leastSkew = 50_000

// apply shifts the clocks that differ by more than leastSkew.
func (al *aligner) apply(opts *Options, rep *RankReport) {
	for i, p := range al.procs {
		pl := &al.places[i]
		mid := p.base + (p.window[0]+p.window[1])/2
		rep.Estimated[i] = time.Duration(pl.toTrace(mid) - mid)
		rep.Drifts[i] = pl.drift * 1e6
		rep.Residuals[i], rep.Confidence[i], rep.Reasons[i] = pl.residual, pl.confidence, pl.reason
		if pl.axis < 0 || pl.confidence == confidenceNone {
			continue
		}
		pl.blur = 2 * int64(pl.residual)
		first, last := p.base+p.window[0], p.base+p.window[1]
		needed := max(abs(pl.toTrace(first)-first), abs(pl.toTrace(last)-last))
		if needed <= leastSkew {
			pl.blur += needed
			pl.clock = clock{}
			continue
		}
		if opts.NoAlignment {
			continue
		}
		rep.Offsets[i] = rep.Estimated[i]
		p.clock = pl.clock
		p.report.ClockOffset, p.report.ClockDrift = rep.Offsets[i], rep.Drifts[i]
		p.report.guess(fmt.Sprintf("the clock was shifted by %s%s so that collectives end together; %s of them agree within %s", rep.Offsets[i], driftText(rep.Drifts[i]), fmt.Sprint(pl.shared), pl.residual))
	}
}

func driftText(ppm float64) string {
	if ppm == 0 {
		return ""
	}
	return fmt.Sprintf(" and %+.1f ppm", ppm)
}

// skews reports for every collective how its ranks arrived, if the axis is
// accurate enough.
func (al *aligner) skews(rep *RankReport) {
	for _, p := range al.procs {
		p.waits = make(map[int64]commWait, len(p.comms.list))
	}
	for _, in := range al.all {
		al.skew(in, rep)
	}
}

func (al *aligner) skew(in *instance, rep *RankReport) {
	type arrival struct {
		proc       int
		start, end int64
		row        int64
	}
	axis := -1
	var list []arrival
	for _, m := range in.members {
		pl := &al.places[m.proc]
		if pl.confidence == confidenceNone || axis >= 0 && pl.axis != axis {
			continue
		}
		axis = pl.axis
		list = append(list, arrival{m.proc, pl.toTrace(m.c.start), pl.toTrace(m.c.end), m.c.row})
	}
	if len(list) < 2 {
		return
	}
	slices.SortStableFunc(list, func(a, b arrival) int { return cmp.Compare(a.start, b.start) })
	first, last := list[0], list[len(list)-1]
	lowEnd, highEnd, blur := first.end, first.end, int64(0)
	for _, a := range list {
		lowEnd, highEnd = min(lowEnd, a.end), max(highEnd, a.end)
		blur = max(blur, al.places[a.proc].blur)
	}
	if highEnd-lowEnd > max(in.first.tolerance(), 6*blur) {
		// This may be a wrong pair, which must not blame a rank.
		rep.Inconsistent++
		return
	}
	sk := CollectiveSkew{
		Op: in.first.op, Group: groupName(in.first.group), GroupSize: int64(in.first.size), Ranks: len(list), Start: time.Unix(0, first.start),
		StartSpread: time.Duration(last.start - first.start), EndSpread: time.Duration(highEnd - lowEnd), LastRank: -1,
	}
	if before := list[len(list)-2]; last.start-before.start > al.places[last.proc].blur+al.places[before.proc].blur {
		sk.LastRank = al.procs[last.proc].rank
	}
	rep.StartSpread, rep.EndSpread = max(rep.StartSpread, sk.StartSpread), max(rep.EndSpread, sk.EndSpread)
	for _, a := range list {
		al.procs[a.proc].waits[a.row] = commWait{wait: last.start - a.start, lastRank: sk.LastRank, ranks: len(list)}
	}
	if len(rep.Collectives) < maxSkews {
		rep.Collectives = append(rep.Collectives, sk)
	}
}
