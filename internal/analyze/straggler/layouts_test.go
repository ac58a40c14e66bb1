package straggler_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// step runs one step of all ranks and reports whether the job ends in it.
func (s *sim) step(i int) (over bool) {
	dying := s.die != nil && s.die.step == i
	for r := range s.n {
		s.emit(r, straggler.Input, s.dur[straggler.Input][r][i])
		s.emit(r, straggler.Transfer, s.dur[straggler.Transfer][r][i])
	}
	switch s.layout {
	case "overlapped":
		s.overlapped(i)
	case "fsdp":
		s.fsdp(i)
	case "pipeline":
		s.pipeline(i)
	default:
		if s.plain(i, dying) {
			return true
		}
	}
	for r := range s.n {
		if s.layout != "async" && (!s.micro || i%s.every == s.every-1) {
			s.emit(r, straggler.Optimizer, s.dur[straggler.Optimizer][r][i])
		}
		if d := s.dur[straggler.Checkpoint][r][i]; d > 0 {
			s.emit(r, straggler.Checkpoint, d)
		}
		s.now[r] += s.dur[straggler.Host][r][i]
	}
	return false
}

// plain simulates data parallel training with a collective after backward.
func (s *sim) plain(i int, dying bool) (over bool) {
	last := make([]float64, s.n) // start of the span that contains the wait in hidden layouts
	for r := range s.n {
		f, b := s.dur[straggler.Forward][r][i]/float64(s.accum), s.dur[straggler.Backward][r][i]/float64(s.accum)
		if dying && r == s.die.rank {
			if s.die.open {
				s.record(r, straggler.Span{Phase: straggler.Forward}, s.now[r], math.Inf(1))
			}
			continue
		}
		for k := range s.accum {
			fs, bs := straggler.Span{Phase: straggler.Forward}, straggler.Span{Phase: straggler.Backward}
			if s.layout == "async" { // the host only launches, and waits in the optimizer
				at := max(last[r], s.now[r])
				if k > 0 {
					at = last[r]
				}
				launch := 0.1 * (f + b)
				s.record(r, fs, at, at+launch)
				s.record(r, bs, at+launch, at+2*launch)
				last[r] = at + 2*launch
				s.now[r] += f + b
				continue
			}
			s.record(r, fs, s.now[r], s.now[r]+f)
			s.now[r] += f
			last[r] = s.now[r]
			if s.layout == "separate" || k < s.accum-1 {
				s.record(r, bs, s.now[r], s.now[r]+b)
			}
			s.now[r] += b
		}
	}
	if dying {
		if s.die.open {
			for r := range s.n {
				if r != s.die.rank {
					s.record(r, straggler.Span{Phase: straggler.Communication}, s.now[r], math.Inf(1))
				}
			}
		}
		return true
	}
	if i%s.every != s.every-1 {
		return false
	}
	spans := s.layout == "separate" || s.layout == "nested"
	for g := 0; s.groups > 0 && g*s.groups < s.n; g++ {
		var members []int
		for r := g * s.groups; r < min(s.n, (g+1)*s.groups); r++ {
			members = append(members, r)
		}
		s.collective(members, fmt.Sprintf("g%d", g), 8, i, spans)
	}
	s.collective(s.everyone(), "", s.comms[i], i, spans)
	for r := range s.n {
		out := s.now[r]
		switch s.layout {
		case "nested", "hidden":
			sp := straggler.Span{Phase: straggler.Backward}
			s.record(r, sp, last[r], out)
		case "async":
			s.now[r] += s.dur[straggler.Optimizer][r][i]
			s.record(r, straggler.Span{Phase: straggler.Optimizer}, last[r], s.now[r])
		}
	}
	return false
}

func (s *sim) everyone() []int {
	out := make([]int, s.n)
	for r := range out {
		out[r] = r
	}
	return out
}

// collective synchronizes ranks on the training thread.
func (s *sim) collective(ranks []int, group string, transfer float64, step int, record bool) {
	if f := s.slow[group]; f != nil {
		transfer *= f[step]
	}
	var end float64
	for _, r := range ranks {
		end = max(end, s.now[r])
	}
	end += transfer
	for _, r := range ranks {
		out := end + s.exit()
		if record {
			sp := straggler.Span{Phase: straggler.Communication, Group: group}
			if s.joins {
				sp.Meeting = straggler.Join
			}
			s.record(r, sp, s.now[r], out)
		}
		s.now[r] = out
	}
}

// overlapped reduces the gradients of backward in four buckets on a separate stream while backward continues.
func (s *sim) overlapped(i int) {
	const buckets = 4
	start := slices.Clone(s.now)
	for r := range s.n {
		s.emit(r, straggler.Forward, s.dur[straggler.Forward][r][i])
		start[r] = s.now[r]
		s.emit(r, straggler.Backward, s.dur[straggler.Backward][r][i])
	}
	prev := make([]float64, s.n)
	for k := range buckets {
		enter, end := make([]float64, s.n), 0.0
		for r := range s.n {
			ready := start[r] + s.dur[straggler.Backward][r][i]*float64(k+1)/buckets
			enter[r] = max(ready, prev[r])
			end = max(end, enter[r])
		}
		end += s.comms[i] / buckets
		for r := range s.n {
			prev[r] = end + s.exit()
			s.record(r, straggler.Span{Phase: straggler.Communication, Lane: 1}, enter[r], prev[r])
		}
	}
	for r := range s.n {
		s.now[r] = max(s.now[r], prev[r])
	}
}

