package straggler

// likeness describes how the ranks of a role split their work among the intervals between the meetings of a
// round. A repair uses it to redistribute the work of the ranks that it changes. Without a likeness, a repair
// scales every interval by the same factor, so uneven intervals stay uneven.
type likeness struct {
	but []bool // ranks that are excluded as examples; nil for none

	// For the current round, indexed by 2*role for hosts and 2*role+1 for devices.
	pieces [][]float64 // by interval and phase: the part of the work of the phase
	totals []float64   // by phase: sum over the ranks
	cuts   []int       // intervals of a rank; uneven if ranks differ
}

// uneven marks a number of intervals that differs between ranks.
const uneven = -1

// isCut reports whether a piece ends an interval: after it the rank continues together with others.
func (pc *piece) isCut() bool {
	return pc.kind == collective || pc.kind == receive || pc.kind == join && pc.after > 0
}

// likeOthers returns the likeness of all ranks except the given ones.
func (j *job) likeOthers(ranks []int) *likeness {
	l := &likeness{}
	if len(ranks) > 0 {
		l.but = make([]bool, len(j.ranks))
		for _, r := range ranks {
			l.but[r] = true
		}
	}
	return l
}

// measure sums the work of a round by interval. It numbers the intervals of device operations in their lead
// field.
func (l *likeness) measure(j *job, programs []*program) {
	if l.cuts == nil {
		l.pieces, l.cuts = make([][]float64, 2*len(j.roles)), make([]int, 2*len(j.roles))
		l.totals = make([]float64, 2*len(j.roles)*int(phases))
	}
	clear(l.cuts)
	clear(l.totals)
	for i := range l.pieces {
		l.pieces[i] = l.pieces[i][:0]
	}
	for r, p := range programs {
		example := l.but == nil || !l.but[r]
		at, n := 2*j.roleOf[r], 0
		for i := range p.host {
			switch pc := &p.host[i]; {
			case pc.isCut():
				n++
			case pc.kind == work && example:
				l.add(at, n, pc)
			}
		}
		l.count(at, n)
		at, n = at+1, 0
		for i := range p.lanes {
			switch op := &p.lanes[i]; {
			case op.lane != Device:
			case op.isCut():
				n++
			default:
				op.lead = int64(n)
				if example {
					l.add(at, n, &op.piece)
				}
			}
		}
		l.count(at, n)
	}
	for at, parts := range l.pieces {
		for k := range parts {
			if total := l.totals[at*int(phases)+k%int(phases)]; total != 0 {
				parts[k] /= total
			}
		}
	}
}

func (l *likeness) add(at, n int, pc *piece) {
	for len(l.pieces[at]) < (n+1)*int(phases) {
		l.pieces[at] = append(l.pieces[at], 0)
	}
	l.pieces[at][n*int(phases)+int(pc.phase)] += float64(pc.dur)
	l.totals[at*int(phases)+int(pc.phase)] += float64(pc.dur)
}

// count records the number of cuts of a rank.
func (l *likeness) count(at, n int) {
	if n++; l.cuts[at] == 0 {
		l.cuts[at] = n
	}
	if l.cuts[at] != n {
		l.cuts[at] = uneven
	}
}

// part returns the fraction of their work of a phase that the examples do in interval n; ok reports whether
// it is known.
func (l *likeness) part(role int, device bool, n int, p Phase) (part float64, ok bool) {
	at := 2 * role
	if device {
		at++
	}
	if l.cuts[at] == uneven || l.totals[at*int(phases)+int(p)] == 0 {
		return 0, false
	}
	if k := n*int(phases) + int(p); k < len(l.pieces[at]) {
		part = l.pieces[at][k]
	}
	return part, true
}

// measureLikeness prepares the repairs that have a likeness for a round. The factors by row must already be
// set.
func (rp *replayer) measureLikeness(programs []*program) {
	rp.programs = programs
	if !rp.splits() {
		return
	}
	for _, l := range rp.likes {
		l.measure(rp.w, programs)
	}
	copy(rp.byRow, rp.factor)
}

// splits reports whether a repair distinguishes intervals in this round.
func (rp *replayer) splits() bool { return len(rp.likes) > 0 && rp.s >= rp.w.from }

// cutHost sets the factors of a host for its work up to the next cut.
func (rp *replayer) cutHost(a *actor) {
	var own [phases]float64
	i := a.i
	for ; i < len(a.todo) && !a.todo[i].isCut(); i++ {
		if pc := &a.todo[i]; pc.kind == work {
			own[pc.phase] += float64(pc.dur)
		}
	}
	rp.setPiece(a, a.piece, &own)
	a.piece, a.until = a.piece+1, i+1
}

// cutDevice sets the factors of a device for the interval of an operation.
func (rp *replayer) cutDevice(l *actor, op *laneOp) {
	if l.until == int(op.lead)+1 {
		return
	}
	var own [phases]float64
	for i := range rp.programs[l.rank].lanes {
		if o := &rp.programs[l.rank].lanes[i]; o.lane == Device && o.kind == work && o.lead == op.lead {
			own[o.phase] += float64(o.dur)
		}
	}
	rp.setPiece(l, int(op.lead), &own)
	l.until = int(op.lead) + 1
}

// setPiece sets the factors of a rank for its n-th interval. own is its work in that interval by phase.
func (rp *replayer) setPiece(a *actor, n int, own *[phases]float64) {
	r, device := a.rank, a.lane == Device
	if rp.plain[r] {
		return
	}
	for p := range phases {
		row := rowOf(device, p)
		all := rp.w.time(row, rp.s, r)
		if all == 0 || p == Input && rp.w.slack != nil {
			continue
		}
		for k := range rp.repairs {
			at := (r*rows+row)*rp.k + k
			like, by := rp.repairs[k].like, rp.byRow[at]
			if like == nil || by == 1 && like.but != nil {
				continue
			}
			part, ok := like.part(rp.w.roleOf[r], device, n, p)
			switch {
			case !ok:
			case own[p] > 0:
				rp.factor[at] = by * part * all / own[p]
			case !device:
				a.clock[k] += by * part * all
			}
		}
	}
}
