package replay

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/robust"
)

// The least gain that is reported, by kind. Below, jobs without any fault have some:
// of 1,620 drawn ones none gained 1.017 by a repair of ranks. What is no rank's fault
// has more to gain by chance: balance follows the noise of all ranks, and no input at
// all is an upper limit.
const (
	floorRanks   = 1.02
	floorLink    = 1.03
	floorDrift   = 1.03
	floorSegment = 1.05 // of a drift since it began: what all share wanders as well
	leastBalance = 0.05
	usualRanks   = 8
	muchBalance  = 0.10 // where usual noise explains most of it
	noiseTimes   = 1.5
	floorInput   = 1.10
	// A repair is the headline when it has this part of the largest gain: the
	// narrowest one that explains most.
	headlinePart = 0.5
	// A set of ranks shrinks as long as this part of its gain stays.
	setPart = 0.9
	// replayError is by how much the replay of recorded values may differ.
	replayError = 0.03
	leastRounds = 6
	fewRounds   = 20 // with fewer nothing is said to be fine
	mostLate    = 24
)

// found is a repair that gains.
type found struct {
	Finding
	gain  float64
	clock []float64
}

// Judge gives the verdict and the table that it was made of.
func (s *State) Judge() (*Verdict, *Table) {
	s.trim()
	j := newJob(s)
	v := &Verdict{Version: 2, Coverage: Coverage{Expected: s.expected(), Seen: len(j.ranks), Forgotten: s.forgot}}
	if s.windowed {
		v.Coverage.WindowSteps = WindowSteps
	}
	for _, rs := range s.ranks {
		v.Coverage.Disputed += rs.disputed
	}
	v.Coverage.Missing, v.Coverage.MissingMore = j.missing, j.more
	if len(j.ranks) == 0 || len(j.steps) < 2 {
		v.unknown(ReasonTooFewSteps)
		if len(j.ranks) < 2 {
			v.unknown(ReasonSingleRank)
		}
		if h := s.hung(0); h != nil && len(j.ranks) > 1 {
			j.hangs(v, h)
		}
		describe(v, j)
		return v, nil
	}
	j.load()
	j.meet()
	j.findPlaces()
	v.Coverage.Steps, v.Coverage.SlowStart = j.rounds(), j.from
	v.Coverage.FirstStep, v.Coverage.LastStep = j.number(min(j.from, len(j.steps)-1)), j.number(len(j.steps)-1)
	v.StepTime = j.typical() / 1e3
	asItWas := j.replay()
	if j.own = asItWas.own; !asItWas.finished {
		j.sumOwn()
	}
	t := j.table(asItWas)
	if len(j.steps) == j.from {
		v.unknown(ReasonTooFewSteps)
	} else {
		j.verdict(v, asItWas)
	}
	j.ranking(v, t)
	describe(v, j)
	return v, t
}

// Verdict judges what the State holds. It changes nothing but may forget the oldest
// steps; more steps can be added afterwards.
func (s *State) Verdict() *Verdict {
	v, _ := s.Judge()
	return v
}

func (v *Verdict) unknown(reason string) {
	v.Kind, v.Reason = Unknown, reason
}

// meet looks at who meets whom.
func (j *job) meet() {
	if len(j.ranks) < 2 {
		return
	}
	if !j.connected() {
		j.findHidden()
	}
}

// connected reports whether the meetings on record join all ranks.
func (j *job) connected() bool {
	of := make([]int, len(j.ranks))
	for i := range of {
		of[i] = i
	}
	var find func(int) int
	find = func(i int) int {
		if of[i] != i {
			of[i] = find(of[i])
		}
		return of[i]
	}
	met := j.met()
	for g := range j.groups {
		if !met[g] {
			continue
		}
		for _, r := range j.groups[g].members[1:] {
			of[find(r)] = find(j.groups[g].members[0])
		}
	}
	for i := range of {
		if find(i) != find(0) {
			return false
		}
	}
	return true
}

