package straggler

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/robust"
)

// hot is a rank that is late in most steps of an interval.
type hot struct {
	rank     int
	from, to int
	in       []bool    // the rounds of its levels
	level    float64   // mean excess of those
	fixed    []float64 // own work with the reference in those rounds
	unseen   float64   // excess in the span that hides the wait
	cause    string
}

// chronic finds the ranks with a level of excess that noise does not explain,
// and files them by cause.
func (a *analysis) chronic() {
	all := a.hotRanks()
	all = a.dropVictims(all)
	better := map[int][]float64{}
	for _, h := range all {
		better[h.rank] = h.fixed
	}
	// A rank belongs to the finding when it alone would still hold the others
	// up, all other slow ranks put right: else it is slow, but nobody waits.
	full := a.replay(better)
	late := all[:0:0]
	for _, h := range all {
		delete(better, h.rank)
		without := a.replay(better)
		for s := range without {
			without[s] = full[s] - without[s]
		}
		better[h.rank] = h.fixed
		if a.share(without, h.from, h.to) >= a.opt.MinCost/2 {
			late = append(late, h)
		}
	}
	slices.SortStableFunc(late, func(x, y *hot) int { return cmp.Compare(y.level, x.level) })
	// Ranks with one cause are one finding. The worse ones are put right first:
	// what is then left is the cost of the next.
	done := map[int][]float64{}
	var before []float64
	for len(late) > 0 {
		var group, other []*hot
		for _, h := range late {
			if h.cause == late[0].cause && h.from < late[0].to && late[0].from < h.to {
				group = append(group, h)
			} else {
				other = append(other, h)
			}
		}
		for _, h := range group {
			done[h.rank] = h.fixed
		}
		gain := a.replay(done)
		if before == nil {
			before = make([]float64, len(gain))
		}
		now := slices.Clone(gain)
		for s := range gain {
			gain[s] -= before[s]
		}
		before = now
		a.fileChronic(group, gain)
		late = other
	}
}

func (a *analysis) fileChronic(group []*hot, gain []float64) {
	from, to := group[0].from, group[0].to
	var ranks []int
	ev := &Evidence{}
	var ex []float64
	unseen := make([]float64, len(gain))
	for _, h := range group {
		from, to = min(from, h.from), max(to, h.to)
		ranks = append(ranks, h.rank)
		for s, in := range h.in {
			if x := a.excess.at(h.rank, s); in && x == x {
				ex = append(ex, x+h.unseen)
				unseen[s] = max(unseen[s], h.unseen)
			}
		}
	}
	for s, x := range unseen {
		gain[s] += x
	}
	ev.Affected, ev.Last = a.cameLast(ranks, from, to)
	ev.Excess = robust.Median(ex) / 1e6
	ev.ExcessMAD = robust.MAD(ex) / 1e6
	ev.Peers = a.peerMAD[a.rd.roleOf[ranks[0]]] / 1e6
	f := Finding{Kind: Straggler, Ranks: a.realRanks(ranks), Cause: group[0].cause, Evidence: ev}
	if f.Cause == Checkpoint.String() {
		f.Kind = CheckpointStall
	}
	if a.add(f, gain, from, to) && f.Cause == CauseCompute && !a.haveTokens() {
		a.remark(ReasonWorkUnknown)
	}
}

// cameLast counts the rounds in which the ranks are late, and the share of
// them in which one of the ranks was the last of all.
func (a *analysis) cameLast(ranks []int, from, to int) (affected int, share float64) {
	last := 0
	for s := from; s < to; s++ {
		worst, top := math.Inf(-1), math.Inf(-1)
		late := false
		for r := range a.rd.n() {
			x := a.own.at(r, s)
			if x != x {
				continue
			}
			top = max(top, x)
			if slices.Contains(ranks, r) {
				worst = max(worst, x)
				late = late || a.excess.at(r, s) > splitShare*a.rd.typical
			}
		}
		if late {
			affected++
			if worst >= top {
				last++
			}
		}
	}
	if affected == 0 {
		return 0, 0
	}
	return affected, float64(last) / float64(affected)
}

func (a *analysis) hotRanks() []*hot {
	var out []*hot
	for i, ranks := range a.rd.roles {
		ns := a.noise[i]
		for _, r := range ranks {
			// What the other ranks are like: their middle, and how far they lie
			// apart. Devices of one kind agree to 0.2 % of a step at best.
			var others []float64
			for _, q := range ranks {
				if q != r && a.medians[q] == a.medians[q] {
					others = append(others, a.medians[q])
				}
			}
			var middle, apart float64
			if len(others) > 0 {
				middle = robust.Median(slices.Clone(others))
				apart = robust.MAD(others)
			}
			apart = max(apart, 0.002*a.rd.typical)
			least := max(hotShare*a.rd.typical, middle+evidenceZ*apart)
			h := a.hotLevels(r, ns, least)
			switch {
			case h == nil:
			case a.launches(h.cause):
				a.suspects = append(a.suspects, r)
			default:
				out = append(out, h)
			}
		}
	}
	return out
}

// launches says that a phase is hidden, so that what is seen of it is the time
// in which the host launches work: the device may make up for that.
func (a *analysis) launches(cause string) bool {
	if cause == CauseCompute {
		cause = Forward.String()
	}
	return slices.ContainsFunc(a.rd.hides, func(p Phase) bool { return p.String() == cause })
}

