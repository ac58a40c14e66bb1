package dataset

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

// row is an event. Values that many rows share are numbers of tables.
type row struct {
	ts, dur int64
	tid     int64
	id      uint64
	parent  int64 // 0 if none
	level   int64
	epoch   number
	step    number
	name    uint32 // category, name and phase
	group   uint32 // 0 if none
	file    uint32 // hash; 0 if none
	args    []byte // JSON, may be empty
}

// number is an optional integer.
type number struct {
	value int64
	known bool
}

// compare orders rows, outer spans first.
func (r *row) compare(o *row) int {
	if r.ts != o.ts {
		return cmp.Compare(r.ts, o.ts)
	}
	return nest.KeyOf(r.ts, r.ts+r.dur, r.level).Compare(nest.KeyOf(o.ts, o.ts+o.dur, o.level))
}

const usPerHour = 3600 * 1_000_000 // microseconds per folder

func hourOf(ts int64) int64 { return max(ts, 0) / usPerHour }

// hour holds the rows of a process in an hour.
type hour struct {
	n      int64
	blocks []block
}

// block is some rows in order, which were added after those of the blocks
// before it.
type block struct {
	extsort.Block
	n     int
	first int64 // the time of the first row
}

// rowOrder is the time of a row and its index, for sorting.
type rowOrder struct {
	ts int64
	at int32
}

// pack moves rows to blocks, by hour. Of equal rows, the one that was added
// later comes first.
func (p *Process) pack() {
	order := p.order[:0]
	for i := range p.rows {
		order = append(order, rowOrder{p.rows[i].ts, int32(i)})
	}
	p.runs.Sort(order, func(a, b *rowOrder) int {
		if a.ts != b.ts {
			return cmp.Compare(a.ts, b.ts)
		}
		return cmp.Or(p.rows[a.at].compare(&p.rows[b.at]), cmp.Compare(b.at, a.at))
	})
	p.order = order
	for len(order) > 0 {
		of := hourOf(order[0].ts)
		n := 1
		for n < len(order) && hourOf(order[n].ts) == of {
			n++
		}
		data, last := p.packed[:0], row{}
		for _, o := range order[:n] {
			data = p.rows[o.at].append(data, &last)
		}
		p.packed = data
		h := p.hours[of]
		if h == nil {
			h = new(hour)
			p.hours[of] = h
		}
		h.n += int64(n)
		h.blocks = append(h.blocks, block{Block: p.to.rows.Put(data), n: n, first: order[0].ts})
		order = order[n:]
	}
	p.rows = p.rows[:0]
}

// Flags of a stored row: which values it has, and which differ from those of
// the row before it.
const (
	hasEpoch = 1 << iota
	hasStep
	otherThread
	otherEpoch
	otherStep
	otherGroup
	otherFile
)

// append appends a row. last has the values of the rows before it in a block.
func (r *row) append(dst []byte, last *row) []byte {
	flags := uint64(0)
	if r.tid != last.tid {
		flags |= otherThread
	}
	if r.epoch.known {
		if flags |= hasEpoch; r.epoch.value != last.epoch.value {
			flags |= otherEpoch
		}
	}
	if r.step.known {
		if flags |= hasStep; r.step.value != last.step.value {
			flags |= otherStep
		}
	}
	if r.group != last.group {
		flags |= otherGroup
	}
	if r.file != last.file {
		flags |= otherFile
	}
	dst = binary.AppendUvarint(dst, flags)
	dst = binary.AppendVarint(dst, r.ts-last.ts)
	dst = binary.AppendVarint(dst, r.dur)
	dst = binary.AppendVarint(dst, int64(r.id-last.id))
	dst = binary.AppendVarint(dst, r.parent-last.parent)
	dst = binary.AppendUvarint(dst, uint64(r.level))
	dst = binary.AppendUvarint(dst, uint64(r.name))
	last.ts, last.id, last.parent = r.ts, r.id, r.parent
	if flags&otherThread != 0 {
		dst, last.tid = binary.AppendVarint(dst, r.tid), r.tid
	}
	if flags&otherEpoch != 0 {
		dst, last.epoch = binary.AppendVarint(dst, r.epoch.value), r.epoch
	}
	if flags&otherStep != 0 {
		dst, last.step = binary.AppendVarint(dst, r.step.value), r.step
	}
	if flags&otherGroup != 0 {
		dst, last.group = binary.AppendUvarint(dst, uint64(r.group)), r.group
	}
	if flags&otherFile != 0 {
		dst, last.file = binary.AppendUvarint(dst, uint64(r.file)), r.file
	}
	return columns.AppendBytes(dst, r.args)
}

