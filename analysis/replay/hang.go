package replay

import (
	"maps"
	"slices"
)

// hang is a job whose ranks wait for one that does not come.
type hang struct {
	step   int64
	ranks  []int // numbers; empty: all came, and what they meet at never ended
	waited int64 // nanoseconds; zero where that is not known
}

// A job that is killed is not hung: its ranks wait at most as long as they always do.
const hangSteps = 2

// Where nothing says that ranks wait, they must have been seen for longer than pauses and
// checkpoints last.
const stoppedSteps = 10

// hung finds ranks that wait in a collective for others, for two steps or more. Who did
// not enter as many collectives of the group that waits is the one they wait for.
func (st *State) hung(step int64) *hang {
	var latest int64 = -1
	for _, rs := range st.ranks {
		if rs.any {
			latest = max(latest, rs.last.step)
		}
	}
	type at struct{ group string }
	waiting := map[at][]int{}
	long, known := int64(0), false
	last := int64(-1)
	for _, r := range slices.Sorted(maps.Keys(st.ranks)) {
		rs := st.ranks[r]
		for _, o := range rs.last.open {
			if o.phase != Communication {
				continue
			}
			w := at{group: o.group}
			waiting[w] = append(waiting[w], r)
			last = max(last, rs.last.step)
			if rs.info.LastSeen > 0 {
				known = true
				long = max(long, rs.info.LastSeen-o.start)
			}
			break
		}
	}
	if len(waiting) == 0 {
		return st.stopped(latest, step)
	}
	if known && long < hangSteps*step {
		return nil
	}
	waits := map[int]bool{}
	for _, list := range waiting {
		for _, r := range list {
			waits[r] = true
		}
	}
	out := &hang{step: last}
	if known {
		out.waited = long
	}
	var behind, without []int
	for _, r := range slices.Sorted(maps.Keys(st.ranks)) {
		if waits[r] {
			continue
		}
		rs := st.ranks[r]
		if !rs.any || rs.info.Ended {
			continue
		}
		without = append(without, r)
		for w, list := range waiting {
			if !slices.ContainsFunc(rs.groups, func(g groupName) bool { return g.name == w.group }) {
				continue
			}
			of := &st.ranks[list[0]].last
			if rs.last.step < of.step || rs.last.step == of.step && rs.entered(w.group) < st.ranks[list[0]].entered(w.group) {
				behind = append(behind, r)
				break
			}
		}
	}
	if out.ranks = behind; len(behind) == 0 {
		out.ranks = without
	}
	if !known && len(out.ranks) == 0 {
		return nil // nothing says that they waited for long
	}
	return out
}

// entered is how many collectives of a group were entered in the last step.
func (rs *rankState) entered(name string) int {
	for i, n := range rs.last.entered {
		if rs.groups[i].name == name {
			return n
		}
	}
	return 0
}

// stopped finds ranks that stopped before the others where no span says that these
// wait: all of them came equally far in the last step, and stayed there.
func (st *State) stopped(step, length int64) *hang {
	most, last := 0, int64(-1)
	for _, rs := range st.ranks {
		if rs.any && rs.last.step == step {
			if rs.last.done {
				return nil // the step was finished: nobody was waited for
			}
			most = max(most, rs.last.began)
		}
	}
	out := &hang{step: step}
	waiting := 0
	for _, r := range slices.Sorted(maps.Keys(st.ranks)) {
		rs := st.ranks[r]
		switch {
		case !rs.any:
		case rs.last.step == step && rs.last.began == most:
			waiting++
			if seen := rs.info.LastSeen; seen > 0 {
				if last = max(last, seen-rs.last.lastEnd); seen-rs.last.lastEnd < stoppedSteps*length {
					return nil
				}
			}
		case rs.last.step >= step-1 && !rs.info.Ended:
			out.ranks = append(out.ranks, r)
		default:
			// Its records end earlier than the collectives did: the records are
			// incomplete, not the rank lost.
			return nil
		}
	}
	if len(out.ranks) == 0 && last >= stoppedSteps*length {
		// All hosts wait: for a device. Where none did less than others, it is what they
		// meet at.
		if out.ranks = st.devicesBehind(); len(out.ranks) == 0 && st.devicesAt(step) {
			out.waited = last
			return out
		}
	}
	// Most ranks wait: else it is the whole job that was stopped.
	if len(out.ranks) == 0 || len(out.ranks) > waiting {
		return nil
	}
	out.waited = max(last, 0)
	return out
}

// devicesAt reports whether devices are seen, and none has come as far as a step.
func (st *State) devicesAt(step int64) bool {
	any := false
	for _, rs := range st.ranks {
		any = any || rs.device.n > 0
		if rs.device.step >= step && rs.device.n > 0 {
			return false
		}
	}
	return any
}

// devicesBehind gives the ranks whose device did less than that of most others.
func (st *State) devicesBehind() (out []int) {
	var furthest progress
	for _, rs := range st.ranks {
		if furthest.before(rs.device) {
			furthest = rs.device
		}
	}
	for _, r := range slices.Sorted(maps.Keys(st.ranks)) {
		if st.ranks[r].device.before(furthest) {
			out = append(out, r)
		}
	}
	if 2*len(out) > len(st.ranks) {
		return nil
	}
	return out
}
