package straggler

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// hang is a job whose ranks wait for one that does not come.
type hang struct {
	step   int64
	ranks  []int // numbers; empty: all came, and what they meet at never ended
	waited int64 // nanoseconds; zero where that is not known
	cause  string
	causes map[int]string // where ranks stand
	done   *int64         // the last step of those in ranks, where each of them finished it and began no other
}

const (
	// A job that is killed is not hung: its ranks wait at most as long as they always do.
	hangSteps = 2
	// Of one that goes on it is too early to say before.
	hangLeast = int64(30 * time.Second)
	// Where nothing says that ranks wait, they must have been seen for longer than
	// short pauses last.
	stoppedSteps = 10
)

// A pause may take so many times as long as the longest of its kind so far, and the
// first one this long, before it is taken for a hang.
const (
	pauseTimes = 3
	firstPause = int64(15 * time.Minute)
)

// SetLive says that the job goes on: what waits is no hang within the first 30 seconds.
func (s *State) SetLive() { s.live = true }

// stand is where the ranks of a job stand, and where those that are in a meeting do.
type stand struct {
	ranks map[int]*rankState
	at    map[int]*openSpan // the meetings, by rank
	long  int64             // of the rank that waits longest, -1 where that is not known
	step  int64             // how long a step takes
	live  bool
}

// hung finds ranks that wait for others. Who did not enter as many collectives of the
// group that waits is the one they wait for; on devices, who did not launch what the
// others' devices wait in, or whose device did less. Ranks whose files are cut off are left
// out: where their records end, the rank did not.
func (s *State) hung(step int64) *hang {
	st := &stand{ranks: make(map[int]*rankState, len(s.ranks)), at: map[int]*openSpan{}, long: -1, step: step, live: s.live}
	for r, rs := range s.ranks {
		if rs.info.Ended || !rs.info.Cut {
			st.ranks[r] = rs
		}
	}
	if st.pausing() {
		return nil
	}
	devices := false
	for r, rs := range st.ranks {
		devices = devices || rs.device.n > 0
		for i := range rs.last.open {
			if o := &rs.last.open[i]; o.phase == Communication && (o.meeting != Join || st.at[r] == nil) {
				st.at[r] = o
				if o.meeting != Join {
					break
				}
			}
		}
	}
	joins := 0
	for r, o := range st.at {
		if o.meeting == Join {
			joins++
		}
		if seen := st.ranks[r].info.LastSeen; seen > 0 {
			st.long = max(st.long, seen-o.start, 0) // it may have come after the others were interrupted
		}
	}
	var h *hang
	if len(st.at) == 0 || devices && joins == len(st.at) {
		h = st.stopped(devices)
	} else {
		h = st.waiting()
	}
	if h != nil && len(h.ranks) == 0 && h.cause != finding.CauseMismatch && len(st.ranks) < len(s.ranks) {
		return nil // one that is not known to have come may be who they wait for
	}
	if h != nil {
		st.where(h)
	}
	return h
}

// enough is how long ranks must wait that wait for so many steps.
func (st *stand) enough(steps int) int64 {
	least := int64(steps) * st.step
	if st.live {
		least = max(least, hangLeast)
	}
	return least
}

// pausing reports whether a rank is in a pause that may still end.
func (st *stand) pausing() bool {
	for k := range PauseKinds {
		longest := int64(0)
		for _, rs := range st.ranks {
			longest = max(longest, rs.info.Pauses[k].Longest)
		}
		allowed := pauseTimes * longest
		if longest == 0 {
			allowed = firstPause
		}
		for _, rs := range st.ranks {
			since := rs.info.Pauses[k].Since
			if since != 0 && max(rs.info.LastSeen, rs.last.lastEnd)-since < allowed {
				return true
			}
		}
	}
	return false
}

