package straggler

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// hang describes a job whose ranks wait for one that does not arrive.
type hang struct {
	step   int64
	ranks  []int // rank numbers; empty if all arrived and their meeting never ended
	waited int64 // nanoseconds; 0 if unknown
	cause  string
	causes map[int]string // by rank: the phase or the collective it is in
	done   *int64         // the last step of ranks, if all of them finished it and started no other; else nil
}

const (
	// Least wait in steps. The ranks of a job that was killed, not hung, wait no longer than usual.
	hangSteps = 2
	// Least wait while the job is still running.
	hangLeast = int64(30 * time.Second)
	// Least silence in steps if no span shows a wait. It is longer than short pauses.
	stoppedSteps = 10
)

// A pause is taken for a hang once it lasts pauseTimes the longest of its kind so far, or firstPause if it is
// the first.
const (
	pauseTimes = 3
	firstPause = int64(15 * time.Minute)
)

// SetLive marks the job as running: a wait shorter than 30 seconds is not a hang.
func (s *State) SetLive() { s.live = true }

// standstill is the last known position of the ranks of a job and of those that are in a meeting.
type standstill struct {
	ranks  map[int]*rankState
	number map[int][]int     // by rank and by its own group number: the number of the group; a name may be that of several
	at     map[int]*openSpan // the open meetings, by rank
	long   int64             // longest wait of a rank in a meeting, in nanoseconds; -1 if unknown
	step   int64             // nanoseconds of a usual step
	live   bool
}

// longest returns the length of the longest complete step of any rank in nanoseconds. It is the measure of a wait if
// there are too few steps for a usual one.
func (s *State) longest() (longest int64) {
	for _, rs := range s.ranks {
		for c := rs.steps.cursor(); c.ok; c.next() {
			longest = max(longest, (c.p.end-c.p.start)*1e3)
		}
	}
	return longest
}

// hung returns the hang of the job, or nil. step is the length of a usual step in nanoseconds, and number has the
// number of each group of each rank. The culprit is the rank that entered fewer collectives of the waiting group.
// On devices it is the rank whose host did not launch the collective that the other devices wait in, or whose
// device did less. Ranks with truncated files are left out because their records end before the rank stopped.
func (s *State) hung(step int64, number map[int][]int) *hang {
	st := &standstill{number: number, ranks: make(map[int]*rankState, len(s.ranks)), at: map[int]*openSpan{}, long: -1, step: step, live: s.live}
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
			st.long = max(st.long, seen-o.start, 0) // the last heartbeat may precede the span, so clamp at 0
		}
	}
	var h *hang
	if len(st.at) == 0 || devices && joins == len(st.at) {
		h = st.stopped(devices)
	} else {
		h = st.waiting()
	}
	if h != nil && len(h.ranks) == 0 && h.cause != finding.CauseMismatch && len(st.ranks) < len(s.ranks) {
		return nil // a rank left out for its truncated file may be the culprit
	}
	if h != nil {
		st.where(h)
	}
	return h
}

// enough returns the least wait, in nanoseconds, that corresponds to the given number of steps.
func (st *standstill) enough(steps int) int64 {
	least := int64(steps) * st.step
	if st.live {
		least = max(least, hangLeast)
	}
	return least
}

