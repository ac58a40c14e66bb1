package straggler

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/robust"
)

// matrix holds one number per rank and round; NaN where there is none.
type matrix struct {
	m int
	v []float32
}

func newMatrix(n, m int) matrix { return matrix{m, make([]float32, n*m)} }

func (x matrix) row(r int) []float32     { return x.v[r*x.m : (r+1)*x.m] }
func (x matrix) at(r, s int) float64     { return float64(x.v[r*x.m+s]) }
func (x matrix) set(r, s int, v float64) { x.v[r*x.m+s] = float32(v) }
func (x matrix) clone() matrix           { return matrix{x.m, slices.Clone(x.v)} }
func column(dst []float64, x matrix, ranks []int, s int) []float64 {
	dst = dst[:0]
	for _, r := range ranks {
		if v := x.at(r, s); v == v {
			dst = append(dst, v)
		}
	}
	return dst
}

// rounds is a run as rounds between two releases of the barrier: what each
// rank did in between, on its own clock. Ranks and rounds are numbered from 0;
// ids and steps say which they are. Durations are nanoseconds.
type rounds struct {
	barrier barrier
	ids     []int
	steps   []int64
	roles   [][]int // ranks that are comparable
	roleOf  []int

	period matrix         // release to release
	own    matrix         // the part of it in which the rank did not communicate or wait
	phase  [phases]matrix // own by phase; [Host] is the rest
	wait   matrix         // duration of the waiting span
	world  matrix         // time in collectives of all ranks
	group  [2]matrix      // time in collectives of sub-groups
	groups [][2]uint16    // and which, by rank
	names  []string       // of those groups, by number
	tokens matrix

	p       []float64 // median period over ranks, by round
	typical float64   // median of p
	spread  float64   // of the barrier over ranks, share of typical
	hides   []Phase   // phases that the wait hides
	beside  bool      // compute goes on while collectives of other lanes wait
	// prefetch: it does so for a while, as where the parameters of a layer are
	// gathered while the one before it computes.
	prefetch bool
	dropped  int          // rounds of the slow start
	per      int64        // steps of a round, 0 for one
	sketch   [][4]float64 // of the periods in a window: median, 90th, 99th percentile, longest
	total    float64      // sum of p
}

func (rd *rounds) n() int { return len(rd.ids) }
func (rd *rounds) m() int { return len(rd.steps) }

// minRanks is the share of the ranks that must have a barrier, and a value in
// a round, for it to count: fewer would leave the slowest one out too easily.
const minRanks = 0.8

// maxSpread is how far ranks may disagree about the time between two releases.
// They leave a real barrier together, so that only the exit from it differs
// (microseconds); 3 % is the size of the findings themselves.
const maxSpread = 0.03

// fill computes every rank's rounds. What a rank did in a step without the
// barrier belongs to the round that is under way.
func (s *State) fill(rd *rounds, steps []int64) {
	s.setLanes(rd)
	devices := s.fillRows(rd, steps)
	var roles []string
	for _, r := range rd.ids {
		roles = append(roles, s.ranks[r].info.Role)
	}
	rd.setRoles(roles)
	rd.wholeGroups()
	rd.setHides(devices)
	rd.finish()
}

// setLanes notes what collectives of other lanes mean.
func (s *State) setLanes(rd *rounds) {
	if rd.barrier == atCollective {
		var streams bool
		rd.beside, streams = s.computeGoesOn(rd.ids)
		rd.prefetch = streams && !rd.beside
	}
}

// fillRows fills the matrices, and says whether device time stands for what the
// barrier would hide.
func (s *State) fillRows(rd *rounds, steps []int64) (devices bool) {
	n, m := len(rd.ids), max(len(steps)-1, 0)
	rd.steps = steps[min(1, len(steps)):]
	rd.allocate(n, m, s.occurs(rd.ids))
	numbers := rd.numberGroups(s)
	devices = s.haveDeviceTime(rd)
	for k, r := range rd.ids {
		f := filler{rd: rd, rank: k, devices: devices, ids: []uint16{0}}
		for _, name := range s.ranks[r].names {
			f.ids = append(f.ids, numbers[name])
		}
		at := 0
		for c := range s.ranks[r].steps.all() {
			for at < len(steps) && steps[at] < c.step {
				at++
			}
			f.add(c, at, at < len(steps) && steps[at] == c.step)
		}
	}
	return devices
}

