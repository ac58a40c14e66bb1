package account

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// table holds what the meetings of a job say about the ranks: who waited for whom.
type table struct {
	answers map[*attempt]*answers
	least   map[messageStep]int64
	peers   map[*attempt]*peers
}

// answers holds how long one attempt waited in its meetings.
type answers struct {
	inside    []rows // by time: iteration, rank it waited for or unmatchedRank, duration
	waits     []wait // outside of its iterations, in order
	unmatched int64  // total time in unmatched meetings outside of its iterations
}

const answerColumns = 3

// unmatchedRank stands for the rank in answers of a meeting that cannot be matched. The duration is then
// that of the meeting.
const unmatchedRank = -1

// wait is time in which a rank waited for another one.
type wait struct {
	from, to int64
	rank     int // for which
}

// meet returns the answers for all ranks. It matches the meetings on first use.
func (l *Ledger) meet() *table {
	l.meeting.Lock()
	defer l.meeting.Unlock()
	if l.table != nil {
		return l.table
	}
	t := &table{answers: make(map[*attempt]*answers), least: make(map[messageStep]int64), peers: make(map[*attempt]*peers)}
	for number, ids := range l.having {
		var all []*attempt
		for _, id := range ids {
			of := l.ranks[id].attempts
			at, _ := slices.BinarySearchFunc(of, number, func(a *attempt, n int) int { return cmp.Compare(a.Attempt, n) })
			all = append(all, of[at])
		}
		t.findPeers(all)
		m := newMatcher(all, cmp.Or(l.world[number], l.expected), l.corrections[number].Strides)
		m.inside(l.spill)
		m.outside()
		for i, a := range all {
			t.answers[a] = &m.answers[i]
			t.enterMessages(a)
		}
	}
	l.table = t
	return t
}

// inside calls fn with how long an attempt waited in the meetings of its iterations, and for which rank.
// That is unmatchedRank for a meeting that cannot be matched, and took its duration.
func (t *table) inside(a *attempt, fn func(iteration, rank int, took int64)) {
	for _, r := range t.answers[a].inside {
		for cols, n := range r.blocks(answerColumns) {
			for i := range n {
				fn(int(cols[0][i]), int(cols[1][i]), cols[2][i])
			}
		}
	}
}

// matcher matches the meetings of all ranks in one attempt of the job. The ranks meet in rounds: those of
// an anchor. It goes through the rounds, a bounded number of meetings at a time, and notes the answers
// for each rank before it goes on.
type matcher struct {
	all     []*attempt // by rank
	answers []answers
	groups  [][]int32  // by index in all and kind: the number of the group
	ops     [][]uint32 // the same for the operation, from 1
	sizes   []int      // by group: the number of expected members
	of      []matched  // by group
	cols    [][packBlock]int64
	buf     []byte
}

// meeting identifies one meeting of a group.
type meeting struct {
	anchor int64
	place  int32
}

// matched holds the meetings of a group that are matched together. Ranks usually have the same meetings in
// the same order, so each is found after the one before.
type matched struct {
	list []entered
	at   int             // index of the next meeting of the current rank
	of   map[meeting]int // index in list, nil as long as the list is in order
}

type entered struct {
	key meeting
	meet.Meeting
}

// find returns a meeting of the current rank, a new one if no rank has entered it.
func (g *matched) find(key meeting) *meet.Meeting {
	n := len(g.list)
	switch {
	case g.at < n && g.list[g.at].key == key:
	case g.of == nil && g.at == n && (n == 0 || g.list[n-1].key.before(key)):
		g.list = append(g.list, entered{key: key})
	default:
		if g.of == nil {
			g.of = make(map[meeting]int, n)
			for i := range g.list {
				g.of[g.list[i].key] = i
			}
		}
		at, ok := g.of[key]
		if !ok {
			at = n
			g.of[key] = at
			g.list = append(g.list, entered{key: key})
		}
		g.at = at
	}
	g.at++
	return &g.list[g.at-1].Meeting
}

// before reports whether a rank has a meeting before another one. The sum of the rest of an anchor is last.
func (a meeting) before(b meeting) bool {
	if a.anchor != b.anchor {
		return a.anchor < b.anchor
	}
	return a.place >= 0 && (a.place < b.place || b.place == folded)
}