// met says in which groups ranks meet in most rounds.
func (j *job) met() []bool {
	count := make([]int, len(j.groups))
	rd := j.read()
	n := 0
	for s := range j.steps {
		rd.round()
		if s < j.from {
			continue
		}
		n++
		seen := map[int]bool{}
		for r, p := range rd.programs {
			for i := range p.host {
				if p.host[i].kind == collective && p.host[i].group != hiddenGroup {
					seen[j.gid[r][p.host[i].group]] = true
				}
			}
			for i := range p.lanes {
				if p.lanes[i].kind == collective {
					seen[j.gid[r][p.lanes[i].group]] = true
				}
			}
		}
		for g := range seen {
			count[g]++
		}
	}
	out := make([]bool, len(j.groups))
	for g := range out {
		out[g] = 10*count[g] >= n
	}
	return out
}

// findHidden looks for the phase at whose end all ranks go on together: the meeting
// that no span shows hides in it. It is the one whose ends lie equally far apart on all
// ranks.
func (j *job) findHidden() {
	const most = 0.03 // of a step: ranks that nothing holds together differ by more
	n := len(j.ranks)
	best := math.Inf(1)
	var which Phase
	for _, p := range [...]Phase{Backward, Optimizer} {
		last := make([]int64, n)
		var spreads []float64
		rd := j.read()
		for s := range j.steps {
			rd.round()
			low, high, ok := math.Inf(1), math.Inf(-1), true
			for r, pr := range rd.programs {
				end, at := int64(-1), pr.start
				for i := range pr.host {
					at += pr.host[i].dur
					if pr.host[i].kind == work && pr.host[i].phase == p {
						end = at
					}
				}
				if end < 0 {
					ok = false
					break
				}
				d := float64(end - last[r])
				low, high = min(low, d), max(high, d)
				last[r] = end
			}
			if !ok {
				spreads = nil
				break
			}
			if s > j.from && rd.follows {
				spreads = append(spreads, (high-low)/j.period[s])
			}
		}
		if len(spreads) == 0 {
			continue
		}
		if m := robust.Median(spreads); m < best {
			best, which = m, p
		}
	}
	j.spread = best
	if best <= most {
		j.hides = which
		for row := range j.row {
			j.row[row] = nil
		}
		from := j.from
		j.load()
		j.from = from
	}
}

// verdict says what holds the job up.
func (j *job) verdict(v *Verdict, was *outcome) {
	if h := j.st.hung(int64(j.typical() * 1e3)); h != nil {
		j.hangs(v, h)
		return
	}
	switch {
	case len(j.ranks) < 2:
		v.unknown(ReasonSingleRank)
		return
	case j.rounds() < leastRounds:
		v.unknown(ReasonTooFewSteps)
		return
	case !was.finished:
		v.unknown(ReasonReplay)
		return
	case j.hides == Host && !j.connected():
		v.unknown(ReasonNoBarrier)
		return
	}
	m := len(j.steps)
	recorded := 0.0
	for _, p := range j.period[j.from:] {
		recorded += p
	}
	replayed := was.span(j, 0, j.from, m)
	v.Coverage.ReplayError = math.Abs(replayed/recorded - 1)
	if v.Coverage.ReplayError > replayError {
		v.unknown(ReasonReplay)
		return
	}
	if j.unseenWaits() {
		v.unknown(ReasonHidden)
		return
	}
	all := j.findings(was)
	var best float64
	for _, f := range all {
		best = max(best, f.gain)
	}
	if len(all) == 0 {
		v.Kind = Fine
		switch {
		case j.rounds() < fewRounds:
			v.unknown(ReasonTooFewSteps)
		case j.hides != Host:
			v.unknown(ReasonHidden)
		case len(j.missing) > 0 && j.held(was):
			v.unknown(ReasonMissingRank)
			v.Suspects = j.missing
		}
		return
	}
	head := slices.IndexFunc(all, func(f found) bool { return f.gain-1 >= headlinePart*(best-1) })
	if f := &all[head]; f.Kind == SlowRanks && j.hiddenAmong(f.Ranks) {
		v.unknown(ReasonHidden)
		v.Suspects = f.Ranks
		return
	}
	v.Finding = all[head].Finding
	for i, f := range all {
		if i != head {
			v.Others = append(v.Others, f.Finding)
		}
	}
	slices.SortStableFunc(v.Others, func(a, b Finding) int {
		if a.Gain > b.Gain {
			return -1
		}
		return 1
	})
	if len(j.missing) > 0 && (v.Kind == SlowTransfer || v.Kind == Drift && v.Cause == Communication.String()) {
		v.Finding = Finding{}
		v.unknown(ReasonMissingRank)
		v.Suspects = j.missing
	}
}