// numberGroups numbers the sub-groups of all ranks from 1.
func (rd *rounds) numberGroups(s *State) map[string]uint16 {
	rd.groups = make([][2]uint16, rd.n())
	rd.names = []string{""}
	numbers := map[string]uint16{}
	for _, r := range rd.ids {
		for _, name := range s.ranks[r].names {
			if _, ok := numbers[name]; !ok && len(rd.names) < 1<<16 {
				numbers[name] = uint16(len(rd.names))
				rd.names = append(rd.names, name)
			}
		}
	}
	return numbers
}

// setHides notes the phases that the wait hides.
func (rd *rounds) setHides(devices bool) {
	rd.hides = nil
	if devices {
		return
	}
	switch rd.barrier {
	case atBackward:
		rd.hides = []Phase{Backward}
	case atOptimizer:
		rd.hides = []Phase{Forward, Backward, Optimizer}
	}
}

// occurrence says which of the optional parts of a cell any step has.
type occurrence struct {
	phase  [phases]bool
	group  [2]bool
	tokens bool
}

func (s *State) occurs(ids []int) (o occurrence) {
	for _, r := range ids {
		for c := range s.ranks[r].steps.all() {
			for p := range phases {
				o.phase[p] = o.phase[p] || c.before[p] != 0 || c.after[p] != 0
			}
			for g := range c.groups {
				o.group[g] = o.group[g] || c.groups[g].id != 0
			}
			o.tokens = o.tokens || c.tokens != 0
		}
	}
	return o
}

// allocate makes the matrices, all NaN. Those of what does not occur share one:
// what is stored in them is the same.
func (rd *rounds) allocate(n, m int, o occurrence) {
	empty := func() matrix {
		x := newMatrix(n, m)
		for i := range x.v {
			x.v[i] = float32(math.NaN())
		}
		return x
	}
	var zero, none matrix
	or := func(has bool, shared *matrix) matrix {
		if has {
			return empty()
		}
		if shared.v == nil {
			*shared = empty()
		}
		return *shared
	}
	rd.period, rd.own, rd.wait, rd.world = empty(), empty(), empty(), empty()
	for p := range rd.phase {
		// Launches that the device makes up for are in forward and backward.
		has := o.phase[p] || Phase(p) == Host || rd.barrier != atCollective
		rd.phase[p] = or(has, &zero)
	}
	for g := range rd.group {
		rd.group[g] = or(o.group[g], &none)
	}
	rd.tokens = or(o.tokens, &none)
}

func (rd *rounds) all() []*matrix {
	out := []*matrix{&rd.period, &rd.own, &rd.wait, &rd.world, &rd.group[0], &rd.group[1], &rd.tokens}
	for p := range rd.phase {
		out = append(out, &rd.phase[p])
	}
	return out
}

// haveDeviceTime says whether all ranks know how long the device worked in the
// phases that the barrier would hide.
func (s *State) haveDeviceTime(rd *rounds) bool {
	for _, r := range rd.ids {
		c := s.ranks[r].steps.middle()
		if c.device[1] == 0 || rd.barrier != atBackward && c.device[0] == 0 {
			return false
		}
		// The host's time is complete where it waits for the collective itself.
		if rd.barrier == atCollective && c.first == 0 {
			return false
		}
	}
	return true
}

