package straggler

import (
	"bytes"
	"maps"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/columns"
	"github.com/trainspan/trainspan/internal/robust"
)

// WindowSteps is how many steps a window has. Windows begin at the same numbers
// on all ranks.
const WindowSteps = 100

const (
	// fullSteps are kept one by one from the start: the slow start, and what says
	// whether compute goes on beside collectives.
	fullSteps = 256
	// outlier is how many times the median of a window a step lasts that is
	// left out of its sums and kept as it is.
	outlier = 1.5
)

// The columns of a window.
const (
	wID      = iota // first step over WindowSteps
	wCount          // steps in the sums
	wPeriod         // the sums begin here; they end before wMedian
	wComm           // time that collectives cover
	wWait           //
	wWorld          //
	wTokens         //
	wOwn            // period less comm, and less the wait in another span
	wGroup          // two
	wCovered = wGroup + 2
	wPhase   = wCovered + 2
	wMedian  = wPhase + int(phases) // of the period of all steps, outliers as well
	wP90     = wMedian + 1
	wP99     = wMedian + 2
	wMax     = wMedian + 3

	windowColumns = wMax + 1
)

// window is the steps of one rank from one multiple of WindowSteps to the next,
// as sums of the usual ones and a sketch of all.
type window [windowColumns]int64

// windows are those of one rank.
type windows struct {
	barrier barrier
	devices bool // device time stands for what the barrier would hide
	groups  [2]string
	n       int
	data    []byte
}

func packWindows(list []window) []byte {
	var out []byte
	col := make([]int64, blockCells)
	for part := range slices.Chunk(list, blockCells) {
		for k := range windowColumns {
			for i := range part {
				col[i] = part[i][k]
			}
			out = columns.Append(out, col[:len(part)])
		}
	}
	return bytes.Clone(out)
}

// open gives the windows, nil when they are damaged.
func (w *windows) open() []window {
	out := make([]window, w.n)
	r := columns.NewReader(w.data)
	col := make([]int64, blockCells)
	for part := range slices.Chunk(out, blockCells) {
		for k := range windowColumns {
			r.Column(col[:len(part)])
			for i := range part {
				part[i][k] = col[i]
			}
		}
	}
	if r.Err() != nil || r.Len() != 0 {
		return nil
	}
	return out
}

// Windowed says whether windows stand for most steps.
func (s *State) Windowed() bool { return s.windowed }

// Window replaces steps by windows of [WindowSteps]: sums of the usual steps and
// a sketch of all, about 100 bytes a window instead of 2,500. Steps far longer than
// the median of their window, the first ones and those of windows that are not
// complete stay as they are. What is judged then is the mean step of each window:
// a first step is exact to a window, and a single late step is no finding.
// Which barrier ranks leave together is taken from what their steps have, not
// from how well they agree.
func (s *State) Window() {
	if s.windowed {
		return
	}
	s.Pack()
	s.windowed, s.cells = true, 0
	for _, r := range slices.Sorted(maps.Keys(s.ranks)) {
		s.windowRank(r)
		s.cells += s.ranks[r].steps.n
	}
}

func (s *State) windowRank(r int) {
	rs := s.ranks[r]
	if rs.steps.n == 0 {
		return
	}
	var counts [barriers]int
	for c := range rs.steps.all() {
		for b, has := range c.has {
			if has {
				counts[b]++
			}
		}
	}
	b := barrier(0)
	for b < barriers && float64(counts[b]) < minRanks*float64(rs.steps.n) {
		b++
	}
	if b == barriers {
		return
	}
	rd := &rounds{barrier: b, ids: []int{r}}
	steps := s.stepsWith(rd.ids)[b]
	rs.windows.devices = s.fillRows(rd, steps)
	rs.windows.barrier = b
	covered := make(map[int64][3]int64)
	for c := range rs.steps.all() {
		if sum := [3]int64{c.covered[0], c.covered[1], c.comm[0] + c.comm[1]}; sum != [3]int64{} {
			covered[c.step] = sum
		}
	}
	var out []window
	replaced := make(map[int64]bool)
	first := rs.steps.blocks[0].first
	for at := 0; at < rd.m(); {
		id, end := rd.steps[at]/WindowSteps, at
		for end < rd.m() && rd.steps[end]/WindowSteps == id {
			end++
		}
		if end-at == WindowSteps && rd.steps[at] >= first+fullSteps {
			if w, ok := rd.window(at, end, covered, replaced); ok {
				out = append(out, w)
			}
		}
		at = end
	}
	if len(out) == 0 {
		return
	}
	rs.windows.n, rs.windows.data = len(out), packWindows(out)
	for g, id := range rd.groups[0] {
		rs.windows.groups[g] = rd.names[id]
	}
	p := takePacking()
	defer p.giveBack()
	var kept []cell
	var blocks []block
	n := 0
	for c := range rs.steps.all() {
		if replaced[c.step] {
			continue
		}
		kept = append(kept, *c)
		n++
		if len(kept) == blockCells {
			blocks = append(blocks, p.block(kept))
			kept = kept[:0]
		}
	}
	if len(kept) > 0 {
		blocks = append(blocks, p.block(kept))
	}
	rs.steps = store{blocks: blocks, n: n}
}

