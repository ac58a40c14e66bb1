package straggler

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// findings are the repairs that gain enough, the narrowest first, and those that may gain as
// much as a rank must, but are not far enough beyond what healthy jobs have by chance.
func (j *job) findings(was *outcome) (all, below []found) {
	e := j.excess()
	sets := j.lateSets(e, beyondChance)
	var repairs []repair
	for _, set := range sets {
		repairs = append(repairs, j.repairRanks(set, set.ranks))
	}
	var made []candidate
	add := func(rep repair, c candidate) {
		repairs, made = append(repairs, rep), append(made, c)
	}
	j.links(was, add)
	j.drifts(was, add)
	if j.allWait() {
		add(j.repairInput(), candidate{floor: floorInput, of: func(gain float64) *found {
			f := j.finding(InputSlow, nil, Input.String(), gain)
			f.Evidence = &Evidence{Level: stats.Mean(j.means(rowOf(false, Input))) / 1e3}
			j.whenInput(f)
			return f
		}})
	}
	even := j.repairBalance()
	var o *outcome
	add(even, candidate{floor: 1 + leastBalance, of: func(gain float64) *found {
		sums := o.gain(len(repairs), j.from, len(j.steps))
		if gain < 1+muchBalance && sums < j.floorBalance(e, sums) {
			return nil
		}
		if costOf(sums) < costOf(gain)/2 {
			return j.unevenPieces(o, 1+slices.IndexFunc(repairs, func(r repair) bool { return r.like == even.like }), gain)
		}
		return j.imbalance(e, gain)
	}})
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

// doubtful returns what holds a job up perhaps: ranks whose repair gains enough, if what they
// are late by is no chance, or what is below the floor of its kind. It is asked for where nothing
// is found; below is what findings returned.
func (j *job) doubtful(below []found) *found {
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
		if k := below[i].Kind; k == SlowTransfer || k == Drift || k == SlowRanks {
			return &below[i]
		}
	}
	return nil
}

// behindLoader returns ranks that are late beyond chance and whose repair gains enough only if batches are there
// at once: the pace of a queue that the same ranks slow down is no pace of the loader by itself.
func (j *job) behindLoader() *found {
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
		if gain < floorRanks {
			continue
		}
		f := j.finding(SlowRanks, set.ranks, "", gain)
		f.Causes = map[int]string{}
		usual := j.without(set.ranks)
		for _, r := range set.ranks {
			f.Causes[j.ranks[r]] = causeOf(j.rowsOf(r, usual, set.first, set.end, causePart))
		}
		f.Cause = inCommon(f.Causes, f.Ranks)
		j.when(f, e, set.ranks)
		return f
	}
	return nil
}

// allWait reports whether each rank waits for data at least half as long as the mean of
// all does: else it is some ranks. Where there are queues, most of them do.
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

// whenInput says in how many of the judged rounds ranks wait for data, and whether it is
// a few of them each time.
func (j *job) whenInput(f *found) {
	row, few := rowOf(false, Input), 0
	x := make([]float64, len(j.ranks))
	for s := j.from; s < len(j.steps); s++ {
		for r := range x {
			x[r] = j.time(row, s, r)
		}
		mean := stats.Mean(x)
		if mean < f.Evidence.Level*1e3/2 {
			continue
		}
		f.Evidence.Affected++
		if stats.Median(slices.Clone(x)) < mean/2 {
			few++
		}
	}
	f.Evidence.Interval = j.rounds()
	switch {
	case 2*few > f.Evidence.Affected:
		f.Pattern = patternTurn
	case 2*f.Evidence.Affected < f.Evidence.Interval:
		f.Pattern = patternSingle
	default:
		f.Pattern = patternMost
	}
}

// lateSets finds the ranks that are late, in the whole run and since or until a step at
// which the excess of one of them changed.
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
		usual := j.without(set.ranks)
		for _, r := range set.ranks {
			set.rows[r] = j.rowsOf(r, usual, set.first, set.end, repairPart)
		}
		out = append(out, set)
	}
	return out
}