// pausing reports whether a rank is in a pause that may still end.
func (st *standstill) pausing() bool {
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

// A wait is no hang if waits for the same ranks that were at least half as long ended in usualWaits earlier rounds, as
// if one rank generates samples now and then.
const usualWaits = 3

// isUsual reports whether the others often waited for the culprits nearly as long before.
func (j *job) isUsual(h *hang, was *outcome) bool {
	if len(h.ranks) == 0 || h.waited == 0 || h.cause == finding.CauseUneven || h.cause == finding.CauseMismatch {
		return false
	}
	var culprits []int
	for _, number := range h.ranks {
		r := slices.Index(j.ranks, number)
		if r < 0 {
			return false
		}
		culprits = append(culprits, r)
	}
	n := 0
	for s := j.from; s < len(j.steps); s++ {
		wait := was.wait[j.stepIndex(s, 0):j.stepIndex(s+1, 0)]
		own := float32(0)
		for _, r := range culprits {
			own = max(own, wait[r])
		}
		if most := slices.Max(wait); own <= most/2 && float64(most)*2e3 >= float64(h.waited) {
			n++
		}
	}
	return n >= usualWaits
}

// waiting finds the missing ranks if some ranks are in an open meeting. It returns nil if the wait is too
// short or of unknown length.
func (st *standstill) waiting() *hang {
	if st.long >= 0 && st.long < st.enough(hangSteps) {
		return nil
	}
	out := &hang{step: -1, waited: max(st.long, 0)}
	furthest := map[int]progress{} // the furthest progress of the waiting ranks, by group
	for r, o := range st.at {
		rs := st.ranks[r]
		out.step = max(out.step, rs.last.step)
		group := st.numberOf(r, o.group)
		if p, _ := st.position(r, group); furthest[group].isBefore(p) {
			furthest[group] = p
		}
	}
	late := func(r int) bool {
		for group, most := range furthest {
			if p, in := st.position(r, group); in && p.isBefore(most) {
				return true
			}
		}
		return false
	}
	behind := st.pick(func(r int, rs *rankState) bool { return !rs.info.Ended && st.at[r] == nil && late(r) })
	without := st.pick(func(r int, rs *rankState) bool { return !rs.info.Ended && st.at[r] == nil })
	early := st.pick(func(r int, rs *rankState) bool {
		o := st.at[r]
		if o == nil || o.meeting != Collective || rs.info.Ended {
			return false
		}
		group := st.numberOf(r, o.group)
		p, _ := st.position(r, group)
		return p.isBefore(furthest[group])
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
		out.ranks, out.cause = early, finding.CauseMismatch // they already stand in the next collective
	default:
		st.mismatch(out)
	}
	if st.long < 0 && len(out.ranks) == 0 {
		return nil // the length of the wait is unknown
	}
	return out
}

// pick returns, in order, the ranks that have a step and for which holds returns true.
func (st *standstill) pick(holds func(r int, rs *rankState) bool) (out []int) {
	for _, r := range slices.Sorted(maps.Keys(st.ranks)) {
		if rs := st.ranks[r]; rs.any && holds(r, rs) {
			out = append(out, r)
		}
	}
	return out
}

// numberOf returns the number of the group with that name in the records of a rank, or -1 if these have no collective
// of it.
func (st *standstill) numberOf(r int, name string) int {
	i := slices.IndexFunc(st.ranks[r].groups, func(g groupName) bool { return g.name == name })
	if i < 0 || i >= len(st.number[r]) {
		return -1
	}
	return st.number[r][i]
}

// position returns how many collectives of a group, by number, a rank entered in its last step; in reports whether
// the rank belongs to the group.
func (st *standstill) position(r, group int) (p progress, in bool) {
	last := &st.ranks[r].last
	p.step = last.step
	i := slices.Index(st.number[r], group)
	if i >= 0 && i < len(last.entered) {
		p.n = last.entered[i]
	}
	return p, i >= 0
}

// mismatch handles ranks that all wait, but in different collectives. If a majority is in one of them, the
// other ranks are the culprits.
func (st *standstill) mismatch(h *hang) {
	type place struct {
		group int
		op    string
	}
	at := map[place][]int{}
	for r, o := range st.at {
		if o.meeting != Collective {
			return
		}
		p := place{st.numberOf(r, o.group), o.op}
		if o.group != "" {
			p.op, _, _ = strings.Cut(p.op, " ") // group names may differ between ranks
		}
		at[p] = append(at[p], r)
	}
	for p := range at {
		for o := range at {
			// The collectives are unrelated if no rank in one belongs to the group of the other.
			if p.group != o.group && !slices.ContainsFunc(at[o], func(r int) bool { _, in := st.position(r, p.group); return in }) {
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

// where fills the phase or collective that ranks are in: the culprits, or all ranks in a meeting for a
// mismatch.
func (st *standstill) where(h *hang) {
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

// finished returns the last step of the culprits if all of them completed the same step and started nothing
// after it; else nil.
func (st *standstill) finished(h *hang) (last *int64) {
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

// stands returns the phase in which the rank was seen last.
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

// silent returns for how many nanoseconds a live rank recorded nothing, or -1 if unknown.
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

// stopped finds ranks that stopped before the others if no span shows that the others wait. All the others
// must have made the same progress in the last step.
func (st *standstill) stopped(devices bool) *hang {
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
				return nil // the last step is complete: no rank waited
			}
			most = max(most, rs.last.began)
		}
	}
	waits := func(_ int, rs *rankState) bool { return rs.last.step == out.step && rs.last.began == most }
	out.ranks = st.pick(func(r int, rs *rankState) bool { return !waits(r, rs) })
	// A hang needs a majority of waiting ranks; otherwise the whole job was stopped.
	if len(out.ranks) == 0 || len(out.ranks) > len(st.pick(waits)) {
		return nil
	}
	if slices.ContainsFunc(out.ranks, func(r int) bool { return st.ranks[r].last.step < out.step-1 || st.ranks[r].info.Ended }) {
		return nil // these ranks stopped more than a step before the others or ended: their records are incomplete
	}
	return out
}

// deviceHang finds the culprits by the progress of devices: ranks whose host did not launch what the other
// devices wait in, else ranks whose device did less. If neither applies but all devices stopped before the
// hosts, ranks of the result is empty. It returns nil if the devices show no hang.
func (st *standstill) deviceHang() *hang {
	var furthest progress
	latest := int64(-1)
	seen := st.pick(func(_ int, rs *rankState) bool { return rs.device.n > 0 })
	if slices.ContainsFunc(seen, func(r int) bool { return st.ranks[r].info.Sampled }) {
		return nil // the last step of a device on record is not the last one that it ran
	}
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

// pending returns how many launched collectives the device is not known to have finished.
func (rs *rankState) pending() (n int64) {
	for i := range rs.groups {
		n += max(rs.groups[i].launched-rs.groups[i].ran, 0)
	}
	return n
}