// hiddenAmong reports whether two of the ranks meet in a group whose collectives are
// only in part on record for the device: then one of them may wait for the other in what
// looks like work.
func (j *job) hiddenAmong(ranks []int) bool {
	for g := range j.groups {
		if len(j.groups[g].members) == len(j.ranks) || !j.groups[g].unseen {
			continue
		}
		n := 0
		for _, r := range j.groups[g].members {
			if slices.Contains(ranks, j.ranks[r]) {
				n++
			}
		}
		if n > 1 {
			return true
		}
	}
	return false
}

// held reports whether the ranks on record may wait for one that is not: transfers take
// a large part of a step or more than before, or the shorter the later the slowest of
// these ranks comes, as the wait for another one is.
func (j *job) held(was *outcome) bool {
	const some, large, slope = 0.05, 0.1, -0.2
	m := j.rounds()
	least, top := make([]float64, m), make([]float64, m)
	for s := range m {
		least[s] = math.Inf(1)
		for r := range j.ranks {
			at := j.at(j.from+s, r)
			least[s], top[s] = min(least[s], float64(was.transfer[at])), max(top[s], float64(j.own[at]))
		}
	}
	if _, _, in, out, z := interval(least); z > changeErrors && in > 1.2*out {
		return true
	}
	mx, my := meanOf(top), meanOf(least)
	var xy, xx, yy float64
	for s := range m {
		xy += (top[s] - mx) * (least[s] - my)
		xx += (top[s] - mx) * (top[s] - mx)
		yy += (least[s] - my) * (least[s] - my)
	}
	if my > large*j.typical() {
		return true
	}
	if my < some*j.typical() || xx == 0 {
		return false
	}
	b := xy / xx
	se := math.Sqrt(max(yy-b*xy, 0) / xx / float64(max(m-2, 1)))
	return b < slope && b < -2*se
}

// span is how long the rounds from one to before another took in a replay.
func (o *outcome) span(j *job, k, from, to int) float64 {
	start := 0.0
	if from > 0 {
		start = o.clock[(from-1)*o.k+k]
	}
	return o.clock[(to-1)*o.k+k] - start
}

// gain is how much faster rounds are with a repair.
func (o *outcome) gain(j *job, k, from, to int) float64 {
	with := o.span(j, k, from, to)
	if with <= 0 {
		return 1
	}
	return o.span(j, 0, from, to) / with
}

// unseenWaits reports whether ranks of different roles spend a tenth of the step in no
// span where they may wait for each other, and nothing of what they exchange is on
// record.
func (j *job) unseenWaits() bool {
	if j.device || j.row[Host] == nil {
		return false
	}
	shares := make([]float64, 0, len(j.ranks))
	for r := range j.ranks {
		sum := 0.0
		for s := j.from; s < len(j.steps); s++ {
			sum += float64(j.row[Host][j.at(s, r)])
		}
		shares = append(shares, sum/float64(j.rounds())/j.typical())
	}
	return len(j.roles) > 1 && robust.Median(shares) > 0.1
}

// candidate is a repair, and what it says when it gains enough, in all or since a round.
type candidate struct {
	floor float64
	since int
	of    func(gain float64) *found
}

