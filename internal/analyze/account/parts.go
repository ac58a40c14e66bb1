package account

import (
	"cmp"
	"slices"
)

// Part is what the productive time of a rank was spent on.
type Part string

// The parts.
const (
	// Compute is in spans that say what they compute: forward, backward, the optimizer.
	Compute Part = "compute"
	// Communication is in collectives and messages, without what is waiting.
	Communication Part = "communication"
	// WaitInStep is in collectives in which other ranks came later.
	WaitInStep Part = "wait"
	// OtherCode is what no span inside of a step says.
	OtherCode Part = "other_code"
	// StepUnsplit is in steps of which nothing is known but how long they took, in those of
	// a process whose device does the work, and in what is left of a step that is not
	// counted as a whole: the first one, without its warm-up.
	StepUnsplit Part = "step_unsplit"
)

// Parts is how many nanoseconds each part took. They add up to [Productive]. Parts without
// any time are left out.
type Parts map[Part]int64

func (p Parts) add(of Part, ns int64) {
	if ns != 0 {
		p[of] += ns
	}
}

// WaitedFor is how long others waited for a rank, in the time of all of them together.
type WaitedFor struct {
	Rank    int   `json:"rank"`
	Time    int64 `json:"ns"`                   // in all
	InSteps int64 `json:"in_steps_ns"`          // of this, in steps
	InInit  int64 `json:"in_init_ns,omitempty"` // and in initializations, which count as Init
}

const mostWaitedFor = 64

func waitedFor(of map[int]*WaitedFor) (out []WaitedFor) {
	for _, w := range of {
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b WaitedFor) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Rank, b.Rank)) })
	return out[:min(len(out), mostWaitedFor)]
}

// culprit returns how long others waited for a rank so far.
func (f *filler) culprit(rank int) *WaitedFor {
	w := f.waited[rank]
	if w == nil {
		w = &WaitedFor{Rank: rank}
		f.waited[rank] = w
	}
	return w
}

// wait takes time outside of steps in which a rank waited for another one.
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
	did  [][]int64 // of each attempt: the productive time of its iterations
}

// add takes a productive stretch.
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

// wait makes a part of the communication of an iteration waiting for a rank.
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
		// What is left of the collectives of each iteration that is counted as a whole.
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
		p.meetings.inside(a.attempt, func(m meeting, _ int64, n int, took int64) {
			if n >= len(left) || left[n] == 0 {
				return
			}
			wait, rank, known := p.meetings.waited(m, took)
			if !known {
				p.rep.Unmatched += min(took, left[n])
				return
			}
			p.wait(&left[n], wait, rank)
		})
		p.meetings.messages(a.attempt, func(n int, wait int64, rank int) {
			if n < len(left) {
				p.wait(&left[n], wait, rank)
			}
		})
		for _, ns := range left {
			p.of.add(Communication, ns)
		}
	}
}