// waiting finds who is missing where ranks were seen in a meeting.
func (st *stand) waiting() *hang {
	if st.long >= 0 && st.long < st.enough(hangSteps) {
		return nil
	}
	out := &hang{step: -1, waited: max(st.long, 0)}
	furthest := map[string]progress{} // of those who wait, by group
	for r, o := range st.at {
		rs := st.ranks[r]
		out.step = max(out.step, rs.last.step)
		if p, _ := rs.position(o.group); furthest[o.group].isBefore(p) {
			furthest[o.group] = p
		}
	}
	late := func(rs *rankState) bool {
		for group, most := range furthest {
			if p, in := rs.position(group); in && p.isBefore(most) {
				return true
			}
		}
		return false
	}
	behind := st.pick(func(r int, rs *rankState) bool { return !rs.info.Ended && st.at[r] == nil && late(rs) })
	without := st.pick(func(r int, rs *rankState) bool { return !rs.info.Ended && st.at[r] == nil })
	early := st.pick(func(r int, rs *rankState) bool {
		o := st.at[r]
		if o == nil || o.meeting != Collective || rs.info.Ended {
			return false
		}
		p, _ := rs.position(o.group)
		return p.isBefore(furthest[o.group])
	})
	left := st.pick(func(r int, rs *rankState) bool {
		return rs.info.Ended && st.at[r] == nil && rs.last.done && rs.last.step < out.step
	})
	switch {
	case len(left) > 0:
		out.ranks, out.cause = left, finding.CauseUneven
	case len(behind) > 0:
		out.ranks = behind
	case len(without) > 0:
		out.ranks = without
	case len(early) > 0 && 2*len(early) < len(st.at):
		out.ranks, out.cause = early, finding.CauseMismatch // it is the next one that they stand in
	default:
		st.mismatch(out)
	}
	if st.long < 0 && len(out.ranks) == 0 {
		return nil // nothing says that they waited for long
	}
	return out
}

// pick returns the ranks with a step of which something holds, in their order.
func (st *stand) pick(holds func(r int, rs *rankState) bool) (out []int) {
	for _, r := range slices.Sorted(maps.Keys(st.ranks)) {
		if rs := st.ranks[r]; rs.any && holds(r, rs) {
			out = append(out, r)
		}
	}
	return out
}

// position counts the collectives of a group that were entered in the last step; in says
// whether the rank is of that group.
func (rs *rankState) position(group string) (p progress, in bool) {
	p.step = rs.last.step
	i := slices.IndexFunc(rs.groups, func(g groupName) bool { return g.name == group })
	if i >= 0 && i < len(rs.last.entered) {
		p.n = rs.last.entered[i]
	}
	return p, i >= 0
}

// mismatch finds ranks that all wait, in different collectives: the place where most of
// them stand is right, where most do.
func (st *stand) mismatch(h *hang) {
	type place struct{ group, op string }
	at := map[place][]int{}
	for r, o := range st.at {
		if o.meeting != Collective {
			return
		}
		p := place{o.group, o.op}
		if o.group != "" {
			p.op, _, _ = strings.Cut(p.op, " ") // the names of the groups of ranks may differ
		}
		at[p] = append(at[p], r)
	}
	for p := range at {
		for o := range at {
			// Ranks of a group that nobody else is of wait by themselves.
			if p.group != o.group && !slices.ContainsFunc(at[o], func(r int) bool { _, in := st.ranks[r].position(p.group); return in }) {
				return
			}
		}
	}
	if len(at) < 2 {
		return
	}
	h.cause = finding.CauseMismatch
	for _, ranks := range at {
		if 2*len(ranks) > len(st.at) {
			h.ranks = st.pick(func(r int, _ *rankState) bool { return st.at[r] != nil && !slices.Contains(ranks, r) })
		}
	}
}

// where says in what the ranks stand: those that are named, and of a mismatch all.
func (st *stand) where(h *hang) {
	h.causes = map[int]string{}
	h.done = st.finished(h)
	for r, rs := range st.ranks {
		switch {
		case h.cause == finding.CauseMismatch && st.at[r] != nil:
			h.causes[r] = st.at[r].what()
		case slices.Contains(h.ranks, r) && h.cause != finding.CauseUneven:
			h.causes[r] = rs.stands()
		}
	}
	if h.cause != "" || len(h.ranks) == 0 {
		return
	}
	h.cause = inCommon(h.causes, h.ranks)
}

