package straggler

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// Judge returns the verdict and the table it is based on. The table is nil if there are too few steps or
// ranks.
func (s *State) Judge() (*Verdict, *Table) {
	s.trim()
	j := &job{graph: newGraph(s)}
	v := &Verdict{Version: 2, Coverage: Coverage{Expected: s.expected(), Seen: len(j.ranks), Forgotten: s.forgot}}
	if s.windowed {
		v.Coverage.WindowSteps = WindowSteps
	}
	for _, rs := range s.ranks {
		v.Coverage.Disputed += rs.disputed
	}
	v.Coverage.Missing, v.Coverage.MissingMore = j.missing, j.more
	if len(j.ranks) == 0 || len(j.steps) < 2 {
		v.unknown(reasonTooFewSteps)
		switch {
		case len(j.ranks) == 0 && s.expected() > 1:
			v.unknown(reasonNoSteps)
		case len(j.ranks) < 2:
			v.unknown(ReasonSingleRank)
		case len(j.ranksWithDevices()) > 0 && len(j.ranksWithDevices()) < len(j.ranks):
			v.unknown(reasonDevice)
		}
		if h := s.hung(s.longest(), j.numbers); h != nil && len(j.ranks) > 1 {
			j.hangs(v, h)
		}
		v.describe(j)
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
	j.t = t
	switch {
	case len(j.steps) == j.from:
		v.unknown(reasonTooFewSteps)
	case s.opt.Spill.Err() != nil:
		v.unknown(reasonReplay) // steps are missing
	default:
		j.verdict(v, asItWas)
	}
	j.ranking(v, t)
	v.Waits = j.waits(asItWas)
	v.inSteps(int(j.stepsPerRound()))
	v.describe(j)
	return v, t
}

// inSteps converts numbers of rounds to numbers of steps. Each round has per steps.
func (v *Verdict) inSteps(per int) {
	c := &v.Coverage
	c.Steps, c.SlowStart, c.LastStep = per*c.Steps, per*c.SlowStart, c.LastStep+int64(per-1)
	if w := v.Waits; w != nil {
		w.multiply(int64(per))
	}
	for _, f := range v.findings() {
		if e := f.Evidence; e != nil {
			e.Affected, e.Interval, e.Judged = per*e.Affected, per*e.Interval, per*e.Judged
			if per > 1 {
				e.Every = 0 // which steps of a round are affected is unknown
			}
		}
	}
}

// Verdict returns the verdict on the steps that the State holds. It may discard the oldest steps to stay
// within its bound; more steps can be added afterwards.
func (s *State) Verdict() *Verdict {
	v, _ := s.Judge()
	return v
}

// recentSteps is the number of the last steps in which Lately looks for a problem: a recent one gains little over
// a long run. They suffice for a finding, which counts only as long as it lasts.
const recentSteps = 60

// Lately returns v, the verdict on a running job. If v finds nothing, Lately returns instead a finding on the
// last steps that costs 5 % of the time since it began, if there is one.
func (s *State) Lately(v *Verdict) *Verdict {
	if v.Kind != finding.Fine && v.Suspected == nil || s.windowed {
		return v
	}
	if last := s.stepsSince(s.newest - recentSteps + 1).Verdict(); last.ExitCode() == 3 && last.ToStep < 0 && max(last.Gain, last.SegmentGain) >= floorSegment {
		return last
	}
	return v
}

// stepsSince returns the steps from step on. It shares the packed blocks with s.
func (s *State) stepsSince(step int64) *State {
	out := New(&s.opt)
	out.oldest, out.forgot, out.live = step, true, s.live
	out.Merge(s)
	out.forgot = s.forgot
	return out
}

func (v *Verdict) unknown(reason string) {
	v.Kind, v.Reason = finding.Unknown, reason
}

// verdict fills v with the cause that slows the job down.
func (j *job) verdict(v *Verdict, was *outcome) {
	if h := j.st.hung(int64(j.typical()*1e3), j.numbers); h != nil && !j.isUsual(h, was) {
		j.hangs(v, h)
		return
	}
	switch {
	case len(j.ranks) < 2:
		v.unknown(ReasonSingleRank)
		return
	case j.rounds() < leastRounds:
		v.unknown(reasonTooFewSteps)
		return
	case j.ahead || j.launches && !j.device && !j.connected:
		v.unknown(reasonDevice)
		return
	case !was.finished:
		v.unknown(reasonReplay)
		return
	case j.unsent && !j.connected:
		v.unknown(reasonPeers)
		return
	case len(j.absent) > 0 && !j.connected:
		v.unknown(reasonMissingRank)
		v.Suspects = j.absent
		return
	case j.hides == Host && !j.connected:
		v.unknown(reasonNoBarrier)
		return
	}
	m := len(j.steps)
	recorded := 0.0
	for _, p := range j.period[j.from:] {
		recorded += p
	}
	replayed := was.span(0, j.from, m)
	v.Coverage.ReplayError = math.Abs(replayed-recorded) / max(recorded, 1)
	if j.unseenWaits() {
		v.unknown(reasonHidden)
		return
	}
	all, below := j.findings(was)
	// A repair that saves many times the error of the replay cannot be an artifact of that error.
	believed := func(f finding.Finding) bool {
		return v.Coverage.ReplayError <= replayError || f.Cost >= errorTimes*v.Coverage.ReplayError
	}
	if len(all) == 0 {
		v.Kind = finding.Fine
		switch {
		case v.Coverage.ReplayError > replayError:
			v.unknown(reasonReplay)
		case j.rounds() < fewRounds:
			v.unknown(reasonTooFewSteps)
		case j.unsent:
			v.unknown(reasonPeers)
		case j.hides != Host:
			v.unknown(reasonHidden)
		case len(j.absent) > 0:
			v.unknown(reasonMissingRank)
			v.Suspects = j.absent
		case len(j.missing) > 0 && j.mayWaitForMissing(was):
			v.unknown(reasonMissingRank)
			v.Suspects = j.missing
		default:
			j.below = below
			if v.suspect(j.behindLoader()); v.Suspected != nil {
				v.unknown(reasonLoader)
			} else if v.suspect(j.doubtful(below)); v.Suspected != nil {
				v.unknown(reasonChance)
			}
		}
		return
	}
	best := slices.MaxFunc(all, func(a, b finding.Finding) int { return cmp.Compare(a.Cost, b.Cost) }).Cost
	head := slices.IndexFunc(all, func(f finding.Finding) bool { return f.Cost >= headlinePart*best })
	if !believed(all[head]) {
		v.unknown(reasonReplay) // a wider repair that saves more is not credible either
		return
	}
	if j.unsent { // ranks that work longer may be a stage of a pipeline
		v.unknown(reasonPeers)
		v.suspect(&all[head])
		return
	}
	if f := &all[head]; f.Kind == finding.SlowRanks && j.hiddenAmong(f.Ranks) {
		v.unknown(reasonHidden)
		v.Suspects = f.Ranks
		return
	}
	if j.anyCut(all[head].Ranks) {
		v.unknown(reasonDamaged)
		return
	}
	if j.hides != Host && all[head].Kind == finding.Drift {
		v.unknown(reasonHidden) // the drift may be the hidden wait
		return
	}
	v.Finding = all[head]
	if v.Kind == finding.Imbalance && len(v.Ranks) == 0 {
		// One rank may have most of the imbalance. If it is late beyond chance, that is a finding of its own.
		if f := j.doubtful(nil); f != nil && !slices.ContainsFunc(all, func(o finding.Finding) bool { return namesRanks(&o, f.Ranks) }) {
			v.suspect(f)
		}
	}
	if j.hides == Backward && slices.ContainsFunc(slices.Collect(maps.Values(v.Causes)), func(c string) bool {
		return c == Forward.String() || c == finding.CauseMixed
	}) {
		// A rank that is slow in forward is often slow in backward too, where the hidden waits mask it.
		v.GainLow, v.Gain, v.GainHigh, v.Cost = v.Gain, 0, 0, 0
		v.Finding.NotKnown = append(v.Finding.NotKnown, "how much more the run would gain: backward includes the waits")
	}
	for _, f := range slices.Delete(all, head, head+1) {
		if believed(f) && !j.anyCut(f.Ranks) {
			v.Others = append(v.Others, f)
		}
	}
	slices.SortStableFunc(v.Others, func(a, b finding.Finding) int { return cmp.Compare(b.Gain, a.Gain) })
	if len(j.missing) > 0 && v.Kind == finding.SlowTransfer {
		v.Finding = finding.Finding{}
		v.unknown(reasonMissingRank)
		v.Suspects = j.missing
	}
}

// namesRanks reports whether a finding is about slow ranks that include the given ones.
func namesRanks(f *finding.Finding, ranks []int) bool {
	return f.Kind == finding.SlowRanks && !slices.ContainsFunc(ranks, func(r int) bool { return !slices.Contains(f.Ranks, r) })
}

// suspect records a finding that may be chance; nil does nothing.
func (v *Verdict) suspect(f *finding.Finding) {
	if f != nil {
		v.Suspects, v.Suspected = f.Ranks, f
	}
}

// anyCut reports whether records of one of these ranks are missing or wrong, so that its lag may be an
// artifact of the lost records.
func (j *job) anyCut(ranks []int) bool {
	return slices.ContainsFunc(ranks, func(r int) bool { return j.st.ranks[r].info.Cut })
}

func (j *job) hangs(v *Verdict, h *hang) {
	v.Kind, v.Ranks, v.FromStep, v.ToStep, v.Cause, v.Causes = finding.Hang, h.ranks, h.step, -1, h.cause, h.causes
	v.Evidence = &finding.Evidence{Waited: float64(h.waited) / 1e6, LastStep: h.done}
}