// lateRanks returns the set whose repair gains most; o has the repairs of all of them, first.
func (j *job) lateRanks(sets []*lateSet, e [][]float64, o *outcome) (best *found) {
	for k, set := range sets {
		f := j.smallest(set, e, o, 1+k)
		if f == nil || best != nil && f.gain < best.gain {
			continue
		}
		if best != nil && slices.Equal(best.Ranks, f.Ranks) {
			continue // the whole run says it as well
		}
		best = f
	}
	return best
}

// smallest finds the smallest of a set of late ranks whose repair has most of the gain. The
// set was repaired in replay k of o.
func (j *job) smallest(late *lateSet, e [][]float64, o *outcome, k int) *found {
	set, m := late.ranks, len(j.steps)
	full := o.gain(k, j.from, m)
	for len(set) > 1 && len(set) <= mostLate { // of more, all that are late are named
		var smaller []repair
		for i := range set {
			smaller = append(smaller, j.repairRanks(late, slices.Delete(slices.Clone(set), i, i+1)))
		}
		less := j.replay(smaller...)
		best, at := 0.0, -1
		for i := range set {
			if g := less.gain(i+1, j.from, m); g > best {
				best, at = g, i
			}
		}
		if costOf(best) < setPart*costOf(full) {
			break
		}
		o, k, set = less, at+1, slices.Delete(slices.Clone(set), at, at+1)
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
	f := j.finding(SlowRanks, set, "", gain)
	f.SegmentGain = segment
	f.GainLow, f.GainHigh = o.bounds(j, k)
	f.Causes = map[int]string{}
	usual := j.without(set)
	for _, r := range set {
		f.Causes[j.ranks[r]] = causeOf(j.rowsOf(r, usual, first, end, causePart))
	}
	f.Cause = inCommon(f.Causes, f.Ranks)
	if f.Cause == causeCompute || f.Cause == Forward.String() || f.Cause == Backward.String() {
		if j.followsTokens(e) {
			f.Kind, f.Cause = Imbalance, causeWork
		}
	}
	if from, to := j.when(f, e, set); segment == 0 && to-from < j.rounds() {
		first, end = j.from+from, j.from+to
		f.SegmentGain = o.gain(k, first, end)
	}
	if end-first < j.rounds() {
		f.FromStep = j.number(first)
	}
	if end < m {
		f.ToStep = j.number(end)
	}
	for _, r := range set {
		f.Evidence.Chance = max(f.Evidence.Chance, late.chances[r])
	}
	return f
}

// lateFrom is from which excess on a round is one in which ranks are late: half the mean, or a
// quarter of the excess that the lost time lies in, which is more where few rounds have it.
func lateFrom(x []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		if v > 0 {
			sum, squares = sum+v, squares+v*v
		}
	}
	return max(stats.Mean(x)/2, squares/max(sum, 1)/4)
}

// when returns in which of the judged rounds ranks are late, and says how often.
func (j *job) when(f *found, e [][]float64, set []int) (from, to int) {
	m := j.rounds()
	x := make([]float64, m)
	for s := range x {
		x[s] = math.Inf(-1)
		for _, r := range set {
			x[s] = max(x[s], e[r][s])
		}
	}
	from, to, in, out, z := interval(x)
	if z <= changeErrors || out >= in/3 || to-from < shortSegment {
		from, to = 0, m
	}
	least := lateFrom(x[from:to])
	n := 0
	var over []float64
	for _, v := range x[from:to] {
		if v > least {
			n++
			over = append(over, v)
		}
	}
	f.Pattern = patternMost
	if 2*n < to-from {
		f.Pattern = patternSingle
	}
	f.Evidence = &Evidence{Affected: n, Interval: to - from}
	if len(over) > 0 {
		f.Evidence.Excess, f.Evidence.ExcessMAD = stats.Median(slices.Clone(over))/1e3, stats.MAD(over)/1e3
	}
	return from, to
}
