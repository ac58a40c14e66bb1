package straggler

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/columns"
)

// store holds the steps of one rank by number. They are packed in blocks, 20 to
// 50 bytes a step; the newest, and those that came out of order, wait as they
// are.
type store struct {
	blocks []block // by step; they do not overlap
	loose  []cell  // by step; they may lie among the blocks
	n      int     // steps; one that came again is counted twice until it is packed
}

type block struct {
	first, last int64 // steps
	n           int
	data        []byte
}

const (
	// blockCells is how many steps are packed together: enough for what the
	// columns have in common, few enough for one pause not to widen many.
	blockCells = 64
	// keepLoose are the steps that stay as they are when a block is packed, so
	// that ranks which report a little out of order do not open it again.
	keepLoose = 32
)

// add adds a step and says how many more there are now, and how many came
// twice and differed.
func (st *store) add(c *cell) (more, disputed int) {
	before := st.n
	if n := len(st.loose); n == 0 || st.loose[n-1].step < c.step {
		st.loose = append(st.loose, *c)
		st.n++
	} else {
		i, found := slices.BinarySearchFunc(st.loose, c.step, func(c cell, step int64) int { return cmp.Compare(c.step, step) })
		if found {
			return 0, st.loose[i].settle(c)
		}
		st.loose = slices.Insert(st.loose, i, *c)
		st.n++
	}
	if len(st.loose) < blockCells+keepLoose {
		return st.n - before, 0
	}
	if b := len(st.blocks); b == 0 || st.loose[0].step > st.blocks[b-1].last {
		p := takePacking()
		st.blocks = append(st.blocks, p.block(st.loose[:blockCells]))
		p.giveBack()
		st.loose = st.loose[:copy(st.loose, st.loose[blockCells:])]
		return st.n - before, 0
	}
	// Steps in any order wait until they are an eighth of all: packing them
	// among the others again and again would take the square of their number.
	if len(st.loose) >= st.n/8 {
		disputed = st.pack()
	}
	return st.n - before, disputed
}

// settle keeps one of two versions of a step and gives 1 when they differ.
func (c *cell) settle(o *cell) int {
	if *c == *o {
		return 0
	}
	if compareCells(o, c) > 0 {
		*c = *o
	}
	return 1
}

// pack packs all steps. Then n is their number.
func (st *store) pack() (disputed int) {
	if len(st.loose) == 0 {
		return 0
	}
	first, last := st.loose[0].step, st.loose[len(st.loose)-1].step
	from, _ := slices.BinarySearchFunc(st.blocks, first, func(b block, step int64) int { return cmp.Compare(b.last, step) })
	to := from
	p := takePacking()
	defer p.giveBack()
	var all []cell
	for ; to < len(st.blocks) && st.blocks[to].first <= last; to++ {
		all = append(all, p.open(&st.blocks[to])...)
	}
	was := len(all) + len(st.loose)
	switch {
	case len(all) > 0:
		all = append(all, st.loose...)
		slices.SortStableFunc(all, func(a, b cell) int { return cmp.Compare(a.step, b.step) })
		out := all[:1]
		for i := 1; i < len(all); i++ {
			if last := &out[len(out)-1]; last.step == all[i].step {
				disputed += last.settle(&all[i])
				continue
			}
			out = append(out, all[i])
		}
		all = out
	case from > 0 && from == len(st.blocks) && st.blocks[from-1].n+len(st.loose) <= blockCells:
		from-- // a short block becomes a longer one
		all = append(append(all, p.open(&st.blocks[from])...), st.loose...)
		was = len(all)
	default:
		all = st.loose
	}
	var packed []block
	for part := range slices.Chunk(all, blockCells) {
		packed = append(packed, p.block(part))
	}
	st.blocks = slices.Replace(st.blocks, from, to, packed...)
	st.n -= was - len(all)
	st.loose = nil
	return disputed
}

// cut forgets the steps before one. The store is packed.
func (st *store) cut(step int64) {
	i, _ := slices.BinarySearchFunc(st.blocks, step, func(b block, step int64) int { return cmp.Compare(b.last, step) })
	for _, b := range st.blocks[:i] {
		st.n -= b.n
	}
	st.blocks = slices.Delete(st.blocks, 0, i)
	if len(st.blocks) == 0 || st.blocks[0].first >= step {
		return
	}
	p := takePacking()
	defer p.giveBack()
	cells := p.open(&st.blocks[0])
	k := slices.IndexFunc(cells, func(c cell) bool { return c.step >= step })
	st.n -= k
	st.blocks[0] = p.block(cells[k:])
}

