package straggler

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Verdict judges what the State holds. It changes nothing but may forget the
// oldest steps; more steps can be added afterwards.
func (s *State) Verdict() *Verdict {
	v, _ := s.verdict()
	return v
}

// Judge gives the verdict and the table that it was made of. It takes half the
// time of Verdict and Table; the same holds as for these.
func (s *State) Judge() (*Verdict, *Table) {
	v, rd := s.verdict()
	return v, s.tableOf(rd)
}

func (s *State) verdict() (*Verdict, *rounds) {
	s.trim()
	a := &analysis{s: s, opt: s.opt}
	v := &Verdict{Version: 1}
	a.coverage(v)
	a.judge(v)
	a.inSteps(v)
	a.describe(v)
	return v, a.built
}

// inSteps counts steps where windows were counted.
func (a *analysis) inSteps(v *Verdict) {
	if a.rd == nil || a.rd.per == 0 {
		return
	}
	per := int(a.rd.per)
	v.Coverage.WindowSteps = per
	v.Coverage.Steps *= per
	v.Coverage.SlowStart *= per
	v.Coverage.LastStep += int64(per - 1)
	for _, f := range append([]*Finding{&v.Finding}, pointers(v.Others)...) {
		if f.Evidence != nil {
			f.Evidence.Affected *= per
			f.Evidence.Interval *= per
		}
	}
}

