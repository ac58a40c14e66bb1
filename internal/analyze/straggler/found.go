package straggler

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/student"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// The least gain that is reported, by kind. Healthy jobs show gains below it: in 1,620 simulated jobs without
// a fault no repair of ranks gained 1.017. Repairs that are not of single ranks gain more by chance: balance
// follows the noise of all ranks, and a run without input waits is an upper limit.
const (
	floorRanks   = 1.02
	floorLink    = 1.03
	floorDrift   = 1.03
	floorSegment = 1.05 // of a drift since it began; shared series wander as well
	leastBalance = 0.05
	muchBalance  = 0.10 // gain above which the noise test of balance is skipped
	noiseTimes   = 1.5
	floorInput   = 1.10
	// A repair is the headline if it saves at least this fraction of the time that the best one saves: the
	// narrowest such repair is chosen.
	headlinePart = 0.5
	// A set of ranks is reduced as long as it keeps this fraction of the time saved.
	setPart = 0.9
	// replayError is the tolerated relative error of a replay of recorded values. If the error is larger, for
	// example because the members of a collective leave it at different times, a repair must save errorTimes
	// the error.
	replayError = 0.03
	errorTimes  = 5
	leastRounds = 6
	fewRounds   = 20  // below this a job is not reported as fine
	mostReplays = 16  // repairs replayed at once, those with the largest excess
	mostListed  = 3   // affected steps that a finding lists
	linkPart    = 0.2 // of its transfers: least excess of a group over similar groups
)

// The shortest part of a run, in rounds, in which late ranks are searched, and the shortest part whose gain
// counts by itself.
const (
	shortSegment = 10
	leastSegment = 30
)

// leastBatches is the least number of batches of steps needed to bound a gain.
const leastBatches = 10

// bounds returns the 95 % confidence bounds of the gain of a repair, by the method of batch means: batches
// are long enough to be nearly independent. Both are 0 if there are too few steps.
func (o *outcome) bounds(j *job, k int) (low, high float64) {
	m := j.rounds()
	saved := make([]float64, m)
	for s := range saved {
		saved[s] = o.span(0, j.from+s, j.from+s+1) - o.span(k, j.from+s, j.from+s+1)
	}
	size := blockLength(m, correlation(saved), leastBatches)
	n := m / size
	if n < leastBatches {
		return 0, 0
	}
	gain := o.gain(k, j.from, len(j.steps))
	sum, all := 0.0, 0.0
	for b := range n {
		from, to := j.from+b*size, j.from+(b+1)*size
		with := o.span(k, from, to)
		d := o.span(0, from, to) - gain*with
		sum, all = sum+d*d, all+with
	}
	t := student.Quantile(0.975, float64(n-1))
	se := t * math.Sqrt(sum*float64(n)/float64(n-1)) / all
	return max(gain-se, 0), gain + se
}

// candidate is a repair and the finding to report if it gains enough over the whole run or between two rounds
// (from since until before end; end 0 means the last round).
type candidate struct {
	rep        repair
	floor      float64
	excess     float64 // us of a mean step: upper bound of the time saved
	since, end int
	of         func(gain float64) *finding.Finding
}

func (j *job) finding(kind finding.Kind, ranks []int, cause string, gain float64) *finding.Finding {
	f := &finding.Finding{}
	f.Kind, f.Cause, f.Gain, f.FromStep, f.ToStep = kind, cause, gain, j.number(j.from), -1
	f.Cost = finding.CostOf(gain)
	f.Saved = f.Cost * stats.Mean(j.period[j.from:]) / 1e3
	for _, r := range ranks {
		f.Ranks = append(f.Ranks, j.ranks[r])
	}
	slices.Sort(f.Ranks)
	return f
}

// causeOf returns the cause that kinds of work have in common.
func causeOf(rows []int) string {
	if len(rows) == 0 {
		return finding.CauseMixed
	}
	names := map[Phase]bool{}
	for _, row := range rows {
		names[Phase(row%int(phases))] = true
	}
	switch {
	case len(names) == 1:
		return Phase(rows[0] % int(phases)).String()
	case len(names) == 2 && names[Forward] && names[Backward]:
		return finding.CauseCompute
	}
	return finding.CauseMixed
}

// inCommon returns the cause that all ranks share, or CauseMixed.
func inCommon(causes map[int]string, ranks []int) string {
	for _, r := range ranks {
		if causes[r] != causes[ranks[0]] {
			return finding.CauseMixed
		}
	}
	return causes[ranks[0]]
}

// followsTokens reports whether the excess of ranks correlates with their tokens.
func (j *job) followsTokens(e [][]float64) bool {
	if j.tokens == nil {
		return false
	}
	var both moments
	var t []float64
	for s := range j.rounds() {
		for _, role := range j.roles {
			t = t[:0]
			for _, r := range role {
				t = append(t, float64(j.tokens[j.stepIndex(j.from+s, r)]))
			}
			m := stats.Median(t)
			for _, r := range role {
				if e[r] != nil {
					both.add(float64(j.tokens[j.stepIndex(j.from+s, r)])-m, e[r][s])
				}
			}
		}
	}
	const follows = 0.7
	return both.correlation() > follows
}

// moments accumulates the moments of pairs one by one. There is one pair for each rank and step; storing them
// would dominate the memory of a verdict.
type moments struct{ n, x, y, xx, yy, xy float64 }

func (m *moments) add(x, y float64) {
	m.n++
	dx, dy := x-m.x, y-m.y
	m.x, m.y = m.x+dx/m.n, m.y+dy/m.n
	m.xx, m.yy, m.xy = m.xx+dx*(x-m.x), m.yy+dy*(y-m.y), m.xy+dx*(y-m.y)
}

// correlation returns NaN if one of the two variables is constant.
func (m *moments) correlation() float64 { return m.xy / math.Sqrt(m.xx*m.yy) }

// lateSet is a set of ranks that are late between two rounds, the largest excess first, with the kinds of work that
// make each of them late.
type lateSet struct {
	ranks      []int
	rows       map[int][]int
	like       *likeness  // of the ranks that are not late
	usual      *reference // the same
	first, end int
	chances    map[int]float64 // by rank: see lateRank.chance
}

// without returns the times of the ranks other than some of the set.
func (l *lateSet) without(j *job, ranks []int) *reference {
	if len(ranks) == len(l.ranks) {
		return l.usual
	}
	return j.without(ranks)
}