// window sums up the rounds [from, to) of a single rank.
func (rd *rounds) window(from, to int, covered map[int64][3]int64, replaced map[int64]bool) (w window, ok bool) {
	var periods []float64
	for i := from; i < to; i++ {
		if p := rd.period.at(0, i); p == p {
			periods = append(periods, p)
		}
	}
	if 2*len(periods) < to-from {
		return w, false
	}
	slices.Sort(periods)
	median := robust.Quantile(periods, 0.5)
	whole := func(v float64) int64 {
		if v != v {
			return 0
		}
		return int64(math.Round(v))
	}
	w[wID] = rd.steps[from] / WindowSteps
	for i, q := range [...]float64{0.5, 0.9, 0.99, 1} {
		w[wMedian+i] = whole(robust.Quantile(periods, q))
	}
	for i := from; i < to; i++ {
		p := rd.period.at(0, i)
		if p != p || p > outlier*median {
			continue
		}
		replaced[rd.steps[i]] = true
		w[wCount]++
		own := rd.own.at(0, i)
		w[wPeriod] += whole(p)
		w[wOwn] += whole(own)
		w[wWait] += whole(rd.wait.at(0, i))
		w[wWorld] += whole(rd.world.at(0, i))
		w[wTokens] += whole(rd.tokens.at(0, i))
		for g := range rd.group {
			w[wGroup+g] += whole(rd.group[g].at(0, i))
		}
		by := covered[rd.steps[i]]
		w[wCovered] += by[0]
		w[wCovered+1] += by[1]
		w[wComm] += by[2]
		for p := range rd.phase {
			w[wPhase+p] += whole(rd.phase[p].at(0, i))
		}
	}
	return w, 2*w[wCount] >= int64(to-from)
}

// fromWindows makes rounds of windows: the mean step of each.
func (s *State) fromWindows() *rounds {
	var count [barriers]int
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(s.ranks)), func(r int) bool { return s.ranks[r].windows.n == 0 })
	for _, r := range ids {
		count[s.ranks[r].windows.barrier]++
	}
	b := barrier(slices.Index(count[:], slices.Max(count[:])))
	ids = slices.DeleteFunc(ids, func(r int) bool { return s.ranks[r].windows.barrier != b })
	if len(ids) == 0 {
		return nil
	}
	have := make(map[int64]int)
	for _, r := range ids {
		for _, w := range s.ranks[r].windows.open() {
			have[w[wID]]++
		}
	}
	var steps []int64
	for _, id := range slices.Sorted(maps.Keys(have)) {
		if float64(have[id]) >= minRanks*float64(len(ids)) {
			steps = append(steps, id)
		}
	}
	rd := &rounds{barrier: b, ids: ids, steps: steps, per: WindowSteps}
	s.setLanes(rd)
	all := occurrence{tokens: true, group: [2]bool{true, true}}
	for p := range all.phase {
		all.phase[p] = true
	}
	rd.allocate(len(ids), len(steps), all)
	rd.sketch = make([][4]float64, len(steps))
	numbers := rd.numberGroups(s)
	var roles []string
	devices := true
	sketches := make([]int, len(steps))
	for k, r := range ids {
		rs := s.ranks[r]
		roles = append(roles, rs.info.Role)
		devices = devices && rs.windows.devices
		for g, name := range rs.windows.groups {
			rd.groups[k][g] = numbers[name]
		}
		for _, w := range rs.windows.open() {
			i, ok := slices.BinarySearch(steps, w[wID])
			if !ok || w[wCount] == 0 {
				continue
			}
			rd.addWindow(k, i, &w, rs.windows.devices)
			sketches[i]++
			for q := range rd.sketch[i] {
				rd.sketch[i][q] += float64(w[wMedian+q])
			}
		}
	}
	for i := range steps {
		for q := range rd.sketch[i] {
			rd.sketch[i][q] /= float64(max(sketches[i], 1))
		}
		rd.steps[i] *= WindowSteps
	}
	rd.setRoles(roles)
	rd.wholeGroups()
	rd.setHides(devices)
	rd.finish()
	return rd
}

func (rd *rounds) addWindow(k, i int, w *window, devices bool) {
	mean := func(v int64) float64 { return float64(v) / float64(w[wCount]) }
	own := mean(w[wOwn])
	if rd.beside && devices {
		// Only the last collective of a step is waited for: see filler.add.
		own += mean(w[wComm] - w[wWait])
	}
	var inPhases float64
	for p := Host + 1; p < phases; p++ {
		v := mean(w[wPhase+int(p)])
		if rd.beside && !devices && (p == Forward || p == Backward) {
			c := mean(w[wCovered+int(p-Forward)])
			v += c
			own += c
		}
		inPhases += v
		rd.phase[p].set(k, i, v)
	}
	rd.phase[Host].set(k, i, own-inPhases)
	rd.own.set(k, i, own)
	rd.period.set(k, i, mean(w[wPeriod]))
	rd.wait.set(k, i, mean(w[wWait]))
	rd.world.set(k, i, mean(w[wWorld]))
	for g := range rd.group {
		if rd.groups[k][g] != 0 && w[wGroup+g] != 0 {
			rd.group[g].set(k, i, mean(w[wGroup+g]))
		}
	}
	if w[wTokens] > 0 {
		rd.tokens.set(k, i, mean(w[wTokens]))
	}
}

// buildWindows is build where windows stand for steps.
func (s *State) buildWindows() (*rounds, float64) {
	rd := s.fromWindows()
	if rd == nil || rd.n() < 2 || rd.m() == 0 {
		return nil, math.Inf(1)
	}
	var spreads, d []float64
	for i := range rd.m() {
		if d = column(d, rd.period, rd.everyone(), i); len(d) < 2 {
			continue
		}
		if len(d) < 4 {
			spreads = append(spreads, slices.Max(d)-slices.Min(d))
		} else {
			spreads = append(spreads, 2*robust.MAD(d))
		}
	}
	rd.spread = robust.Median(spreads) / rd.typical
	if !(rd.spread <= maxSpread) {
		return nil, rd.spread
	}
	return rd, rd.spread
}

func (rd *rounds) everyone() []int {
	out := make([]int, rd.n())
	for i := range out {
		out[i] = i
	}
	return out
}