// computeGoesOn says whether ranks compute on while a collective of another
// lane waits, as with gradients that are reduced in buckets; then what the
// collective covers is own work. Where each layer needs the collective before
// it, as with sharded parameters, it is not. A rank that begins its first
// collective late begins its last one late in the first case, and with
// all others in the second.
//
// streams says whether there are collectives of other lanes at all.
func (s *State) computeGoesOn(ids []int) (goesOn, streams bool) {
	const sample = 200 // rounds decide it
	steps := s.stepsWith(ids)[atCollective]
	steps = steps[:min(len(steps), sample)]
	if len(steps) == 0 {
		return false, false
	}
	var x, y [sample][]float64
	for _, r := range ids {
		var before cell
		for c := range s.ranks[r].steps.all() {
			if c.step > steps[len(steps)-1] {
				break
			}
			was := before
			before = *c
			n, ok := slices.BinarySearch(steps, c.step)
			if !ok || was.step != c.step-1 || !c.has[atCollective] || c.first == 0 || !was.has[atCollective] {
				continue
			}
			from := was.release(atCollective)
			x[n] = append(x[n], float64(c.split+c.first-from))
			y[n] = append(y[n], float64(c.release(atCollective)-from-c.wait[atCollective]))
		}
	}
	var xx, xy float64
	for n := range steps {
		x, y := x[n], y[n]
		if len(x) < 2 {
			continue
		}
		mx, my := robust.Median(slices.Clone(x)), robust.Median(slices.Clone(y))
		for i := range x {
			xx += (x[i] - mx) * (x[i] - mx)
			xy += (x[i] - mx) * (y[i] - my)
		}
	}
	return xy > xx/2 && xx > 0, xx > 0
}

// filler walks over the steps of one rank.
type filler struct {
	rd      *rounds
	rank    int
	devices bool
	ids     []uint16 // numbers of the rank's sub-groups among all

	open    bool // a release was seen, and what came after it is in acc
	from    int  // its index, -1 for the first step of all
	release int64
	last    int64 // step of the cell before
	acc     [phases]float64
	extra   float64 // device time in place of the launches of steps without the barrier
	comm    float64
	world   float64
	group   [2]groupTime
	tokens  float64
}

func (f *filler) add(c *cell, at int, known bool) {
	// A step is missing: what the rank did there is not known.
	if f.open && c.step != f.last+1 && !(known && at == f.from+1) {
		f.open = false
	}
	f.last = c.step
	var before, after [phases]float64
	for p := range phases {
		before[p], after[p] = float64(c.before[p]), float64(c.after[p])
	}
	b := f.rd.barrier
	var launched, device float64
	switch b {
	case atCollective:
		if f.devices {
			// The host's forward and backward are launches.
			before[Forward], before[Backward] = float64(c.device[0]), float64(c.device[1])
			after[Forward], after[Backward] = 0, 0
		}
	case atBackward:
		before[Backward] -= float64(c.wait[b])
		if f.devices {
			device = float64(c.device[1])
			launched, before[Backward] = max(before[Backward], 0), device
		}
	case atOptimizer:
		before[Forward] += after[Forward]
		before[Backward] += after[Backward]
		after[Forward], after[Backward] = 0, 0
		before[Optimizer] += after[Optimizer] - float64(c.wait[b])
		after[Optimizer] = 0
		if f.devices {
			device = float64(c.device[0] + c.device[1])
			launched = before[Forward] + before[Backward]
			before[Forward], before[Backward] = float64(c.device[0]), float64(c.device[1])
		}
	}
	switch {
	case f.rd.beside && f.devices:
		// What the device computes under the earlier collectives is in no span:
		// only the last one of the step is waited for.
		f.comm += float64(c.wait[b])
	case f.rd.beside:
		before[Forward] += float64(c.covered[0])
		before[Backward] += float64(c.covered[1])
		f.comm += float64(c.comm[0] - c.covered[0] - c.covered[1])
	default:
		f.comm += float64(c.comm[0])
	}
	f.world += float64(c.world)
	f.tokens += float64(c.tokens)
	for i, g := range c.groups {
		f.group[i].id = max(f.group[i].id, f.ids[g.id])
		f.group[i].dur += g.dur
	}
	for p := range phases {
		f.acc[p] += max(before[p], 0)
	}
	if !c.has[b] || !known {
		for p := range phases {
			f.acc[p] += after[p]
		}
		f.comm += float64(c.comm[1])
		f.extra += device - launched
		return
	}
	if f.open && at == f.from+1 && at > 0 {
		f.store(c, at-1, f.extra+device-launched)
	}
	f.open, f.from, f.release = true, at, c.release(b)
	f.acc, f.comm, f.world, f.tokens, f.group = after, float64(c.comm[1]), 0, 0, [2]groupTime{}
	f.extra = 0
}

