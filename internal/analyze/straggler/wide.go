package straggler

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// links finds groups whose transfers take longer than those of similar groups.
func (j *job) links(was *outcome) (out []candidate) {
	for _, family := range j.families() {
		family = slices.DeleteFunc(slices.Clone(family), func(g int) bool { return was.transfers[g] == nil })
		usual, others := make([][]float64, len(family)), make([]float64, 0, len(family))
		for i, g := range family {
			usual[i] = slices.Clone(was.transfers[g])
		}
		for s := j.from; s < len(j.steps); s++ {
			others = others[:0]
			for i := range family {
				if v := usual[i][s]; v == v {
					others = append(others, v)
				}
			}
			slices.Sort(others)
			for i := range family {
				if v := usual[i][s]; v == v && len(others) > 1 {
					usual[i][s] = medianWithout(others, v)
				}
			}
		}
		for i, g := range family {
			x, usual := was.transfers[g], usual[i]
			over, all := 0.0, 0.0
			for s := j.from; s < len(j.steps); s++ {
				if x[s] == x[s] {
					over, all = over+x[s]-usual[s], all+x[s]
				}
			}
			over, all = over/float64(j.rounds()), all/float64(j.rounds())
			if over < linkPart*all || over < lateShare*j.typical() {
				continue
			}
			shorter := repairTransfer(g, func(s int, t float64) float64 {
				if x[s] > 0 && usual[s] < x[s] {
					return t * usual[s] / x[s]
				}
				return t
			})
			out = append(out, candidate{rep: shorter, floor: floorLink, excess: over, of: func(gain float64) *finding.Finding {
				f := j.finding(finding.SlowTransfer, j.groups[g].members, Communication.String(), gain)
				f.Evidence = &finding.Evidence{Affected: j.rounds(), Interval: j.rounds(), Judged: j.rounds(), Excess: over / 1e3}
				return f
			}})
		}
	}
	return out
}

// drifts finds work and transfers that take longer for all ranks in some steps.
func (j *job) drifts(was *outcome) (out []candidate) {
	if drift := j.levels(); len(drift) > 0 {
		since, end, floor := len(j.steps), 0, floorRanks
		for _, l := range drift {
			since, end = min(since, l.at), max(end, l.end)
			if l.single == nil {
				floor = floorDrift
			}
		}
		all := 0.0
		for _, l := range drift {
			all += l.excess(j.rounds())
		}
		out = append(out, candidate{rep: j.repairLevels(drift), floor: floor, excess: all, since: since, end: end, of: func(gain float64) *finding.Finding { return j.drift(drift, gain) }})
	}
	for _, family := range j.families() {
		g := family[0]
		if was.transfers[g] == nil || len(family) != 1 && len(j.groups[g].members) < len(j.ranks) {
			continue
		}
		x := slices.Clone(was.transfers[g][j.from:])
		for s, v := range x {
			if v != v {
				x[s] = 0
			}
		}
		l, ok := j.risen(x)
		if !ok {
			continue
		}
		level := repairTransfer(g, func(s int, t float64) float64 { return t * l.factor(s) })
		out = append(out, candidate{rep: level, floor: floorDrift, excess: l.excess(j.rounds()), since: l.at, end: l.end, of: func(gain float64) *finding.Finding {
			f := j.finding(finding.SlowTransfer, nil, Communication.String(), gain)
			j.affect(f, l)
			return f
		}})
	}
	return out
}

// drift returns the finding for a level change. If most ranks are unaffected, it names the affected ranks: a
// rank that is alone in its role can only be compared with its own past.
func (j *job) drift(of []rise, gain float64) *finding.Finding {
	var ranks, list []int
	var most rise
	for i, l := range of {
		if i == 0 || of[i-1].role != l.role {
			ranks = append(ranks, j.roles[l.role]...)
		}
		list = append(list, l.row)
		if l.after-l.before > most.after-most.before {
			most = l
		}
	}
	kind := finding.SlowRanks
	if 2*len(ranks) > len(j.ranks) {
		kind, ranks = finding.Drift, nil
	}
	f := j.finding(kind, ranks, causeOf(list), gain)
	j.affect(f, most)
	for _, l := range of { // the cause is all kinds of work that rose
		if l.role == most.role && l.row != most.row && (l.single == nil) == (most.single == nil) && l.at < most.end && most.at < l.end {
			f.Evidence.Excess, f.Evidence.Level, f.Evidence.Before = f.Evidence.Excess+(l.after-l.before)/1e3, f.Evidence.Level+l.after/1e3, f.Evidence.Before+l.before/1e3
		}
	}
	return f
}