// mostMeetings bounds the meetings that are matched together: they need 64 bytes each, or more if ranks differ. Tests set it.
var mostMeetings = 1 << 17

func newMatcher(all []*attempt, expected int, strides meet.Strides) *matcher {
	m := &matcher{all: all, answers: make([]answers, len(all))}
	m.cols = make([][packBlock]int64, max(insideColumns, outsideColumns))
	// Ranks without records have places in groups, if they are few.
	n := max(expected, all[len(all)-1].Rank+1)
	few := all[0].Rank >= 0 && n-len(all) <= MaxMissing
	if !few {
		n = len(all)
	}
	ranks, at := make([][]meet.Group, n), make([]int, len(all))
	numbers := make(map[string]uint32)
	for i, a := range all {
		if at[i] = i; few {
			at[i] = a.Rank
		}
		ranks[at[i]] = []meet.Group{} // it has records
		ops := make([]uint32, len(a.meets))
		for k := range a.meets {
			op := a.meets[k].op
			if numbers[op] == 0 {
				numbers[op] = uint32(len(numbers) + 1)
			}
			ops[k] = numbers[op]
			ranks[at[i]] = append(ranks[at[i]], a.meets[k].of())
		}
		m.ops = append(m.ops, ops)
	}
	named := meet.NumberGroups(ranks, strides)
	for i := range named.List {
		m.sizes = append(m.sizes, named.List[i].Expected(max(expected, len(all))))
	}
	m.of = make([]matched, len(m.sizes))
	for i := range all {
		list := make([]int32, len(all[i].meets))
		for k, n := range named.Number[at[i]] {
			list[k] = int32(n)
		}
		m.groups = append(m.groups, list)
	}
	return m
}

// layout is where meetings are in an attempt: their rows, and the index of each column.
type layout struct {
	of                                     func(*packed) *rows
	columns, anchor, kind, place, at, took int // at is the iteration inside of iterations, else the start
}

var (
	insideLayout  = layout{of: func(p *packed) *rows { return &p.inside }, columns: insideColumns, at: 0, anchor: 1, kind: 2, place: 3, took: 4}
	outsideLayout = layout{of: func(p *packed) *rows { return &p.outside }, columns: outsideColumns, anchor: 0, kind: 1, place: 2, at: 3, took: 4}
)

// inside notes the waits inside of iterations.
func (m *matcher) inside(spill *extsort.Blocks) {
	to := rowPacker{spill: spill}
	m.match(&insideLayout, func(_ int, at int64, rank int, took int64) { to.add(at, int64(rank), took) }, func(i int) {
		if to.n > 0 {
			m.answers[i].inside = append(m.answers[i].inside, to.done())
		}
		to.rows = rows{}
	})
}

// outside notes the waits outside of iterations.
func (m *matcher) outside() {
	m.match(&outsideLayout, func(i int, start int64, rank int, took int64) {
		if rank == unmatchedRank {
			m.answers[i].unmatched += took
			return
		}
		start += m.all[i].packed.shift
		m.answers[i].waits = append(m.answers[i].waits, wait{start, start + took, rank})
	}, func(int) {})
	for i := range m.answers {
		slices.SortFunc(m.answers[i].waits, func(x, y wait) int { return cmp.Compare(x.from, y.from) })
	}
}

// match calls answer with how long each attempt, by its index in all, waited for which rank in meetings, and
// with the duration of the unmatched ones. It calls done after the answers of an attempt in some rounds.
func (m *matcher) match(l *layout, answer func(i int, at int64, rank int, took int64), done func(i int)) {
	cursors := make([]cursor, len(m.all))
	for i, a := range m.all {
		cursors[i] = cursor{rows: l.of(&a.packed), next: -1}
	}
	width := m.together(l)
	for {
		low := int64(math.MaxInt64)
		for i := range cursors {
			if cursors[i].left() {
				low = min(low, cursors[i].next)
			}
		}
		if low == math.MaxInt64 {
			return
		}
		high := low + min(width, math.MaxInt64-max(low, 0))
		for g := range m.of {
			m.of[g] = matched{list: m.of[g].list[:0]}
		}
		before := slices.Clone(cursors)
		for i := range cursors {
			m.begin(i)
			cursors[i].read(m, l, high, func(row int) { m.enter(l, i, row) })
		}
		for i := range before {
			m.begin(i)
			before[i].read(m, l, high, func(row int) { m.answer(l, i, row, answer) })
			done(i)
		}
	}
}

