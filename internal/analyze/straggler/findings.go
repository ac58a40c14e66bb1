package straggler

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// findings returns the repairs whose gain exceeds the threshold of their kind, the narrowest first. below
// holds those that gain at least as much as a rank finding must but stay below their own threshold, so that
// they may be chance.
func (j *job) findings(was *outcome) (all, below []finding.Finding) {
	e := j.excess()
	sets := j.lateSets(e, beyondChance)
	var repairs []repair
	for _, set := range sets {
		repairs = append(repairs, j.repairRanks(set, set.ranks))
	}
	const always = 3 // input, balance, and balance of sums
	wide := screen(append(j.links(was), j.drifts(was)...), mostReplays-len(sets)-always)
	var made []candidate
	add := func(rep repair, c candidate) {
		repairs, made = append(repairs, rep), append(made, c)
	}
	for _, c := range wide {
		add(c.rep, c)
	}
	even, balanced := j.repairBalance(), 1+len(repairs)
	var o *outcome
	add(even, candidate{floor: 1 + leastBalance, of: func(gain float64) *finding.Finding {
		sums := o.gain(len(repairs), j.from, len(j.steps))
		if gain < 1+muchBalance && sums < j.floorBalance(e, sums) {
			return nil
		}
		if finding.CostOf(sums) < finding.CostOf(gain)/2 {
			return j.unevenPieces(o, balanced, gain)
		}
		return j.imbalance(e, gain)
	}})
	if j.allWait() {
		add(j.repairInput(), candidate{floor: floorInput, of: func(gain float64) *finding.Finding {
			f := j.finding(finding.InputSlow, nil, Input.String(), gain)
			of := j.means(rowOf(false, Input))
			f.Evidence = &finding.Evidence{Level: stats.Mean(of) / 1e3, Others: slices.Min(of) / 1e3}
			j.whenInput(f)
			return f
		}})
	}
	sums := even
	sums.like = nil
	repairs = append(repairs, sums)
	o = j.replay(repairs...)
	m := len(j.steps)
	if f := j.lateRanks(sets, e, o); f != nil {
		all = append(all, *f)
	}
	for k, c := range made {
		k += 1 + len(sets)
		gain, segment := o.gain(k, j.from, m), 0.0
		end := m
		if c.end > 0 {
			end = c.end
		}
		if c.since > j.from || end < m {
			segment = o.gain(k, c.since, end)
		}
		enough := gain >= c.floor || segment >= floorSegment && end-c.since >= leastSegment
		if !enough && gain < floorRanks {
			continue
		}
		if f := c.of(gain); f != nil {
			f.SegmentGain = segment
			f.GainLow, f.GainHigh = o.bounds(j, k)
			if enough {
				all = append(all, *f)
			} else {
				below = append(below, *f)
			}
		}
	}
	return all, below
}

// screen keeps the given number of repairs, those with the largest excess, in their original order.
func screen(list []candidate, most int) []candidate {
	if len(list) <= most {
		return list
	}
	least := slices.SortedFunc(slices.Values(list), func(a, b candidate) int { return cmp.Compare(b.excess, a.excess) })[most-1].excess
	return slices.DeleteFunc(list, func(c candidate) bool { return c.excess < least })[:most]
}

// doubtful returns a possible but unproven cause: ranks whose repair gains enough if their lag is not chance,
// or a repair below the threshold of its kind. It is called if nothing is found; below is the second result
// of findings.
func (j *job) doubtful(below []finding.Finding) *finding.Finding {
	e := j.excess()
	sets := j.lateSets(e, perhaps)
	var repairs []repair
	for _, set := range sets {
		repairs = append(repairs, j.repairRanks(set, set.ranks))
	}
	if len(sets) > 0 {
		if f := j.lateRanks(sets, e, j.replay(repairs...)); f != nil {
			return f
		}
	}
	for i := range below {
		if k := below[i].Kind; k == finding.SlowTransfer || k == finding.Drift || k == finding.SlowRanks {
			return &below[i]
		}
	}
	return nil
}