// read replaces a row by the next one of its block.
func (r *row) read(in *columns.Reader) {
	flags := in.Uint()
	r.ts += in.Int()
	r.dur = in.Int()
	r.id += uint64(in.Int())
	r.parent += in.Int()
	r.level = int64(in.Uint())
	r.name = uint32(in.Uint())
	if flags&otherThread != 0 {
		r.tid = in.Int()
	}
	if flags&otherEpoch != 0 {
		r.epoch.value = in.Int()
	}
	if flags&otherStep != 0 {
		r.step.value = in.Int()
	}
	if flags&otherGroup != 0 {
		r.group = uint32(in.Uint())
	}
	if flags&otherFile != 0 {
		r.file = uint32(in.Uint())
	}
	r.epoch.known, r.step.known = flags&hasEpoch != 0, flags&hasStep != 0
	r.args = in.Bytes()
}

// merge returns the rows of some processes in an hour in order. Most blocks
// follow each other in time, so that few are open at once.
type merge struct {
	closed []*cursor // not begun, the earliest last
	open   []*cursor // a heap
	last   *cursor   // whose row was returned
	err    error
}

// cursor reads a block.
type cursor struct {
	block
	process int // index in the processes of the file
	age     int // number of the block in its process
	left    int
	in      *columns.Reader
	row
}

// mergeOf returns the rows of the processes in a range.
func mergeOf(procs []*Process, from, to int, at int64) *merge {
	m := &merge{}
	for i := from; i < to; i++ {
		for age, b := range procs[i].hours[at].blocks {
			m.closed = append(m.closed, &cursor{block: b, process: i, age: age, left: b.n})
		}
	}
	slices.SortFunc(m.closed, func(a, b *cursor) int {
		return cmp.Or(cmp.Compare(b.first, a.first), cmp.Compare(a.process, b.process), cmp.Compare(a.age, b.age))
	})
	return m
}

// next returns the next row, or nil at the end or after an error. It is valid
// until the next call.
func (m *merge) next() *cursor {
	if c := m.last; c != nil {
		if m.last = nil; c.advance() {
			m.siftDown(0)
		} else {
			m.fail(c.in.Err())
			n := len(m.open) - 1
			m.open[0], m.open[n] = m.open[n], nil
			m.open = m.open[:n]
			m.siftDown(0)
		}
	}
	for n := len(m.closed) - 1; n >= 0 && (len(m.open) == 0 || m.closed[n].first <= m.open[0].ts); n-- {
		m.begin(m.closed[n])
		m.closed = m.closed[:n]
	}
	if m.err != nil || len(m.open) == 0 {
		return nil
	}
	m.last = m.open[0]
	return m.last
}

func (m *merge) fail(err error) {
	if m.err == nil && err != nil {
		m.err = fmt.Errorf("dataset: %w", err)
	}
}

// begin opens a block.
func (m *merge) begin(c *cursor) {
	var buf []byte
	c.in = columns.NewReader(c.Read(&buf))
	if !c.advance() {
		m.fail(c.in.Err())
		return
	}
	m.open = append(m.open, c)
	for i := len(m.open) - 1; i > 0 && m.open[i].before(m.open[(i-1)/2]); i = (i - 1) / 2 {
		m.open[i], m.open[(i-1)/2] = m.open[(i-1)/2], m.open[i]
	}
}

func (m *merge) siftDown(i int) {
	for {
		k := 2*i + 1
		if k >= len(m.open) {
			return
		}
		if k+1 < len(m.open) && m.open[k+1].before(m.open[k]) {
			k++
		}
		if !m.open[k].before(m.open[i]) {
			return
		}
		m.open[i], m.open[k] = m.open[k], m.open[i]
		i = k
	}
}

// advance reads the next row.
func (c *cursor) advance() bool {
	if c.left == 0 {
		return false
	}
	c.left--
	c.row.read(c.in)
	return c.in.Err() == nil
}

// before reports whether the row of c comes before that of o.
func (c *cursor) before(o *cursor) bool {
	by := c.row.compare(&o.row)
	if by == 0 && c.process == o.process {
		return c.age > o.age
	}
	return cmp.Or(by, cmp.Compare(c.process, o.process)) < 0
}