// together returns how many successive anchors to match together. Usually those are all.
func (m *matcher) together(l *layout) (width int64) {
	total, rounds := 0, 1
	for _, a := range m.all {
		total, rounds = total+l.of(&a.packed).n, max(rounds, a.packed.iterations.n)
	}
	least := math.MaxInt // members of a group
	for _, n := range m.sizes {
		if n > 1 {
			least = min(least, n)
		}
	}
	meetings := total / least
	if meetings <= mostMeetings {
		return math.MaxInt64
	}
	for _, a := range m.all {
		last := int64(math.MinInt64)
		for cols, n := range l.of(&a.packed).blocks(l.columns) {
			for _, anchor := range cols[l.anchor][:n] {
				if anchor < last {
					return math.MaxInt64 // it repeats a step, which only all rounds together show
				}
				last = anchor
			}
		}
	}
	return max(int64(mostMeetings)*int64(rounds)/int64(meetings), 1)
}

// begin goes to the first meetings of attempt i.
func (m *matcher) begin(i int) {
	for _, g := range m.groups[i] {
		m.of[g].at = 0
	}
}

// key returns the meeting in a row.
func (m *matcher) key(l *layout, row int) meeting {
	return meeting{anchor: m.cols[l.anchor][row], place: int32(m.cols[l.place][row])}
}

func (m *matcher) enter(l *layout, i, row int) {
	kind := m.cols[l.kind][row] - 1
	group, key := m.groups[i][kind], m.key(l, row)
	if m.sizes[group] < 2 {
		return
	}
	op := uint32(0)
	if key.place >= 0 { // a sum may be of several operations
		op = m.ops[i][kind]
	}
	m.of[group].find(key).Enter(m.all[i].Rank, op, m.cols[l.took][row])
}

func (m *matcher) answer(l *layout, i, row int, answer func(i int, at int64, rank int, took int64)) {
	group, took := m.groups[i][m.cols[l.kind][row]-1], m.cols[l.took][row]
	size := m.sizes[group]
	if size < 2 {
		return
	}
	mt := m.of[group].find(m.key(l, row))
	if !mt.IsWhole(size) {
		answer(i, m.cols[l.at][row], unmatchedRank, took)
		return
	}
	if wait := mt.Wait(took); wait > 0 {
		answer(i, m.cols[l.at][row], mt.Last, wait)
	}
}

// cursor reads rows from where it stopped.
type cursor struct {
	rows *rows
	part int   // index of the part
	at   int   // where the current block begins in the part
	row  int   // index of the row, of all
	next int64 // the anchor of that row, at first the lowest of all
}

// left reports whether there are more rows.
func (c *cursor) left() bool { return c.row < c.rows.n }

// read calls fn with the index of each row in m.cols up to the first one whose anchor is not below high.
// Damaged data ends the rows.
func (c *cursor) read(m *matcher, l *layout, high int64, fn func(row int)) {
	for c.left() && c.next < high && c.part < len(c.rows.parts) {
		data := c.rows.parts[c.part].Read(&m.buf)
		for c.left() && c.at < len(data) {
			src := columns.NewReader(data[c.at:])
			first := c.row - c.row%packBlock
			n := min(c.rows.n-first, packBlock)
			for k := range l.columns {
				src.Column(m.cols[k][:n])
			}
			if src.Err() != nil {
				c.row = c.rows.n
				return
			}
			for ; c.row-first < n; c.row++ {
				if c.next = m.cols[l.anchor][c.row-first]; c.next >= high {
					return
				}
				fn(c.row - first)
			}
			c.at = len(data) - src.Len()
		}
		c.part, c.at = c.part+1, 0
	}
	if c.part >= len(c.rows.parts) {
		c.row = c.rows.n
	}
}