// hotLevels gives the rounds in which the level of a rank is at least that.
func (a *analysis) hotLevels(r int, ns *noise, least float64) *hot {
	segs := a.levels[r]
	// A level below half of the rank's worst is another state than the
	// fault: noise that happened to come before it.
	for _, sg := range segs {
		least = max(least, sg.level/2)
	}
	var h *hot
	for i := 0; i < len(segs); i++ {
		// Neighbouring high levels are one excursion.
		j, n, total := i, 0, 0.0
		at, jumps := 0, false
		for j < len(segs) && segs[j].level > least {
			n += segs[j].to - segs[j].from
			total += segs[j].level * float64(segs[j].to-segs[j].from)
			j++
		}
		if j == i {
			continue
		}
		if few := a.rd.roles[a.rd.roleOf[r]]; len(few) > 1 && len(few) <= fewRanks {
			begin, to := segs[i].from, segs[j-1].to
			up, ok := a.risesSlowly(r, begin, to)
			if ok {
				begin = up.from
			}
			ns = withoutFault(a.own, few, r, begin, to, up)
			at, jumps = begin, true
		}
		if mean := total / float64(n); mean > ns.z*ns.mean(n) || jumps && ns.jumps(a.excessOf(r), at) {
			if h == nil {
				h = &hot{rank: r, from: segs[i].from, in: make([]bool, a.rd.m())}
			}
			h.to = segs[j-1].to
			for s := segs[i].from; s < h.to; s++ {
				h.in[s] = true
			}
		}
		i = j - 1
	}
	if h == nil {
		return nil
	}
	h.from = a.onset(r, h)
	h.fixed = make([]float64, a.rd.m())
	n := 0
	for s := range h.fixed {
		x := a.excess.at(r, s)
		h.fixed[s] = a.own.at(r, s)
		if h.in[s] && x == x {
			h.level += x
			n++
			h.fixed[s] -= max(x, 0)
		}
	}
	h.level /= float64(max(n, 1))
	excess, usual := a.excessByPhase(r, h.in)
	h.cause = cause(excess, usual)
	if h.cause == Forward.String() {
		h.unseen = a.unseen(h)
		// What backward takes without the transfer is not known, so that the
		// factors cannot be compared. A fifth of the excess is no part of the other.
		switch f := excess[Forward]; {
		case h.unseen > 4*f:
			h.cause = Backward.String()
		case h.unseen > f/4:
			h.cause = CauseCompute
		}
	}
	return h
}

// unseen gives by how much a rank that is slow in forward is slow in backward as
// well, where backward hides the wait. The last rank to begin it waits for
// nobody, so that the shortest backward of all is without wait. When it
// becomes longer together with the rank's forward, it is the same fault.
func (a *analysis) unseen(h *hot) float64 {
	if a.rd.barrier != atBackward || len(a.rd.hides) == 0 {
		return 0
	}
	var with, without []float64
	short := a.shortest(a.rd.wait, a.everyone())
	for s, in := range h.in {
		if in {
			with = append(with, a.rd.wait.at(h.rank, s))
		} else {
			without = append(without, short[s])
		}
	}
	if len(without) < minSegment {
		a.remark(ReasonBarrierHidden) // how it was before is not known
		return 0
	}
	// As much as any level of a rank needs, by size and by noise.
	over := levelOf(with) - levelOf(without)
	ns := changeNoise(short, h.from, h.to)
	if over > hotShare*a.rd.typical && over > ns.z*math.Hypot(ns.mean(len(with)), ns.mean(len(without))) {
		return over
	}
	return 0
}

// dropVictims leaves out ranks whose excess lies in no recorded span while a
// rank of another role is slow in a recorded one at the same time: the stages
// of a pipeline wait for each other, and without spans for that the wait looks
// like time of the host.
func (a *analysis) dropVictims(all []*hot) []*hot {
	if len(a.rd.roles) < 2 {
		return all
	}
	return slices.DeleteFunc(all, func(h *hot) bool {
		if h.cause != Host.String() {
			return false
		}
		return slices.ContainsFunc(all, func(c *hot) bool {
			return c.cause != Host.String() && a.rd.roleOf[c.rank] != a.rd.roleOf[h.rank] && c.from < h.to && h.from < c.to
		})
	})
}

// onset gives the first affected round. A level that is reached slowly is cut
// by segments where it is half way; a ramp that explains the excess clearly
// better than a step says where it began.
func (a *analysis) onset(r int, h *hot) int {
	up, ok := a.risesSlowly(r, h.from, h.to)
	if !ok {
		return h.from
	}
	for s := up.from; s < h.from; s++ {
		h.in[s] = true
	}
	return up.from
}

func (a *analysis) excessOf(r int) []float64 {
	row := make([]float64, a.rd.m())
	for s := range row {
		row[s] = a.excess.at(r, s)
	}
	return row
}

// risesSlowly finds the ramp of a rank's excess up to its level in [from, to).
func (a *analysis) risesSlowly(r, from, to int) (ramp, bool) {
	if from == 0 {
		return ramp{}, false
	}
	up, ok := findRamp(smooth(a.excessOf(r)[:to]), from)
	if !ok || up.by <= 0 {
		return ramp{}, false
	}
	return up, true
}