// finished returns the last step that the ranks of a hang did, where they did all of it
// and nothing after it.
func (st *stand) finished(h *hang) (last *int64) {
	for _, r := range h.ranks {
		rs := st.ranks[r]
		if !rs.last.done || len(rs.last.open) > 0 || rs.last.step >= h.step || last != nil && *last != rs.last.step {
			return nil
		}
		n := rs.last.step
		last = &n
	}
	return last
}

func (o *openSpan) what() string {
	return cmp.Or(o.op, "a collective")
}

// stands is the phase in which a rank was seen last.
func (rs *rankState) stands() string {
	var in *openSpan
	for i := range rs.last.open {
		if o := &rs.last.open[i]; o.lane == 0 && o.phase < phases && (in == nil || o.start >= in.start) {
			in = o
		}
	}
	if in == nil {
		return Host.String()
	}
	return in.phase.String()
}

// silent is how long nothing was recorded of a rank that is known to live; -1 where that is not known.
func (rs *rankState) silent() int64 {
	if rs.info.LastSeen <= 0 {
		return -1
	}
	last := rs.last.lastEnd
	for i := range rs.last.open {
		last = max(last, rs.last.open[i].start)
	}
	return max(rs.info.LastSeen-last, 0)
}

// stopped finds ranks that stopped before the others where no span says that these
// wait: all of them came equally far in the last step, and stayed there.
func (st *stand) stopped(devices bool) *hang {
	out := &hang{step: -1, waited: -1}
	for _, r := range st.pick(func(int, *rankState) bool { return true }) {
		rs := st.ranks[r]
		out.step = max(out.step, rs.last.step)
		if s := rs.silent(); !rs.info.Ended && s >= 0 && s < st.enough(stoppedSteps) {
			return nil
		} else if !rs.info.Ended {
			out.waited = max(out.waited, s)
		}
	}
	if devices {
		if h := st.deviceHang(); h != nil && out.waited >= 0 {
			h.waited = out.waited
			return h
		}
	}
	out.waited = max(out.waited, 0)
	most := 0
	for _, rs := range st.ranks {
		if rs.any && rs.last.step == out.step {
			if rs.last.done {
				return nil // the step was finished: nobody was waited for
			}
			most = max(most, rs.last.began)
		}
	}
	waits := func(_ int, rs *rankState) bool { return rs.last.step == out.step && rs.last.began == most }
	out.ranks = st.pick(func(r int, rs *rankState) bool { return !waits(r, rs) })
	// Most ranks wait: else it is the whole job that was stopped.
	if len(out.ranks) == 0 || len(out.ranks) > len(st.pick(waits)) {
		return nil
	}
	if slices.ContainsFunc(out.ranks, func(r int) bool { return st.ranks[r].last.step < out.step-1 || st.ranks[r].info.Ended }) {
		return nil // their records end earlier than the collectives did: these are incomplete, not the rank lost
	}
	return out
}

// deviceHang finds whose host did not launch what the devices of the others wait in; else
// whose device did less than the others'; else all wait in what was launched everywhere.
func (st *stand) deviceHang() *hang {
	var furthest progress
	latest := int64(-1)
	seen := st.pick(func(_ int, rs *rankState) bool { return rs.device.n > 0 })
	for _, r := range seen {
		rs := st.ranks[r]
		latest = max(latest, rs.last.step)
		if furthest.isBefore(rs.device) {
			furthest = rs.device
		}
	}
	idle := st.pick(func(_ int, rs *rankState) bool { return rs.device.n > 0 && rs.pending() == 0 && rs.last.step < latest })
	behind := st.pick(func(_ int, rs *rankState) bool { return rs.device.n > 0 && rs.device.isBefore(furthest) })
	out := &hang{step: furthest.step}
	switch {
	case len(idle) > 0 && 2*len(idle) <= len(seen):
		out.ranks = idle
	case 2*len(behind) <= len(seen) && (len(behind) > 0 || furthest.step < latest):
		out.ranks = behind
	default:
		return nil
	}
	return out
}

// pending is how many collectives were launched that the device is not seen to have ended.
func (rs *rankState) pending() (n int64) {
	for i := range rs.groups {
		n += max(rs.groups[i].launched-rs.groups[i].ran, 0)
	}
	return n
}