// findings are the repairs that gain enough, the narrowest first.
func (j *job) findings(was *outcome) (all []found) {
	e := j.excess()
	if f := j.lateRanks(e); f != nil {
		all = append(all, *f)
	}
	var repairs []repair
	var made []candidate
	add := func(rep repair, c candidate) {
		repairs, made = append(repairs, rep), append(made, c)
	}
	j.links(was, add)
	j.drifts(was, add)
	add(j.repairInput(), candidate{floor: floorInput, of: func(gain float64) *found {
		f := j.finding(InputSlow, nil, Input.String(), gain)
		f.Evidence = &Evidence{Level: j.mean(rowOf(false, Input)) / 1e3}
		return f
	}})
	add(j.repairBalance(), candidate{floor: 1 + leastBalance, of: func(gain float64) *found {
		if gain < j.floorBalance(e, gain) {
			return nil
		}
		return j.imbalance(e, gain)
	}})
	o, m := j.replay(repairs...), len(j.steps)
	for k, c := range made {
		gain, segment := o.gain(j, k+1, j.from, m), 0.0
		if c.since > j.from {
			segment = o.gain(j, k+1, c.since, m)
		}
		if gain < c.floor && (segment < floorSegment || m-c.since < leastSegment) {
			continue
		}
		if f := c.of(gain); f != nil {
			f.SegmentGain = segment
			all = append(all, *f)
		}
	}
	return all
}

func (j *job) finding(kind Kind, ranks []int, cause string, gain float64) *found {
	f := &found{gain: gain}
	f.Kind, f.Cause, f.Gain, f.FromStep, f.ToStep = kind, cause, gain, j.number(j.from), -1
	f.Cost = 1 - 1/gain
	for _, r := range ranks {
		f.Ranks = append(f.Ranks, j.ranks[r])
	}
	slices.Sort(f.Ranks)
	return f
}

// mean time of a kind of work in a step.
func (j *job) mean(row int) float64 {
	if j.row[row] == nil {
		return 0
	}
	sum := 0.0
	for _, v := range j.row[row][j.from*len(j.ranks):] {
		sum += float64(v)
	}
	return sum / float64(len(j.ranks)*j.rounds())
}

// lateRanks finds the ranks that are late, in the whole run or since or until a step at
// which the excess of one of them changed.
func (j *job) lateRanks(e [][]float64) *found {
	m := j.rounds()
	segments := [][2]int{{0, m}}
	most := 0.0
	for r := range e {
		if e[r] == nil {
			continue
		}
		if from, to, in, out, z := interval(e[r]); z > segmentErrors && z > most && to-from >= shortSegment && to-from < m && min(in, in-out) > lateShare*j.typical() {
			segments, most = [][2]int{{0, m}, {from, to}}, z
		}
	}
	var best *found
	for i, sg := range segments {
		f := j.lateIn(e, sg[0], sg[1], len(segments))
		if f == nil || best != nil && f.gain < best.gain {
			continue
		}
		if i > 0 && best != nil && slices.Equal(best.Ranks, f.Ranks) {
			continue // the whole run says it as well
		}
		best = f
	}
	return best
}

// The shortest part of a run in which ranks are looked for, and the shortest of which the
// gain counts by itself.
const (
	shortSegment  = 10
	segmentErrors = 5 // that its level must have above the rest
	leastSegment  = 30
)