func (f *filler) store(c *cell, i int, extra float64) {
	rd, k := f.rd, f.rank
	period := float64(c.release(rd.barrier) - f.release)
	if period <= 0 {
		return
	}
	own := period - f.comm + extra
	if rd.barrier != atCollective {
		own -= float64(c.wait[rd.barrier])
	}
	rest := own
	for p := Host + 1; p < phases; p++ {
		rd.phase[p].set(k, i, f.acc[p])
		rest -= f.acc[p]
	}
	rd.phase[Host].set(k, i, rest)
	rd.own.set(k, i, own)
	rd.period.set(k, i, period)
	rd.wait.set(k, i, float64(c.wait[rd.barrier]))
	rd.world.set(k, i, f.world)
	for g := range f.group {
		if f.group[g].id != 0 {
			rd.groups[k][g] = f.group[g].id
			rd.group[g].set(k, i, float64(f.group[g].dur))
		}
	}
	if f.tokens > 0 {
		rd.tokens.set(k, i, f.tokens)
	}
}

// wholeGroups makes collectives of all ranks of those in a group that all ranks
// are in: profiles name the group, and not always its size.
func (rd *rounds) wholeGroups() {
	for g := range rd.group {
		id := rd.groups[0][g]
		if id == 0 || slices.ContainsFunc(rd.groups, func(of [2]uint16) bool { return of[g] != id }) {
			continue
		}
		for r := range rd.ids {
			for s := range rd.m() {
				if v := rd.group[g].at(r, s); v == v {
					rd.world.set(r, s, rd.world.at(r, s)+v)
				}
			}
			rd.groups[r][g] = 0
		}
	}
}

func (rd *rounds) setRoles(roles []string) {
	at := map[string]int{}
	rd.roles, rd.roleOf = nil, make([]int, len(roles))
	for k, name := range roles {
		i, ok := at[name]
		if !ok {
			i = len(rd.roles)
			at[name] = i
			rd.roles = append(rd.roles, nil)
		}
		rd.roles[i] = append(rd.roles[i], k)
		rd.roleOf[k] = i
	}
}

// finish computes the common period, keeps the rounds that enough ranks have,
// and drops the slow start.
func (rd *rounds) finish() {
	n, m := rd.n(), rd.m()
	everyone := make([]int, n)
	for k := range everyone {
		everyone[k] = k
	}
	var keep []int
	var buf, p []float64
	for s := range m {
		buf = column(buf, rd.period, everyone, s)
		if len(buf) < min(2, n) || float64(len(buf)) < minRanks*float64(n) {
			continue
		}
		keep = append(keep, s)
		p = append(p, robust.Median(buf))
	}
	typical := robust.Median(slices.Clone(p))
	rd.dropped = robust.SlowStart(p, typical)
	keep, rd.p = keep[rd.dropped:], p[rd.dropped:]
	steps := make([]int64, len(keep))
	for i, s := range keep {
		steps[i] = rd.steps[s]
	}
	if rd.sketch != nil {
		for i, s := range keep {
			rd.sketch[i] = rd.sketch[s]
		}
		rd.sketch = rd.sketch[:len(keep)]
	}
	if len(keep) < m {
		done := map[*float32]bool{}
		for _, x := range rd.all() {
			// In place: what is kept moves to the front.
			if first := &x.v[0]; !done[first] {
				done[first] = true
				to := x.v[:0]
				for r := range n {
					for _, s := range keep {
						to = append(to, x.v[r*m+s])
					}
				}
			}
			x.m, x.v = len(keep), x.v[:n*len(keep)]
		}
	}
	rd.steps, rd.typical = steps, typical
	for _, v := range rd.p {
		rd.total += v
	}
}
