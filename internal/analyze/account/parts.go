package account

import (
	"cmp"
	"slices"
)

// Part is a part of the productive time of a rank.
type Part string

// The parts.
const (
	// Compute is time in compute spans: forward, backward, the optimizer.
	Compute Part = "compute"
	// Communication is time in collectives and messages, without waiting.
	Communication Part = "communication"
	// WaitInStep is time in collectives and messages in which the rank waited for others.
	WaitInStep Part = "wait"
	// OtherCode is time inside of a step that no other span covers.
	OtherCode Part = "other_code"
	// StepUnsplit is time in steps that cannot be divided: only their length is known, or a
	// device does the work, or only a part of the step counts, as of the first one, whose
	// warm-up is counted separately.
	StepUnsplit Part = "step_unsplit"
)

// Parts holds the nanoseconds of each part. They add up to [Productive]. Parts without time
// are left out.
type Parts map[Part]int64

func (p Parts) add(of Part, ns int64) {
	if ns != 0 {
		p[of] += ns
	}
}

// WaitedFor is how long the others waited for a rank, summed over all of them.
type WaitedFor struct {
	Rank    int   `json:"rank"`
	Time    int64 `json:"ns"`                   // in total
	InSteps int64 `json:"in_steps_ns"`          // the part in steps
	InInit  int64 `json:"in_init_ns,omitempty"` // the part in initializations, which counts as Init
}

const mostWaitedFor = 64

func waitedFor(of map[int]*WaitedFor) (out []WaitedFor) {
	for _, w := range of {
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b WaitedFor) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Rank, b.Rank)) })
	return out[:min(len(out), mostWaitedFor)]
}

// culprit returns the entry of a rank that others waited for.
func (f *filler) culprit(rank int) *WaitedFor {
	w := f.waited[rank]
	if w == nil {
		w = &WaitedFor{Rank: rank}
		f.waited[rank] = w
	}
	return w
}

// wait adds time outside of steps in which a rank waited for another one.
func (f *filler) wait(s *stretch) {
	w := f.culprit(s.rank)
	w.Time += s.to - s.from
	if s.category == Init {
		w.InInit += s.to - s.from
	}
}

// productive divides the productive time of a rank.
type productive struct {
	*filler
	rank *rankView
	of   Parts
	did  [][]int64 // by attempt: the productive time of its iterations
}

// add adds a productive interval.
func (p *productive) add(s *stretch, attempt int) {
	switch {
	case s.iteration >= 0:
		for len(p.did) <= attempt {
			p.did = append(p.did, nil)
		}
		if p.did[attempt] == nil {
			p.did[attempt] = make([]int64, len(p.rank.attempts[attempt].iterations))
		}
		p.did[attempt][s.iteration] += s.to - s.from
	case s.part == partCollective:
		p.of.add(Communication, s.to-s.from)
	default:
		p.of.add(Compute, s.to-s.from)
	}
}

// wait moves up to wait nanoseconds of the communication left in an iteration to
// waiting for a rank.
func (p *productive) wait(left *int64, wait int64, rank int) {
	if wait = min(wait, *left); wait == 0 {
		return
	}
	*left -= wait
	w := p.culprit(rank)
	w.Time, w.InSteps = w.Time+wait, w.InSteps+wait
	p.of.add(WaitInStep, wait)
}

// finish divides the iterations.
func (p *productive) finish() {
	for k, did := range p.did {
		a := &p.rank.attempts[k]
		// The remaining communication of each iteration that counts as a whole.
		left := make([]int64, len(did))
		for n, took := range did {
			it := &a.iterations[n]
			if took != it.own || it.compute+it.meets == 0 {
				p.of.add(StepUnsplit, took)
				continue
			}
			left[n] = it.meets
			p.of.add(Compute, it.compute)
			p.of.add(OtherCode, took-it.compute-it.meets)
		}
		p.meetings.inside(a.attempt, func(n, rank int, took int64) {
			switch {
			case n >= len(left) || left[n] == 0:
			case rank == unmatchedRank:
				p.rep.Unmatched += min(took, left[n])
			default:
				p.wait(&left[n], took, rank)
			}
		})
		p.meetings.messages(a.attempt, func(n int, wait int64, rank int) {
			switch {
			case n >= len(left):
			case rank == unmatchedRank:
				p.rep.Unmatched += min(wait, left[n])
			default:
				before := left[n]
				p.wait(&left[n], wait, rank)
				p.rep.Bubble += before - left[n]
			}
		})
		for _, ns := range left {
			p.of.add(Communication, ns)
		}
	}
}