// affect fills the affected rounds and the excess of a rise.
func (j *job) affect(f *finding.Finding, l rise) {
	f.FromStep, f.Pattern = j.number(l.at), finding.MostSteps
	if l.end < len(j.steps) {
		f.ToStep = j.number(l.end)
	}
	n := l.end - l.at
	f.Evidence = &finding.Evidence{Affected: n, Interval: n, Judged: j.rounds(), Excess: (l.after - l.before) / 1e3, Level: l.after / 1e3, Before: l.before / 1e3}
	switch {
	case l.single != nil:
		f.Pattern, f.Evidence.Affected, f.Evidence.Every = finding.SingleSteps, l.many, l.apart
	case l.grown > l.at:
		f.Pattern = finding.Growing
	}
}

// unevenPieces returns the imbalance finding for ranks whose work is equal over a step but uneven between
// meetings. o has the repair as replay k.
func (j *job) unevenPieces(o *outcome, k int, gain float64) *finding.Finding {
	var list []int
	all := 0.0
	for row := range rows {
		all += stats.Mean(j.means(row))
	}
	for row := range rows {
		if stats.Mean(j.means(row)) > 0.25*all {
			list = append(list, row)
		}
	}
	f := j.finding(finding.Imbalance, nil, causeOf(list), gain)
	f.Pattern, f.Evidence = finding.InTurn, &finding.Evidence{Interval: j.rounds(), Judged: j.rounds()}
	for s := j.from; s < len(j.steps); s++ {
		if o.span(0, s, s+1)-o.span(k, s, s+1) > leastBalance/2*j.typical() {
			f.Evidence.Affected++
		}
	}
	return f
}

// imbalance returns the finding on uneven work, or nil if one rank accounts for most of it.
func (j *job) imbalance(e [][]float64, gain float64) *finding.Finding {
	// Count the steps in which a rank is late, and how often each rank is the latest.
	var over []float64
	last := make([]int, len(j.ranks))
	for s := range j.rounds() {
		most, who := leastBalance*j.typical(), -1
		for r := range e {
			if e[r] != nil && e[r][s] > most {
				most, who = e[r][s], r
			}
		}
		if who >= 0 {
			over = append(over, most)
			last[who]++
		}
	}
	// With two ranks, one of them is the latest in more than half of the steps by chance.
	n := len(over)
	follows := j.followsTokens(e)
	if most := slices.Max(last); !follows && (len(j.ranks) > 2 && 2*most > n || 4*most > 3*n) {
		return nil
	}
	var less []int
	if 2*n < j.rounds() {
		less = j.withLessWork(e, gain)
	}
	cause, sign := finding.CauseWork, 1.0
	if len(less) > 0 {
		sign = -1
	}
	if !follows {
		cause = j.unevenKinds(sign)
	}
	f := j.finding(finding.Imbalance, less, cause, gain)
	f.Pattern = finding.MostSteps
	if len(less) > 0 {
		j.compareWork(f, e, less)
		return f
	}
	if 2*n < j.rounds() {
		f.Pattern = finding.SingleSteps
	}
	f.Evidence = &finding.Evidence{Affected: n, Interval: j.rounds(), Judged: j.rounds()}
	meanExcess(f.Evidence, over)
	return f
}

// withLessWork returns the ranks of a role whose constant lack of work is at least half of what balance gains: no
// rank is late then, but the others would be faster with a part of their work on these ranks.
func (j *job) withLessWork(e [][]float64, gain float64) (less []int) {
	for _, role := range j.roles {
		least, sum := 0.0, 0.0
		for _, r := range role {
			if e[r] != nil {
				least = min(least, stats.Mean(e[r]))
			}
		}
		less = less[:0]
		for _, r := range role {
			if e[r] != nil && stats.Mean(e[r]) < least/2 {
				less, sum = append(less, r), sum-stats.Mean(e[r])
			}
		}
		if sum/float64(len(role)) >= finding.CostOf(gain)*j.typical()/2 {
			return less
		}
	}
	return nil
}