// lateIn finds the smallest set of ranks late between two rounds whose repair has most
// of the gain.
func (j *job) lateIn(e [][]float64, from, to, tests int) *found {
	var late []lateRank
	for _, role := range j.roles {
		late = append(late, j.late(e, role, from, to, tests)...)
	}
	if len(late) == 0 {
		return nil
	}
	slices.SortStableFunc(late, func(a, b lateRank) int { return cmp.Compare(b.mean, a.mean) })
	if len(late) > mostLate {
		late = late[:mostLate]
	}
	var set []int
	for _, l := range late {
		set = append(set, l.rank)
	}
	first, end := j.from+from, j.from+to
	rep := func(set []int) repair {
		of := map[int][]int{}
		for _, r := range set {
			of[r] = j.rowsOf(r, set, first, end, repairPart)
		}
		return j.repairRanks(set, of, first, end)
	}
	o, k := j.replay(rep(set)), 1
	full := o.gain(j, k, j.from, len(j.steps))
	for len(set) > 1 {
		var smaller []repair
		for i := range set {
			smaller = append(smaller, rep(slices.Delete(slices.Clone(set), i, i+1)))
		}
		less := j.replay(smaller...)
		best, at := 0.0, -1
		for i := range set {
			if g := less.gain(j, i+1, j.from, len(j.steps)); g > best {
				best, at = g, i
			}
		}
		if best-1 < setPart*(full-1) {
			break
		}
		o, k, set = less, at+1, slices.Delete(set, at, at+1)
	}
	gain, segment := o.gain(j, k, j.from, len(j.steps)), 0.0
	if to-from < j.rounds() {
		segment = o.gain(j, k, first, end)
	}
	if gain < floorRanks && (segment < floorRanks || to-from < leastSegment) {
		return nil
	}
	slices.Sort(set)
	f := j.finding(SlowRanks, set, "", gain)
	f.SegmentGain = segment
	f.Causes = map[int]string{}
	for _, r := range set {
		f.Causes[j.ranks[r]] = causeOf(j.rowsOf(r, set, first, end, causePart))
	}
	f.Cause = f.Causes[j.ranks[set[0]]]
	for _, c := range f.Causes {
		if c != f.Cause {
			f.Cause = CauseMixed
		}
	}
	if f.Cause == CauseCompute || f.Cause == Forward.String() || f.Cause == Backward.String() {
		if j.followsTokens(e, set) {
			f.Kind, f.Cause = Imbalance, CauseWork
		}
	}
	j.when(f, e, set)
	if segment > 0 {
		f.FromStep = j.number(first)
		if f.ToStep = -1; end < len(j.steps) {
			f.ToStep = j.number(end)
		}
	} else if f.FromStep != j.number(j.from) || f.ToStep >= 0 {
		a, b := j.from, len(j.steps)
		for s := range j.steps {
			if j.number(s) <= f.FromStep {
				a = max(a, s)
			}
			if f.ToStep >= 0 && j.number(s) < f.ToStep {
				b = s + 1
			}
		}
		if f.ToStep < 0 {
			b = len(j.steps)
		}
		f.SegmentGain = o.gain(j, k, a, b)
	}
	return f
}

// causeOf names what kinds of work have in common.
func causeOf(rows []int) string {
	if len(rows) == 0 {
		return CauseMixed
	}
	names := map[Phase]bool{}
	for _, row := range rows {
		names[Phase(row%int(phases))] = true
	}
	switch {
	case len(names) == 1:
		return Phase(rows[0] % int(phases)).String()
	case len(names) == 2 && names[Forward] && names[Backward]:
		return CauseCompute
	}
	return CauseMixed
}

// followsTokens reports whether the excess of ranks is that of their tokens.
func (j *job) followsTokens(e [][]float64, set []int) bool {
	if j.tokens == nil {
		return false
	}
	var x, y []float64
	for s := range j.rounds() {
		for _, role := range j.roles {
			var t []float64
			for _, r := range role {
				t = append(t, float64(j.tokens[j.at(j.from+s, r)]))
			}
			m := robust.Median(t)
			for _, r := range role {
				if e[r] != nil {
					x = append(x, float64(j.tokens[j.at(j.from+s, r)])-m)
					y = append(y, e[r][s])
				}
			}
		}
	}
	const follows = 0.7
	return correlated(x, y) > follows
}

