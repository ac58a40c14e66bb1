package straggler

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/student"
	"github.com/trainspan/trainspan/internal/platform/stats"
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
	muchBalance  = 0.10 // where usual noise explains most of it
	noiseTimes   = 1.5
	floorInput   = 1.10
	// A repair is the headline when it saves this part of the time that the best one
	// saves: the narrowest one that explains most.
	headlinePart = 0.5
	// A set of ranks shrinks as long as this part of the time that it saves stays.
	setPart = 0.9
	// replayError is by how much the replay of recorded values may differ. Where it differs
	// by more, as where the members of a collective leave it apart, a repair must save
	// errorTimes as much.
	replayError = 0.03
	errorTimes  = 5
	leastRounds = 6
	fewRounds   = 20  // with fewer nothing is said to be fine
	mostReplays = 16  // repairs that are replayed at once, those with the most excess
	linkPart    = 0.2 // of its transfers: what a group must have more than groups like it
)

// found is a repair that gains.
type found struct {
	finding.Finding
	gain float64
}

// The shortest part of a run in which ranks are looked for, and the shortest of which the
// gain counts by itself.
const (
	shortSegment = 10
	leastSegment = 30
)

// leastBatches is the fewest batches of steps that bound a gain.
const leastBatches = 10

// bounds are those of the gain of a repair, with 95 %: by the means of batches of steps
// that are long enough to be nearly independent.
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

// candidate is a repair, and what it says when it gains enough, in all or from one round to
// before another; end is 0 for the last one.
type candidate struct {
	rep        repair
	floor      float64
	excess     float64 // us of a mean step: what it saves at most
	since, end int
	of         func(gain float64) *found
}

func (j *job) finding(kind finding.Kind, ranks []int, cause string, gain float64) *found {
	f := &found{gain: gain}
	f.Kind, f.Cause, f.Gain, f.FromStep, f.ToStep = kind, cause, gain, j.number(j.from), -1
	f.Cost = finding.CostOf(gain)
	f.Saved = f.Cost * stats.Mean(j.period[j.from:]) / 1e3
	for _, r := range ranks {
		f.Ranks = append(f.Ranks, j.ranks[r])
	}
	slices.Sort(f.Ranks)
	return f
}

// causeOf names what kinds of work have in common.
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

// inCommon is the cause that all ranks have.
func inCommon(causes map[int]string, ranks []int) string {
	for _, r := range ranks {
		if causes[r] != causes[ranks[0]] {
			return finding.CauseMixed
		}
	}
	return causes[ranks[0]]
}

// followsTokens reports whether the excess of ranks is that of their tokens.
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

// moments are those of pairs that come one by one: of each rank and step there is one, and
// two columns of them would be the most memory of a verdict.
type moments struct{ n, x, y, xx, yy, xy float64 }

func (m *moments) add(x, y float64) {
	m.n++
	dx, dy := x-m.x, y-m.y
	m.x, m.y = m.x+dx/m.n, m.y+dy/m.n
	m.xx, m.yy, m.xy = m.xx+dx*(x-m.x), m.yy+dy*(y-m.y), m.xy+dx*(y-m.y)
}

// correlation is NaN where one of the two never changes.
func (m *moments) correlation() float64 { return m.xy / math.Sqrt(m.xx*m.yy) }

// lateSet is ranks that are late between two rounds, the most first, and the kinds of work
// that make each of them late.
type lateSet struct {
	ranks      []int
	rows       map[int][]int
	like       *likeness // of the ranks that are not late
	first, end int
	chances    map[int]float64 // by rank: see lateRank
}