func pointers(list []Finding) (out []*Finding) {
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

func (a *analysis) coverage(v *Verdict) {
	s := a.s
	c := &v.Coverage
	for _, r := range slices.Sorted(maps.Keys(s.ranks)) {
		rs := s.ranks[r]
		c.Disputed += rs.disputed
		if rs.steps.n > 0 {
			c.Seen++
		}
		c.Expected = max(c.Expected, r+1)
	}
	c.Expected = max(c.Expected, s.opt.WorldSize)
	c.Forgotten = s.forgot
	c.lack(c.Seen, func(r int) bool { rs := s.ranks[r]; return rs != nil && rs.steps.n > 0 })
	a.missing = c.Missing
}

// maxMissing bounds the list of missing ranks: what a record says of the rank may
// be wrong, and no one reads more.
const maxMissing = 64

// lack fills in the ranks that are missing; has says whether one is there, which
// so many are.
func (c *Coverage) lack(there int, has func(rank int) bool) {
	c.Missing = nil
	for r := 0; r < c.Expected && len(c.Missing) < min(c.Expected-there, maxMissing); r++ {
		if !has(r) {
			c.Missing = append(c.Missing, r)
		}
	}
	c.MissingMore = c.Expected - there - len(c.Missing)
}

func (a *analysis) judge(v *Verdict) {
	lost, lostAt := a.s.lost()
	insufficient := func(reason string) {
		v.Finding = Finding{Kind: InsufficientEvidence, ToStep: -1}
		v.Reason = reason
	}
	rd, spread := a.s.build()
	a.built = rd
	switch {
	case v.Coverage.Seen < 2:
		insufficient(ReasonSingleRank)
	case rd == nil:
		insufficient(ReasonNoBarrier)
		if spread < 1e9 {
			v.Coverage.BarrierSpread = spread
		} else if !a.s.anySteps() {
			insufficient(ReasonTooFewSteps)
		}
	case rd.m() < minRounds:
		a.rd = rd
		insufficient(ReasonTooFewSteps)
	default:
		a.rd = rd
		a.withoutRounds(&v.Coverage)
		a.missing = v.Coverage.Missing
		a.findAll()
		a.decide(v)
	}
	if len(lost) > 0 {
		// Nothing costs more than a job that stands still.
		if v.Kind != InsufficientEvidence && v.Kind != Healthy {
			v.Others = append([]Finding{v.Finding}, v.Others...)
		}
		v.Finding = Finding{Kind: RankLost, Ranks: lost, FromStep: lostAt, ToStep: -1}
		v.Reason, v.Suspects, v.Cleared = "", nil, nil
	}
	v.Reasons = a.remarks
	if a.rd != nil {
		a.fillCoverage(v)
	}
}

// anySteps says whether some rank has two barriers, so that there is a period, or
// so many steps that more of them would not help.
func (s *State) anySteps() bool {
	for _, rs := range s.ranks {
		if rs.steps.n >= minRounds {
			return true
		}
		n := 0
		for c := range rs.steps.all() {
			if c.has != [barriers]bool{} {
				n++
			}
			if n >= 2 {
				return true
			}
		}
	}
	return false
}

// withoutRounds fills in the ranks that are not among those judged.
func (a *analysis) withoutRounds(c *Coverage) {
	judged := make(map[int]bool)
	for i, r := range a.rd.ids {
		// A rank without two releases in a row has no own work to be judged.
		if slices.ContainsFunc(a.rd.own.row(i), func(x float32) bool { return x == x }) {
			judged[r] = true
		}
	}
	c.lack(len(judged), func(r int) bool { return judged[r] })
}

func (a *analysis) findAll() {
	a.linked = a.linkedRoles()
	a.work()
	a.prepare()
	a.chronic()
	a.spikes()
	a.input()
	a.transfers()
	a.slowdown()
	for _, p := range []Phase{Input, Transfer, Forward, Backward, Optimizer, Checkpoint, Host} {
		if !slices.Contains(a.rd.hides, p) {
			a.cleared = append(a.cleared, p.String())
		}
	}
}

// decide makes the largest finding the verdict, or says why there is none.
func (a *analysis) decide(v *Verdict) {
	slices.SortStableFunc(a.findings, func(x, y Finding) int { return cmp.Compare(y.Cost, x.Cost) })
	if len(a.findings) > 0 {
		v.Finding, v.Others = a.findings[0], a.findings[1:]
		for _, f := range a.findings {
			a.cleared = slices.DeleteFunc(a.cleared, func(p string) bool { return p == f.Cause })
		}
		v.Cleared = a.cleared
		return
	}
	v.Finding = Finding{Kind: Healthy, ToStep: -1}
	v.Cleared = a.cleared
	switch {
	case len(a.rd.hides) > 0:
		v.Kind, v.Reason = InsufficientEvidence, ReasonBarrierHidden
		v.Suspects = a.realRanks(a.suspects)
		if r, ok := a.suspect(); ok {
			v.Suspects = []int{a.rd.ids[r]}
		}
	case len(a.missing) > 0 && (slices.Contains(a.remarks, ReasonMissingRank) || a.missingDrives()):
		v.Kind, v.Reason = InsufficientEvidence, ReasonMissingRank
		v.Suspects = a.missing
	case a.waitsUnseen():
		v.Kind, v.Reason = InsufficientEvidence, ReasonBarrierHidden
	case a.allAlone():
		v.Kind, v.Reason = InsufficientEvidence, ReasonSingleRank
	}
}

// allAlone says that no rank has another one of its role to be compared with.
func (a *analysis) allAlone() bool {
	return !slices.ContainsFunc(a.rd.roles, func(ranks []int) bool { return len(ranks) > 1 })
}

func (a *analysis) remark(reason string) {
	if !slices.Contains(a.remarks, reason) {
		a.remarks = append(a.remarks, reason)
	}
}

func (a *analysis) fillCoverage(v *Verdict) {
	c, rd := &v.Coverage, a.rd
	c.Steps, c.SlowStart, c.BarrierSpread = rd.m(), rd.dropped, rd.spread
	c.Barrier = barrierNames[rd.barrier]
	v.StepTime = rd.typical / 1e6
	if rd.m() == 0 {
		return
	}
	c.FirstStep, c.LastStep = rd.steps[0], rd.steps[rd.m()-1]
	if a.noise == nil {
		return // too few steps to be judged
	}
	for i, ranks := range rd.roles {
		ns := a.noise[i]
		if len(ranks) > 1 && len(ranks) <= fewRanks {
			ns = measureNoise(pairs(a.own, [][]int{ranks}), rd.m(), pairScale(len(ranks)))
		}
		least := max(hotShare*rd.typical, ns.z*ns.mean(rd.m()), evidenceZ*max(a.peerMAD[i], 0.002*rd.typical))
		c.Detectable = max(c.Detectable, least/rd.typical)
	}
	a.table(v)
}

// table fills the rows that make the verdict believable.
func (a *analysis) table(v *Verdict) {
	rd := a.rd
	last := make([]int, rd.n())
	for s := range rd.m() {
		who, top := -1, 0.0
		for r := range rd.n() {
			if x := a.own.at(r, s); x > top {
				who, top = r, x
			}
		}
		if who >= 0 {
			last[who]++
		}
	}
	short := rd.transfer()
	if rd.barrier != atCollective {
		short = a.shortest(rd.wait, a.everyone())
	}
	x := make([]float64, rd.m())
	row := func(m matrix, r int) float64 {
		for s := range x {
			x[s] = m.at(r, s)
		}
		return orZero(levelOf(x) / 1e6)
	}
	for r, id := range rd.ids {
		info := a.s.ranks[id].info
		out := RankRow{Rank: id, Host: info.Host, Role: info.Role, Own: row(rd.own, r), Excess: orZero(a.medians[r] / 1e6),
			Phases: map[string]float64{}, Last: float64(last[r]) / float64(rd.m())}
		for p := range phases {
			if !slices.Contains(rd.hides, p) {
				// Device time under a collective makes the rest too small.
				out.Phases[p.String()] = max(row(rd.phase[p], r), 0)
			}
		}
		for s := range x {
			x[s] = rd.wait.at(r, s) - short[s]
			if rd.barrier == atCollective {
				x[s] = rd.communication(r, s) - short[s]
			}
		}
		out.Wait = orZero(levelOf(x) / 1e6)
		v.Ranking = append(v.Ranking, out)
	}
}

// orZero is what JSON can hold of a rank that has no value.
func orZero(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

func (a *analysis) hosts(ranks []int) []string {
	var out []string
	for _, r := range ranks {
		if rs := a.s.ranks[r]; rs != nil && rs.info.Host != "" && !slices.Contains(out, rs.info.Host) {
			out = append(out, rs.info.Host)
		}
	}
	return out
}