// fsdp gathers the parameters of each layer before it runs, one layer ahead,
// and reduces the gradients of each layer after its backward.
func (s *sim) fsdp(i int) {
	const layers = 8
	n := s.n
	free := slices.Clone(s.now) // of the communication stream
	op := func(issue []float64) []float64 {
		enter, end := make([]float64, n), 0.0
		for r := range n {
			enter[r] = max(issue[r], free[r])
			end = max(end, enter[r])
		}
		end += s.comms[i] / (2 * layers)
		for r := range n {
			free[r] = end + s.exit()
			s.record(r, straggler.Span{Phase: straggler.Communication, Lane: 1}, enter[r], free[r])
		}
		return slices.Clone(free)
	}
	for _, p := range []straggler.Phase{straggler.Forward, straggler.Backward} {
		begin := slices.Clone(s.now)
		ready := op(s.now)
		for l := range layers {
			for r := range n {
				s.now[r] = max(s.now[r], ready[r])
			}
			if l+1 < layers {
				ready = op(s.now)
			}
			for r := range n {
				s.now[r] += s.dur[p][r][i] / layers
			}
			if p == straggler.Backward {
				op(s.now)
			}
		}
		for r := range n {
			s.record(r, straggler.Span{Phase: p}, begin[r], s.now[r])
		}
	}
	for r := range n {
		s.now[r] = max(s.now[r], free[r])
	}
}

// pipeline runs four micro-batches through the stages, forward and then backward. The last stage has 1.5
// times the work. The data parallel ranks of a stage reduce among themselves; then all ranks agree on a norm.
func (s *sim) pipeline(i int) {
	const micro = 4
	stages, replicas := s.stages, s.n/s.stages
	pass := func(p straggler.Phase, order func(k int) int) {
		for d := range replicas {
			from := make([]float64, micro) // when the previous stage finished each micro-batch
			for k := range stages {
				stage := order(k)
				r := d*stages + stage
				dur := s.dur[p][r][i] / micro
				if stage == stages-1 {
					dur *= 1.5
				}
				for b := range micro {
					if k > 0 {
						arrives := max(s.now[r], from[b]) + 0.5
						if !s.noP2P {
							s.record(r, straggler.Span{Phase: straggler.Communication, Meeting: straggler.Receive, Peer: s.peer(d*stages + order(max(k-1, 0)))}, s.now[r], arrives)
						}
						s.now[r] = arrives
					}
					s.emit(r, p, dur)
					from[b] = s.now[r]
					if k+1 < stages && !s.noP2P {
						s.record(r, straggler.Span{Phase: straggler.Communication, Meeting: straggler.Send, Peer: s.peer(d*stages + order(k+1))}, s.now[r], s.now[r])
					}
				}
			}
		}
	}
	pass(straggler.Forward, func(k int) int { return k })
	pass(straggler.Backward, func(k int) int { return stages - 1 - k })
	for st := range stages {
		var members []int
		for d := range replicas {
			members = append(members, d*stages+st)
		}
		s.collective(members, fmt.Sprintf("dp%d", st), s.comms[i], i, true)
	}
	if !s.noNorm {
		s.collective(s.everyone(), "", 1, i, true)
	}
}

// peer returns the peer of a message, if peers are recorded.
func (s *sim) peer(r int) int {
	if s.peers {
		return r + 1
	}
	return 0
}

// TestHalfOfManyRanks: more ranks are late than smallest examines one by one.
func TestHalfOfManyRanks(t *testing.T) {
	var slowOnes []int
	for r := range 32 {
		slowOnes = append(slowOnes, r)
	}
	v := job{n: 64, m: 60, faults: []fault{slow(slowOnes, straggler.Forward, 1.5, 0, 0)}}.state().Verdict()
	if v.Kind != finding.SlowRanks || !slices.Equal(v.Ranks, slowOnes) || v.Gain < 1.08 {
		t.Errorf("verdict %s, want slow ranks %v, gain 1.08 or more", v.Sentence, slowOnes)
	}
}

// TestMessagesOfMissingRank: a message names its sender, so no other rank takes the place of a sender without records,
// whichever of its stage it is.
func TestMessagesOfMissingRank(t *testing.T) {
	for _, missing := range []int{0, 1, 2, 3} {
		for _, noRoles := range []bool{false, true} {
			v := job{n: 4, m: 80, layout: "pipeline", peers: true, noRoles: noRoles, missing: []int{missing}, seed: 3}.state().Verdict()
			if v.Kind != finding.Unknown || v.Reason != "missing_rank" || !slices.Equal(v.Suspects, []int{missing}) {
				t.Errorf("rank %d is missing, no roles %v: %s %s %v, want unknown for missing_rank with that suspect: %s", missing, noRoles, v.Kind, v.Reason, v.Suspects, v.Sentence)
			}
		}
	}
}