// behindLoader returns ranks that are late beyond chance but whose repair gains enough only if batches are
// available at once. A queue that these ranks themselves slow down does not show the speed of the loader. If
// they are late because they wait for batches, the loaders of other ranks may be as slow: their queues fill
// while they wait. It returns nil if no such ranks exist.
func (j *job) behindLoader() *finding.Finding {
	if j.slack == nil {
		return nil
	}
	e := j.excess()
	for _, set := range j.lateSets(e, beyondChance) {
		both, ranks, input := j.repairInput(), j.repairRanks(set, set.ranks), j.repairInput()
		both.like = ranks.like
		both.work = func(s, r, row int) float64 {
			if f := input.work(s, r, row); f != 1 || !slices.Contains(set.ranks, r) {
				return f
			}
			return ranks.work(s, r, row)
		}
		o := j.replay(input, both)
		m := len(j.steps)
		gain := o.gain(2, j.from, m) / o.gain(1, j.from, m)
		waits := slices.ContainsFunc(set.ranks, func(r int) bool { return slices.Contains(set.rows[r], rowOf(false, Input)) })
		if all := o.gain(2, j.from, m); waits && all >= floorInput {
			gain = all
		}
		if gain < floorRanks {
			continue
		}
		f := j.slowRanks(set, set.ranks, gain)
		j.when(f, e, set, set.ranks)
		return f
	}
	return nil
}

// slowRanks returns the finding that ranks of a set are late, with the causes.
func (j *job) slowRanks(late *lateSet, ranks []int, gain float64) *finding.Finding {
	f := j.finding(finding.SlowRanks, ranks, "", gain)
	f.Causes = map[int]string{}
	usual := late.without(j, ranks)
	for _, r := range ranks {
		f.Causes[j.ranks[r]] = causeOf(j.rowsOf(r, usual, late.first, late.end, causePart))
	}
	f.Cause = inCommon(f.Causes, f.Ranks)
	return f
}

// allWait reports whether every rank waits for data at least half as long as the mean over all ranks;
// otherwise only some ranks are affected. If batches come from queues, it reports whether every rank has one.
func (j *job) allWait() bool {
	row := rowOf(false, Input)
	if j.row[row] == nil {
		return false
	}
	of := j.means(row)
	if j.slack != nil {
		return !slices.ContainsFunc(j.slack, func(s []float64) bool { return s == nil })
	}
	return slices.Min(of) > stats.Mean(of)/2
}

// whenInput fills the evidence on waiting for data: in how many of the judged rounds ranks wait, how long,
// and whether only a few ranks wait each time.
func (j *job) whenInput(f *finding.Finding) {
	row, few := rowOf(false, Input), 0
	x := make([]float64, len(j.ranks))
	var waits []float64
	for s := j.from; s < len(j.steps); s++ {
		for r := range x {
			x[r] = j.time(row, s, r)
		}
		mean := stats.Mean(x)
		if mean < f.Evidence.Level*1e3/2 {
			continue
		}
		waits = append(waits, mean)
		if stats.Median(slices.Clone(x)) < mean/2 {
			few++
		}
	}
	e := f.Evidence
	e.Affected, e.Interval, e.Judged = len(waits), j.rounds(), j.rounds()
	meanExcess(e, waits)
	switch {
	case 2*few > e.Affected:
		f.Pattern = finding.InTurn
	case 2*e.Affected < e.Interval:
		f.Pattern = finding.SingleSteps
	default:
		f.Pattern = finding.MostSteps
	}
}

// lateSets finds the ranks that are late in the whole run, and in the part of the run in which the excess of
// one of them changed most.
func (j *job) lateSets(e [][]float64, lv levels) (out []*lateSet) {
	m := j.rounds()
	segments := [][2]int{{0, m}}
	most := 0.0
	for _, role := range j.roles {
		if from, to, errors := j.latePart(e, role, lv); errors > most {
			segments, most = [][2]int{{0, m}, {from, to}}, errors
		}
	}
	for _, sg := range segments {
		var late []lateRank
		for _, role := range j.roles {
			late = append(late, j.late(e, role, sg[0], sg[1], lv)...)
		}
		if len(late) == 0 {
			continue
		}
		slices.SortStableFunc(late, func(a, b lateRank) int { return cmp.Compare(b.mean, a.mean) })
		set := &lateSet{rows: map[int][]int{}, chances: map[int]float64{}, first: j.from + sg[0], end: j.from + sg[1]}
		for _, l := range late {
			set.ranks = append(set.ranks, l.rank)
			set.chances[l.rank] = l.chance
		}
		set.like = j.likeOthers(set.ranks)
		set.usual = j.without(set.ranks)
		for _, r := range set.ranks {
			set.rows[r] = j.rowsOf(r, set.usual, set.first, set.end, repairPart)
		}
		out = append(out, set)
	}
	return out
}

// lateRanks returns the finding of the set whose repair gains most. o holds the repairs of all sets, first
// among its repairs.
func (j *job) lateRanks(sets []*lateSet, e [][]float64, o *outcome) (best *finding.Finding) {
	for k, set := range sets {
		f := j.smallest(set, e, o, 1+k)
		if f == nil || best != nil && f.Gain < best.Gain {
			continue
		}
		if best != nil && slices.Equal(best.Ranks, f.Ranks) {
			continue // same ranks as for the whole run
		}
		best = f
	}
	return best
}

