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

// hung finds ranks that wait in a collective for others, for two steps or more. Who did
// not enter as many collectives of the group that waits is the one they wait for.
func (st *State) hung(step int64) *hang {
	var latest int64 = -1
	for _, rs := range st.ranks {
		if rs.any {
			latest = max(latest, rs.last.step)
		}
	}
	type at struct {
		group string
		lane  int
	}
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
		return nil
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
			if rs.last.step < of.step || rs.last.step == of.step && rs.last.entered[w.group] < of.entered[w.group] {
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
