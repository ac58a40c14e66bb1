package straggler

import (
	"maps"
	"slices"
)

// lost gives the ranks that stopped in the last step before they began to wait,
// while all others wait for them; none when the records end in another way.
func (s *State) lost() (ranks []int, step int64) {
	first := true
	for _, rs := range s.ranks {
		if rs.any && (first || rs.last.step > step) {
			first, step = false, rs.last.step
		}
	}
	var behind, waiting []int
	most := 0
	for _, r := range slices.Sorted(maps.Keys(s.ranks)) {
		if rs := s.ranks[r]; rs.any && rs.last.step == step {
			if rs.last.done {
				return nil, 0 // the step was finished: nobody was waited for
			}
			most = max(most, rs.last.progress())
		}
	}
	for _, r := range slices.Sorted(maps.Keys(s.ranks)) {
		rs := s.ranks[r]
		switch {
		case !rs.any:
		case rs.last.step == step && rs.last.progress() == most:
			waiting = append(waiting, r)
		case rs.last.step >= step-1:
			behind = append(behind, r)
		default:
			// Its records end earlier than the collectives did: the records
			// are incomplete, not the rank lost.
			return nil, 0
		}
	}
	// Most ranks wait: else it is the whole job that was stopped.
	if len(behind) == 0 || len(behind) > len(waiting) {
		return nil, 0
	}
	if !s.waitedLong(waiting) {
		return nil, 0
	}
	return behind, step
}

// progress orders how far a rank has come in a step.
func (t tail) progress() int {
	p := 2 * t.started
	if t.waiting {
		p++
	}
	return p
}

// waitedLong says whether the waiting ranks were seen alive for much longer
// than a step after they began to wait. A job that is stopped from outside
// often has ranks that just then wait for the last one. Where no sign of life
// is known, the end of the records has to do.
func (s *State) waitedLong(waiting []int) bool {
	for _, r := range waiting {
		rs := s.ranks[r]
		if rs.info.LastSeen == 0 || rs.steps.n < 2 {
			continue
		}
		// Ten steps: pauses and checkpoints are shorter.
		first, last := rs.steps.ends()
		step := (last.split - first.split) / max(last.step-first.step, 1)
		if rs.info.LastSeen-rs.last.lastEnd < 10*step {
			return false
		}
	}
	return true
}