// smallest finds the smallest subset of a set of late ranks whose repair keeps most of the gain. The set was
// repaired in replay k of o. One replay leaves out each rank in turn; a second one repairs the ranks
// cumulatively, starting with the rank whose omission costs most. It returns nil if the gain is too small.
func (j *job) smallest(late *lateSet, e [][]float64, o *outcome, k int) *finding.Finding {
	set, m := late.ranks, len(j.steps)
	if n := len(set); n > 1 && n <= mostReplays { // larger sets are named in full
		var without, first []repair
		for i := range set {
			without = append(without, j.repairRanks(late, slices.Delete(slices.Clone(set), i, i+1)))
		}
		less := j.replay(without...)
		missed := make(map[int]float64)
		for i, r := range set {
			missed[r] = -less.gain(i+1, j.from, m)
		}
		order := slices.Clone(set)
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(missed[b], missed[a]) })
		for i := range n - 1 {
			first = append(first, j.repairRanks(late, order[:i+1]))
		}
		parts, full := j.replay(first...), o.gain(k, j.from, m)
		for i := range first {
			if finding.CostOf(parts.gain(i+1, j.from, m)) >= setPart*finding.CostOf(full) {
				o, k, set = parts, i+1, order[:i+1]
				break
			}
		}
	}
	first, end := late.first, late.end
	gain, segment := o.gain(k, j.from, m), 0.0
	if end-first < j.rounds() {
		segment = o.gain(k, first, end)
	}
	if gain < floorRanks && (segment < floorRanks || end-first < leastSegment) {
		return nil
	}
	set = slices.Sorted(slices.Values(set))
	f := j.slowRanks(late, set, gain)
	f.SegmentGain = segment
	f.GainLow, f.GainHigh = o.bounds(j, k)
	if f.Cause == finding.CauseCompute || f.Cause == Forward.String() || f.Cause == Backward.String() {
		if j.followsTokens(e) {
			f.Kind, f.Cause = finding.Imbalance, finding.CauseWork
		}
	}
	if from, to := j.when(f, e, late, set); segment == 0 && to-from < j.rounds() {
		f.SegmentGain = o.gain(k, j.from+from, j.from+to)
	}
	for _, r := range set {
		f.Evidence.Chance = max(f.Evidence.Chance, late.chances[r])
	}
	return f
}

// lateFrom returns the excess above which ranks count as late in a round: half the mean, or a quarter of the
// excess-weighted mean excess, which is larger if few rounds hold most of the lost time.
func lateFrom(x []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		if v > 0 {
			sum, squares = sum+v, squares+v*v
		}
	}
	return max(stats.Mean(x)/2, squares/max(sum, 1)/4)
}

// when returns the interval of judged rounds in which ranks of a set are late. It fills the evidence: since
// when, how often, by how much, and how long these ranks and the others take in these rounds.
func (j *job) when(f *finding.Finding, e [][]float64, late *lateSet, set []int) (from, to int) {
	m := j.rounds()
	x := make([]float64, m)
	for s := range x {
		x[s] = math.Inf(-1)
		for _, r := range set {
			x[s] = max(x[s], e[r][s])
		}
	}
	if from, to = late.first-j.from, late.end-j.from; to-from == m {
		var in, out, z float64
		from, to, in, out, z = interval(x)
		if z <= changeErrors || out >= in/3 || to-from < shortSegment {
			from, to = 0, m
		}
	}
	if to-from < m {
		f.FromStep = j.number(j.from + from)
	}
	if to < m {
		f.ToStep = j.number(j.from + to)
	}
	least := lateFrom(x[from:to])
	var rounds []int
	for s := from; s < to; s++ {
		if x[s] > least {
			rounds = append(rounds, s)
		}
	}
	f.Pattern = finding.MostSteps
	if 2*len(rounds) < to-from {
		f.Pattern = finding.SingleSteps
	}
	f.Evidence = &finding.Evidence{Affected: len(rounds), Interval: to - from, Judged: m, Every: everyNth(rounds)}
	over := make([]float64, len(rounds))
	for i, s := range rounds {
		over[i] = x[s]
		if len(rounds) <= mostListed && j.stepsPerRound() == 1 {
			f.Evidence.Steps = append(f.Evidence.Steps, j.number(j.from+s))
		}
	}
	meanExcess(f.Evidence, over)
	j.prove(f, set, rounds)
	return from, to
}