// all goes through the steps in order. A cell is valid until the next one. The
// store is packed.
func (st *store) all() iter.Seq[*cell] {
	return func(yield func(*cell) bool) {
		p := takePacking()
		defer p.giveBack()
		for i := range st.blocks {
			cells := p.open(&st.blocks[i])
			for k := range cells {
				if !yield(&cells[k]) {
					return
				}
			}
		}
	}
}

// ends gives the first and the last step of a packed store that has any.
func (st *store) ends() (first, last cell) {
	p := takePacking()
	defer p.giveBack()
	first = p.open(&st.blocks[0])[0]
	cells := p.open(&st.blocks[len(st.blocks)-1])
	return first, cells[len(cells)-1]
}

// middle gives a step from the middle of a packed store that has any.
func (st *store) middle() cell {
	p := takePacking()
	defer p.giveBack()
	cells := p.open(&st.blocks[len(st.blocks)/2])
	return cells[len(cells)/2]
}

// packing has the buffers for packing and opening blocks.
type packing struct {
	cols  [cellColumns][blockCells]int64
	cells [blockCells]cell
	buf   []byte
}

// packings are 37 KB each, of which a block needs one for microseconds.
var packings = sync.Pool{New: func() any { return new(packing) }}

func takePacking() *packing { return packings.Get().(*packing) }

func (p *packing) giveBack() { packings.Put(p) }

// block packs at least one and at most blockCells steps.
func (p *packing) block(cells []cell) block {
	var row [cellColumns]int64
	for i := range cells {
		cells[i].row(&row)
		for k, v := range row {
			p.cols[k][i] = v
		}
	}
	p.buf = p.buf[:0]
	for k := range p.cols {
		p.buf = columns.Append(p.buf, p.cols[k][:len(cells)])
	}
	return block{first: cells[0].step, last: cells[len(cells)-1].step, n: len(cells), data: bytes.Clone(p.buf)}
}

// open gives the steps of a block, until the next call.
func (p *packing) open(b *block) []cell {
	src := b.data
	for k := range p.cols {
		// Blocks of a file were checked when they were read.
		src, _ = columns.Decode(src, p.cols[k][:b.n])
	}
	var row [cellColumns]int64
	for i := range b.n {
		for k := range row {
			row[k] = p.cols[k][i]
		}
		p.cells[i].setRow(&row)
	}
	return p.cells[:b.n]
}

// cellColumns is how many numbers a cell has.
const cellColumns = 2 + 2*int(phases) + 3*int(barriers) + 2 + 1 + 4 + 1 + 2 + 2 + 1

// row gives the numbers of a cell in the order in which they are stored.
func (c *cell) row(out *[cellColumns]int64) {
	to := append(out[:0], c.step, c.split)
	to = append(append(to, c.before[:]...), c.after[:]...)
	to = append(append(to, c.shift[:]...), c.wait[:]...)
	for _, has := range c.has {
		to = append(to, 0)
		if has {
			to[len(to)-1] = 1
		}
	}
	to = append(append(to, c.comm[:]...), c.world)
	for _, g := range c.groups {
		to = append(to, int64(g.id), g.dur)
	}
	to = append(to, c.tokens)
	to = append(append(to, c.device[:]...), c.covered[:]...)
	_ = append(to, c.first)
}

func (c *cell) setRow(in *[cellColumns]int64) {
	from := in[:]
	take := func(to []int64) { from = from[copy(to, from):] }
	one := func() int64 { v := from[0]; from = from[1:]; return v }
	c.step, c.split = one(), one()
	take(c.before[:])
	take(c.after[:])
	take(c.shift[:])
	take(c.wait[:])
	for b := range c.has {
		c.has[b] = one() != 0
	}
	take(c.comm[:])
	c.world = one()
	for i := range c.groups {
		c.groups[i] = groupTime{id: uint16(one()), dur: one()}
	}
	c.tokens = one()
	take(c.device[:])
	take(c.covered[:])
	c.first = one()
}