func correlated(x, y []float64) float64 {
	mx, my := meanOf(x), meanOf(y)
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
		yy += (y[i] - my) * (y[i] - my)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// when says since when ranks are late, and how often.
func (j *job) when(f *found, e [][]float64, set []int) {
	m := j.rounds()
	x := make([]float64, m)
	for s := range x {
		x[s] = math.Inf(-1)
		for _, r := range set {
			x[s] = max(x[s], e[r][s])
		}
	}
	from, to := 0, m
	if a, b, in, out, z := interval(x); z > changeErrors && out < in/3 {
		from, to = a, b
	}
	f.FromStep = j.number(j.from + from)
	if to < m {
		f.ToStep = j.number(j.from + to)
	}
	level := meanOf(x[from:to])
	n := 0
	var over []float64
	for _, v := range x[from:to] {
		if v > level/2 {
			n++
			over = append(over, v)
		}
	}
	f.Pattern = PatternMost
	if 2*n < to-from {
		f.Pattern = PatternSingle
	}
	f.Evidence = &Evidence{Affected: n, Interval: to - from}
	if len(over) > 0 {
		f.Evidence.Excess, f.Evidence.ExcessMAD = robust.Median(slices.Clone(over))/1e3, robust.MAD(over)/1e3
	}
}

// links finds groups whose transfers take longer than those of others like them.
func (j *job) links(was *outcome, add func(repair, candidate)) {
	for _, family := range j.families() {
		if len(family) < 2 {
			continue
		}
		lane := map[int][]float64{}
		for _, g := range family {
			for _, l := range [...]uint8{0, 1, Device} {
				if x := was.transfers[meetKey{g, l}]; x != nil {
					lane[g] = x
				}
			}
		}
		for _, g := range family {
			x := lane[g]
			if x == nil {
				continue
			}
			peers := func(s int) float64 {
				var of []float64
				for _, o := range family {
					if o != g && lane[o] != nil && lane[o][s] == lane[o][s] {
						of = append(of, lane[o][s])
					}
				}
				return robust.Median(of)
			}
			if len(lane) < 2 {
				continue
			}
			over, all := 0.0, 0.0
			for s := j.from; s < len(j.steps); s++ {
				if x[s] == x[s] {
					over += x[s] - peers(s)
					all += x[s]
				}
			}
			if over < 0.2*all || over/float64(j.rounds()) < lateShare*j.typical() {
				continue
			}
			members := j.groups[g].members
			rep := repairTransfer(g, func(s int, t float64) float64 {
				if p := peers(s); x[s] > 0 && p < x[s] {
					return t * p / x[s]
				}
				return t
			})
			add(rep, candidate{floor: floorLink, of: func(gain float64) *found {
				f := j.finding(SlowTransfer, members, Communication.String(), gain)
				f.Evidence = &Evidence{Excess: over / float64(j.rounds()) / 1e3}
				return f
			}})
		}
	}
}

// drifts finds what takes longer for all ranks from a step on.
func (j *job) drifts(was *outcome, add func(repair, candidate)) {
	if drift := j.levels(); len(drift) > 0 {
		since := len(j.steps)
		for _, rows := range drift {
			for _, l := range rows {
				since = min(since, l.at)
			}
		}
		add(j.repairLevels(drift), candidate{floor: floorDrift, since: since, of: func(gain float64) *found { return j.drift(drift, gain) }})
	}
	for _, family := range j.families() {
		if len(family) != 1 && len(j.groups[family[0]].members) < len(j.ranks) {
			continue
		}
		g := family[0]
		var x []float64
		for _, l := range [...]uint8{0, 1, Device} {
			if of := was.transfers[meetKey{g, l}]; of != nil {
				if x == nil {
					x = make([]float64, j.rounds())
				}
				for s := range x {
					if v := of[j.from+s]; v == v {
						x[s] += v
					}
				}
			}
		}
		at, before, after, z := change(x, changeLeast)
		if z <= changeErrors || after-before < lateShare*j.typical() {
			continue
		}
		rep := repairTransfer(g, func(s int, t float64) float64 {
			if s >= j.from+at {
				return t * before / after
			}
			return t
		})
		add(rep, candidate{floor: floorDrift, since: j.from + at, of: func(gain float64) *found {
			f := j.finding(SlowTransfer, nil, Communication.String(), gain)
			f.FromStep = j.number(j.from + at)
			f.Evidence = &Evidence{Level: after / 1e3, Before: before / 1e3}
			return f
		}})
	}
}

// drift says what takes longer than before. Where most ranks do as they did, it is those
// that do not: a rank that is alone in its role has nothing but its past to compare with.
func (j *job) drift(of map[int]map[int]rise, gain float64) *found {
	var ranks, list []int
	var most rise
	seen := map[int]bool{}
	for role := range j.roles {
		if of[role] == nil {
			continue
		}
		ranks = append(ranks, j.roles[role]...)
		for row := range rows {
			l, ok := of[role][row]
			if !ok {
				continue
			}
			if !seen[row] {
				seen[row] = true
				list = append(list, row)
			}
			if l.after-l.before > most.after-most.before {
				most = l
			}
		}
	}
	kind := SlowRanks
	if 2*len(ranks) > len(j.ranks) {
		kind, ranks = Drift, nil
	}
	f := j.finding(kind, ranks, causeOf(list), gain)
	f.FromStep, f.Pattern = j.number(most.at), PatternMost
	n := len(j.steps) - most.at
	f.Evidence = &Evidence{Affected: n, Interval: n, Excess: (most.after - most.before) / 1e3, Level: most.after / 1e3, Before: most.before / 1e3}
	return f
}

// imbalance says what a balanced job would gain.
func (j *job) imbalance(e [][]float64, gain float64) *found {
	// The kinds of work in which another rank is late each time.
	var parts [rows]float64
	for row := range rows {
		if j.row[row] == nil {
			continue
		}
		for s := j.from; s < len(j.steps); s++ {
			for role, list := range j.roles {
				m := j.common(row, s, role, nil)
				most := 0.0
				for _, r := range list {
					most = max(most, float64(j.row[row][j.at(s, r)])-m)
				}
				parts[row] += most
			}
		}
	}
	all := 0.0
	for _, p := range parts {
		all += p
	}
	var list []int
	for row, p := range parts {
		if p > 0.35*all {
			list = append(list, row)
		}
	}
	f := j.finding(Imbalance, nil, causeOf(list), gain)
	if j.followsTokens(e, nil) {
		f.Cause = CauseWork
	}
	// In how many steps is a rank late, and is it another one each time?
	n := 0
	last := make([]int, len(j.ranks))
	for s := range j.rounds() {
		most, who := leastBalance*j.typical(), -1
		for r := range e {
			if e[r] != nil && e[r][s] > most {
				most, who = e[r][s], r
			}
		}
		if who >= 0 {
			n++
			last[who]++
		}
	}
	if len(j.ranks) > 2 && 2*slices.Max(last) > n && f.Cause != CauseWork {
		return nil
	}
	f.Pattern = PatternMost
	if 2*n < j.rounds() {
		f.Pattern = PatternSingle
	}
	f.Evidence = &Evidence{Affected: n, Interval: j.rounds()}
	return f
}

// floorBalance is the least gain of balance. Whatever the noise, one of the ranks comes
// last: what that costs is known from how much ranks differ usually and from how many
// there are, and of a gain that is hardly more it has to be much.
func (j *job) floorBalance(e [][]float64, gain float64) float64 {
	n := 0
	var x []float64
	for r := range e {
		if e[r] != nil {
			n = max(n, len(j.roles[j.roleOf[r]]))
			x = append(x, e[r]...)
		}
	}
	if n < 2 {
		return math.Inf(1)
	}
	// The expected largest of n normal values (Blom).
	k := math.Sqrt2 * math.Erfinv(2*(float64(n)-0.375)/(float64(n)+0.25)-1)
	if noise := robust.Sigma * robust.MAD(x) * k / j.typical(); gain-1 < noiseTimes*noise {
		return 1 + muchBalance
	}
	// The tails of noise make the largest of many draws grow as well.
	return 1 + leastBalance*math.Sqrt(math.Log(float64(max(n, usualRanks)))/math.Log(usualRanks))
}

func (j *job) hangs(v *Verdict, h *hang) {
	v.Kind, v.Ranks, v.FromStep, v.ToStep = Hang, h.ranks, h.step, -1
	v.Evidence = &Evidence{Waited: float64(h.waited) / 1e6}
}
