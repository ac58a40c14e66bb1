package straggler

import (
	"cmp"
	"maps"
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
	tokens matrix

	p       []float64 // median period over ranks, by round
	typical float64   // median of p
	spread  float64   // of the barrier over ranks, share of typical
	hides   []Phase   // phases that the wait hides
	beside  bool      // compute goes on while collectives of other lanes wait
	// prefetch: it does so for a while, as where the parameters of a layer are
	// gathered while the one before it computes.
	prefetch bool
	dropped  int     // leading rounds of warm-up
	total    float64 // sum of p
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

// build makes the rounds of the barrier at which the ranks agree best, or nil
// when there is none. spread says how well the best one did.
func (s *State) build() (best *rounds, spread float64) {
	var ids []int
	for _, r := range slices.Sorted(maps.Keys(s.ranks)) {
		if len(s.ranks[r].cells) > 0 {
			ids = append(ids, r)
		}
	}
	spread = math.Inf(1)
	choice := barriers
	var steps []int64
	var ranks []int
	for b := range barriers {
		with := s.ranksWith(ids, b)
		if len(with) < 2 || float64(len(with)) < minRanks*float64(len(ids)) {
			continue
		}
		st := s.stepsWith(with, b)
		sp := s.spread(with, st, b, 1)
		// A barrier of a later kind hides more. It must be clearly better, or the
		// first that steps enough for a verdict have: a collective once an epoch is
		// no barrier of the steps.
		few := choice != barriers && len(steps) <= minRounds && len(st) > minRounds && sp <= maxSpread
		if few || sp < spread/2 && !(choice != barriers && spread < 0.002) {
			choice, spread, steps, ranks = b, sp, st, with
		}
	}
	if choice == barriers || spread > maxSpread && !s.together(ranks, steps, choice, spread) {
		return nil, spread
	}
	rd := &rounds{barrier: choice, ids: ranks, spread: spread}
	s.fill(rd, steps)
	return rd, spread
}

func (s *State) ranksWith(ids []int, b barrier) []int {
	var out []int
	for _, r := range ids {
		k := 0
		for i := range s.ranks[r].cells {
			if s.ranks[r].cells[i].has[b] {
				k++
			}
		}
		if k >= 2 {
			out = append(out, r)
		}
	}
	return out
}

// stepsWith gives the steps at which most ranks have the barrier.
func (s *State) stepsWith(ids []int, b barrier) []int64 {
	count := map[int64]int{}
	for _, r := range ids {
		for i := range s.ranks[r].cells {
			if c := &s.ranks[r].cells[i]; c.has[b] {
				count[c.step]++
			}
		}
	}
	var out []int64
	for st, k := range count {
		if float64(k) >= minRanks*float64(len(ids)) {
			out = append(out, st)
		}
	}
	slices.Sort(out)
	return out
}

// spread gives the median of how far the ranks lie apart in the time that they
// take for so many rounds, as a share of a round.
func (s *State) spread(ids []int, steps []int64, b barrier, rounds int) float64 {
	at := make([]int, len(ids))
	// The latest releases of each rank, by round modulo their number; 0 is none.
	past := make([][]int64, len(ids))
	for k := range past {
		past[k] = make([]int64, rounds)
	}
	var spreads, periods, d, buf []float64
	for i, st := range steps {
		d = d[:0]
		for k, r := range ids {
			cells := s.ranks[r].cells
			for at[k] < len(cells) && cells[at[k]].step < st {
				at[k]++
			}
			var e int64
			if at[k] < len(cells) && cells[at[k]].step == st && cells[at[k]].has[b] {
				e = cells[at[k]].release(b)
				if from := past[k][i%rounds]; from != 0 {
					d = append(d, float64(e-from))
				}
			}
			past[k][i%rounds] = e
		}
		if len(d) < 2 {
			continue
		}
		buf = append(buf[:0], d...)
		periods = append(periods, robust.Median(buf)/float64(rounds))
		// With two or three ranks the MAD is blind for one of them.
		if len(d) < 4 {
			spreads = append(spreads, slices.Max(d)-slices.Min(d))
		} else {
			spreads = append(spreads, 2*robust.MAD(d))
		}
	}
	if len(periods) == 0 {
		return math.Inf(1)
	}
	return robust.Median(spreads) / robust.Median(periods)
}

// together says whether ranks that are further apart than maxSpread leave a
// barrier nevertheless. Where steps are short and processors few, a rank is let
// go when the scheduler has a slice for it, milliseconds after the others. That
// comes anew in each round, while ranks that nothing holds together
// drift apart: over ten rounds they are three times as far apart as over one.
func (s *State) together(ids []int, steps []int64, b barrier, once float64) bool {
	const rounds = 10
	often := s.spread(ids, steps, b, rounds)
	// Half way between one and three, on a scale of ratios.
	return often < math.Sqrt(3)*once && often/rounds <= maxSpread
}

// fill computes every rank's rounds. What a rank did in a step without the
// barrier belongs to the round that is under way.
func (s *State) fill(rd *rounds, steps []int64) {
	index := make(map[int64]int, len(steps))
	for i, st := range steps {
		index[st] = i
	}
	n, m := len(rd.ids), max(len(steps)-1, 0)
	rd.steps = steps[min(1, len(steps)):]
	for _, x := range rd.all() {
		*x = newMatrix(n, m)
		for i := range x.v {
			x.v[i] = float32(math.NaN())
		}
	}
	rd.groups = make([][2]uint16, n)
	devices := s.haveDeviceTime(rd)
	if rd.barrier == atCollective {
		var streams bool
		rd.beside, streams = s.computeGoesOn(rd.ids)
		rd.prefetch = streams && !rd.beside
	}
	var roles []string
	for k, r := range rd.ids {
		roles = append(roles, s.ranks[r].info.Role)
		f := filler{rd: rd, rank: k, devices: devices}
		for i := range s.ranks[r].cells {
			c := &s.ranks[r].cells[i]
			at, known := index[c.step]
			f.add(c, at, known)
		}
	}
	rd.setRoles(roles)
	rd.wholeGroups()
	rd.hides = nil
	if !devices {
		switch rd.barrier {
		case atBackward:
			rd.hides = []Phase{Backward}
		case atOptimizer:
			rd.hides = []Phase{Forward, Backward, Optimizer}
		}
	}
	rd.finish()
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
		cells := s.ranks[r].cells
		c := &cells[len(cells)/2]
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
	var xx, xy float64
	var x, y []float64
	const sample = 200 // rounds decide it
	for n, st := range s.stepsWith(ids, atCollective) {
		if n == sample {
			break
		}
		x, y = x[:0], y[:0]
		for _, r := range ids {
			cells := s.ranks[r].cells
			i, ok := slices.BinarySearchFunc(cells, st, func(c cell, step int64) int { return cmp.Compare(c.step, step) })
			if !ok || i == 0 || cells[i-1].step != st-1 || !cells[i].has[atCollective] || cells[i].first == 0 || !cells[i-1].has[atCollective] {
				continue
			}
			c, from := &cells[i], cells[i-1].release(atCollective)
			x = append(x, float64(c.split+int64(c.first)*1000-from))
			y = append(y, float64(c.release(atCollective)-from)-float64(c.wait[atCollective]))
		}
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
		f.group[i].id = max(f.group[i].id, g.id)
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
// and drops the warm-up.
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
	// Warm-up: the first steps compile, allocate and fill caches. Slower than
	// 1.25 times the usual step is beyond any jitter; never more than a tenth
	// of the run, which would be a finding and not a warm-up.
	for rd.dropped < len(p)/10 && p[rd.dropped] > 1.25*typical {
		rd.dropped++
	}
	keep, rd.p = keep[rd.dropped:], p[rd.dropped:]
	steps := make([]int64, len(keep))
	for i, s := range keep {
		steps[i] = rd.steps[s]
	}
	if len(keep) < m {
		for _, x := range rd.all() {
			y := newMatrix(n, len(keep))
			for r := range n {
				for i, s := range keep {
					y.v[r*y.m+i] = x.v[r*x.m+s]
				}
			}
			*x = y
		}
	}
	rd.steps, rd.typical = steps, typical
	for _, v := range rd.p {
		rd.total += v
	}
}
