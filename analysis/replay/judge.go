package replay

import (
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
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
	// A repair is the headline when it saves this part of the time that the best one
	// saves: the narrowest one that explains most.
	headlinePart = 0.5
	// A set of ranks shrinks as long as this part of the time that it saves stays.
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
	gain float64
}

// Judge returns the verdict and the table that it was made of.
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
	if j.lanes {
		j.findPlaces()
	}
	j.findQueues()
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
	v.Waits = j.waits(asItWas)
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
	case j.ahead || j.launches && !j.device && !j.connected:
		v.unknown(ReasonDevice)
		return
	case !was.finished:
		v.unknown(ReasonReplay)
		return
	case j.hides == Host && !j.connected:
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
		best = max(best, f.Cost)
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
	head := slices.IndexFunc(all, func(f found) bool { return f.Cost >= headlinePart*best })
	if f := &all[head]; f.Kind == SlowRanks && j.hiddenAmong(f.Ranks) {
		v.unknown(ReasonHidden)
		v.Suspects = f.Ranks
		return
	}
	if j.hides != Host && all[head].Kind == Drift {
		v.unknown(ReasonHidden) // it may be the wait
		return
	}
	v.Finding = all[head].Finding
	if j.hides == Backward && slices.ContainsFunc(slices.Collect(maps.Values(v.Causes)), func(c string) bool {
		return c == Forward.String() || c == CauseMixed
	}) {
		// A rank that is slow in forward is often slow in backward as well, which is not seen.
		v.GainLow, v.Gain, v.GainHigh, v.Cost = v.Gain, 0, 0, 0
	}
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

// The shortest part of a run in which ranks are looked for, and the shortest of which the
// gain counts by itself.
const (
	shortSegment  = 10
	segmentErrors = 5 // that its level must have above the rest
	leastSegment  = 30
)

func (j *job) hangs(v *Verdict, h *hang) {
	v.Kind, v.Ranks, v.FromStep, v.ToStep, v.Cause, v.Causes = Hang, h.ranks, h.step, -1, h.cause, h.causes
	v.Evidence = &Evidence{Waited: float64(h.waited) / 1e6}
}

// leastBatches is the fewest batches of steps that bound a gain.
const leastBatches = 10

// bounds are those of the gain of a repair, with 95 %: by the means of batches of steps
// that are long enough to be nearly independent.
func (o *outcome) bounds(j *job, k int) (low, high float64) {
	m := j.rounds()
	saved := make([]float64, m)
	for s := range saved {
		saved[s] = o.span(j, 0, j.from+s, j.from+s+1) - o.span(j, k, j.from+s, j.from+s+1)
	}
	size := blockLength(m, correlation(saved), leastBatches)
	n := m / size
	if n < leastBatches {
		return 0, 0
	}
	gain := o.gain(j, k, j.from, len(j.steps))
	sum, all := 0.0, 0.0
	for b := range n {
		from, to := j.from+b*size, j.from+(b+1)*size
		with := o.span(j, k, from, to)
		d := o.span(j, 0, from, to) - gain*with
		sum, all = sum+d*d, all+with
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975)
	se := t * math.Sqrt(sum*float64(n)/float64(n-1)) / all
	return max(gain-se, 0), gain + se
}