// compareWork fills the evidence of ranks with less work: in how many rounds all of them have less, and how long
// these ranks and the others work.
func (j *job) compareWork(f *finding.Finding, e [][]float64, less []int) {
	f.Evidence = &finding.Evidence{Interval: j.rounds(), Judged: j.rounds()}
	var own, others []float64
	for s := range j.rounds() {
		if !slices.ContainsFunc(less, func(r int) bool { return e[r][s] > -leastBalance/2*j.typical() }) {
			f.Evidence.Affected++
		}
		for _, r := range j.roles[j.roleOf[less[0]]] {
			if d := float64(j.own[j.stepIndex(j.from+s, r)]); slices.Contains(less, r) {
				own = append(own, d)
			} else {
				others = append(others, d)
			}
		}
	}
	f.Evidence.Level, f.Evidence.Others = stats.Mean(own)/1e3, stats.Mean(others)/1e3
}

// unevenKinds returns what the kinds of work with the most excess of the slowest rank in each round have in
// common. With sign -1 it is that of the kinds that the rank with the least work has too little of.
func (j *job) unevenKinds(sign float64) string {
	var parts [rows]float64
	all := j.without(nil)
	for row := range rows {
		if j.row[row] == nil {
			continue
		}
		for role, list := range j.roles {
			for s, m := range all.medians(row, role) {
				most := 0.0
				for _, r := range list {
					most = max(most, sign*(float64(j.row[row][j.stepIndex(j.from+s, r)])-m))
				}
				parts[row] += most
			}
		}
	}
	sum := 0.0
	for _, p := range parts {
		sum += p
	}
	var list []int
	for row, p := range parts {
		if p > 0.35*sum {
			list = append(list, row)
		}
	}
	return causeOf(list)
}

// floorBalance returns the least gain of balance that is reported. Even with pure noise one rank is the
// slowest; the expected cost follows from the variation of the sums of work and the number of ranks. A gain
// hardly above that cost must be large. Intervals vary more than sums, so a gain that only comes from
// balancing intervals must be large too.
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
	if noise := stats.Sigma * stats.MAD(x) * k / j.typical(); gain-1 < noiseTimes*noise {
		return 1 + muchBalance
	}
	return 1 + leastBalance
}

// reference caches the medians over the ranks outside a set, by kind of work and role.
type reference struct {
	w      *job
	set    []bool
	series map[[2]int][]float64
}

func (j *job) without(set []int) *reference {
	f := &reference{w: j, set: make([]bool, len(j.ranks)), series: make(map[[2]int][]float64)}
	for _, r := range set {
		f.set[r] = true
	}
	return f
}

// medians returns the median time of a kind of work in each judged round, 0 if all ranks of the role are in the set.
func (f *reference) medians(row, role int) []float64 {
	k := [2]int{row, role}
	x := f.series[k]
	if x == nil {
		x = make([]float64, f.w.rounds())
		var others []int
		for _, r := range f.w.roles[role] {
			if !f.set[r] {
				others = append(others, r)
			}
		}
		if times := make([]float64, len(others)); len(times) > 0 {
			for s := range x {
				for i, r := range others {
					times[i] = float64(f.w.row[row][f.w.stepIndex(f.w.from+s, r)])
				}
				x[s] = stats.Median(times)
			}
		}
		f.series[k] = x
	}
	return x
}

// time returns the time of a kind of work of a rank in a round, in microseconds.
func (j *job) time(row, s, r int) float64 {
	if j.row[row] == nil {
		return 0
	}
	return float64(j.row[row][j.stepIndex(s, r)])
}

// mean returns the mean time of a kind of work of a rank over the rounds from until before to.
func (j *job) mean(row, r, from, to int) float64 {
	sum := 0.0
	for s := from; s < to; s++ {
		sum += j.time(row, s, r)
	}
	return sum / float64(to-from)
}

// means returns the mean over the judged rounds for each rank.
func (j *job) means(row int) []float64 {
	out := make([]float64, len(j.ranks))
	for r := range out {
		out[r] = j.mean(row, r, j.from, len(j.steps))
	}
	return out
}
