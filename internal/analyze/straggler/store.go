package straggler

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// store holds the programs of one rank by step, packed in blocks: a byte or two for each piece and two for
// its time. Programs that arrive out of order are packed separately and wait in loose.
type store struct {
	spill  *extsort.Blocks // keeps the first error
	blocks []block         // by step, without overlap
	loose  []looseBlock    // one step each, in any order
	last   *program        // last program of the last block; nil if no steps are being appended
	held   int             // number of steps packed as differences up to last
	open   []byte          // data of the last block while it is not full
	n      int
}

// block is a run of steps. A program is packed as a difference to the previous one, so a block with goesOn
// must be read after the block before it.
type block struct {
	first, last int64
	n           int32
	goesOn      bool
	data        extsort.Block
}

// looseBlock is one step, packed independently.
type looseBlock struct {
	step int64
	data []byte
}

const (
	blockSteps = 64       // steps per chain of differences
	blockBytes = 12 << 10 // a reader of all ranks holds one block of each
	keepLoose  = 96       // ranks report slightly out of order
)

// add adds a program. It returns the number of conflicting duplicates found so far; the rest are found by
// pack.
func (st *store) add(p *program) (disputed int) {
	if k := len(st.blocks); k == 0 || p.step > st.blocks[k-1].last {
		st.follow(p)
		return 0
	}
	st.loose = append(st.loose, packLoose(p))
	st.n++
	if len(st.loose) >= max(st.n/8, keepLoose) {
		return st.pack()
	}
	return 0
}

// follow appends a program after all others.
func (st *store) follow(p *program) {
	switch {
	case st.last == nil || st.held == blockSteps:
		if st.last == nil {
			st.last = new(program)
		}
		st.last.reset()
		st.held = 0
		st.blocks = append(st.blocks, block{first: p.step})
	case len(st.open) == 0:
		st.blocks = append(st.blocks, block{first: p.step, goesOn: true})
	}
	st.open = p.append(st.open, st.last)
	b := &st.blocks[len(st.blocks)-1]
	b.last, b.n = p.step, b.n+1
	st.last.copy(p)
	st.n++
	if st.held++; st.held == blockSteps || len(st.open) >= blockBytes {
		st.fillBlock()
	}
}

// fillBlock closes the last block.
func (st *store) fillBlock() {
	if len(st.open) == 0 {
		return
	}
	st.blocks[len(st.blocks)-1].data = st.spill.Put(st.open)
	st.open = st.open[:0]
}

// packLoose packs one step independently.
func packLoose(p *program) looseBlock { return looseBlock{p.step, p.append(nil, &noProgram)} }

// noProgram is the predecessor of the first program of a block.
var noProgram program

// settle keeps one of two versions of a step, independent of their order, and reports whether they differ.
func (b *looseBlock) settle(o *looseBlock) bool {
	if bytes.Equal(b.data, o.data) {
		return false
	}
	if c := cmp.Or(cmp.Compare(len(o.data), len(b.data)), bytes.Compare(o.data, b.data)); c > 0 {
		*b = *o
	}
	return true
}

// firstBlock returns the index of the block at which reading must start to get all steps from step on.
func (st *store) firstBlock(step int64) int {
	i, _ := slices.BinarySearchFunc(st.blocks, step, func(b block, step int64) int { return cmp.Compare(b.last, step) })
	for i < len(st.blocks) && st.blocks[i].goesOn {
		i--
	}
	return i
}

// pack packs all steps and returns the number of conflicting duplicates. Afterwards n is exact.
func (st *store) pack() (disputed int) {
	if st.last != nil {
		st.fillBlock()
		st.last, st.open = nil, nil
	}
	if len(st.loose) == 0 {
		return 0
	}
	all := st.loose
	bySteps := func(a, b looseBlock) int { return cmp.Compare(a.step, b.step) }
	from := st.firstBlock(slices.MinFunc(all, bySteps).step)
	for c := openBlocks(st.blocks[from:]); c.ok; c.next() {
		all = append(all, packLoose(&c.p))
	}
	slices.SortStableFunc(all, bySteps)
	st.blocks, st.loose, st.n = slices.Clone(st.blocks[:from]), nil, st.n-len(all)
	var p program
	for i := range all {
		if i+1 < len(all) && all[i].step == all[i+1].step {
			if all[i].settle(&all[i+1]) {
				disputed++
			}
			all[i+1] = all[i]
			continue
		}
		p.read(columns.NewReader(all[i].data), &shape{})
		st.follow(&p)
	}
	return disputed + st.pack()
}

// cut discards the steps before step. The store must be packed.
func (st *store) cut(step int64) {
	rest := store{spill: st.spill}
	whole := st.firstBlock(step)
	if whole < len(st.blocks) && st.blocks[whole].first < step {
		from := whole
		for whole++; whole < len(st.blocks) && st.blocks[whole].goesOn; whole++ {
		}
		for c := openBlocks(st.blocks[from:whole]); c.ok; c.next() {
			if c.p.step >= step {
				rest.follow(&c.p)
			}
		}
		rest.pack()
	}
	*st = store{spill: st.spill, blocks: append(rest.blocks, st.blocks[whole:]...)}
	for i := range st.blocks {
		st.n += int(st.blocks[i].n)
	}
}

// cursor iterates over the programs of blocks in order.
type cursor struct {
	blocks []block
	r      columns.Reader
	buf    []byte
	before shape
	p      program // the caller may change it
	ok     bool
}

// gapless reports whether each block has all steps from its first to its last one.
func (st *store) gapless() bool {
	return !slices.ContainsFunc(st.blocks, func(b block) bool { return b.last-b.first+1 != int64(b.n) })
}

func (st *store) cursor() *cursor { return openBlocks(st.blocks) }

// openBlocks returns a cursor over blocks. The first one must not have goesOn.
func openBlocks(blocks []block) *cursor {
	c := &cursor{blocks: blocks}
	c.next()
	return c
}

// next reads the next program; ok reports whether there is one. Read errors are kept by [extsort.Blocks].
func (c *cursor) next() {
	for c.r.Len() == 0 {
		if len(c.blocks) == 0 {
			c.ok = false
			return
		}
		b := &c.blocks[0]
		if c.r, c.blocks = *columns.NewReader(b.data.Read(&c.buf)), c.blocks[1:]; !b.goesOn {
			c.before.reset()
		}
	}
	c.p.read(&c.r, &c.before)
	c.ok = true
}

func (p *program) reset() { *p = program{host: p.host[:0], lanes: p.lanes[:0]} }

func (p *program) copy(o *program) {
	host, lanes := append(p.host[:0], o.host...), append(p.lanes[:0], o.lanes...)
	*p = *o
	p.host, p.lanes = host, lanes
}

// worked reports whether the work of the device in the step is recorded.
func (p *program) worked() bool {
	return slices.ContainsFunc(p.lanes, func(l laneOp) bool { return l.lane == Device })
}

// updates reports whether the step has work of the optimizer.
func (p *program) updates() bool {
	return slices.ContainsFunc(p.host, func(pc piece) bool { return pc.kind == work && pc.phase == Optimizer }) ||
		slices.ContainsFunc(p.lanes, func(l laneOp) bool { return l.kind == work && l.phase == Optimizer })
}

// alike reports whether two programs have the same sequence of pieces, ignoring times.
func (p *program) alike(o *program) bool {
	same := func(x, y *piece) bool { return x.kind == y.kind && x.phase == y.phase && x.group == y.group }
	if len(p.host) != len(o.host) || len(p.lanes) != len(o.lanes) {
		return false
	}
	for i := range p.host {
		if !same(&p.host[i], &o.host[i]) {
			return false
		}
	}
	for i := range p.lanes {
		if x, y := &p.lanes[i], &o.lanes[i]; x.lane != y.lane || !same(&x.piece, &y.piece) {
			return false
		}
	}
	return true
}

// A program is packed as a difference to the previous one in its block: its number, start and tokens as
// differences, its pieces only if they differ, and the times of the pieces. Its end follows from these.

func (pc *piece) code() uint64 {
	return (uint64(pc.group)*uint64(phases)+uint64(pc.phase))*uint64(pieceKinds) + uint64(pc.kind)
}

func (pc *piece) setCode(c uint64) {
	pc.kind = pieceKind(c % uint64(pieceKinds))
	c /= uint64(pieceKinds)
	pc.phase, pc.group = Phase(c%uint64(phases)), uint16(c/uint64(phases))
}

func (p *program) append(dst []byte, before *program) []byte {
	for _, v := range [...]int64{p.step - before.step, p.start - before.end, p.tokens - before.tokens} {
		dst = binary.AppendVarint(dst, v)
	}
	if p.alike(before) {
		dst = append(dst, 0)
	} else {
		dst = append(dst, 1)
		dst = binary.AppendUvarint(dst, uint64(len(p.host)))
		for i := range p.host {
			dst = binary.AppendUvarint(dst, p.host[i].code())
		}
		dst = binary.AppendUvarint(dst, uint64(len(p.lanes)))
		for i := range p.lanes {
			dst = binary.AppendUvarint(dst, p.lanes[i].code())
			dst = append(dst, p.lanes[i].lane)
		}
	}
	for i := range p.host {
		dst = binary.AppendUvarint(dst, uint64(p.host[i].dur))
	}
	var at int64
	for i := range p.lanes {
		l := &p.lanes[i]
		dst = binary.AppendUvarint(dst, uint64(l.dur))
		dst = binary.AppendVarint(dst, l.start-at)
		dst = binary.AppendVarint(dst, l.start-l.launch)
		at = l.start + l.dur
	}
	return dst
}

// longest is the maximum duration of a piece in a file, in microseconds.
const longest = 1 << 50

// shape is the part of a program that a reader needs to unpack the next one.
type shape struct {
	step, end, tokens int64
	host              []pieceShape
	lanes             []laneShape
}

type pieceShape struct {
	kind  pieceKind
	phase Phase
	group uint16
}

type laneShape struct {
	pieceShape
	lane uint8
}

func (s *shape) reset() { *s = shape{host: s.host[:0], lanes: s.lanes[:0]} }

func (s *shape) read(r *columns.Reader) {
	s.host, s.lanes = s.host[:0], s.lanes[:0]
	next := func() pieceShape {
		var pc piece
		pc.setCode(r.Uint())
		return pieceShape{pc.kind, pc.phase, pc.group}
	}
	for n := r.Count(1); n > 0; n-- {
		s.host = append(s.host, next())
	}
	for n := r.Count(1); n > 0; n-- {
		s.lanes = append(s.lanes, laneShape{next(), uint8(r.Small(math.MaxUint8))})
	}
}

// read unpacks the next program. before is the shape of the previous one and becomes the shape of this one.
func (p *program) read(r *columns.Reader, before *shape) {
	p.step = before.step + r.Int()
	p.start = before.end + r.Int()
	p.tokens = before.tokens + r.Int()
	if r.Uint() != 0 {
		before.read(r)
	}
	p.host, p.lanes = resize(p.host, len(before.host)), resize(p.lanes, len(before.lanes))
	p.end = p.start
	for i, s := range before.host {
		dur := int64(r.Small(longest))
		p.host[i] = piece{kind: s.kind, phase: s.phase, group: s.group, dur: dur}
		p.end += dur
	}
	var at int64
	for i, s := range before.lanes {
		l := &p.lanes[i]
		*l = laneOp{piece: piece{kind: s.kind, phase: s.phase, group: s.group, dur: int64(r.Small(longest))}, lane: s.lane}
		l.start = at + r.Int()
		l.launch = l.start - r.Int()
		at = l.start + l.dur
	}
	before.step, before.end, before.tokens = p.step, p.end, p.tokens
}

// resize returns a slice of n elements, reusing the memory of s if possible.
func resize[T any](s []T, n int) []T {
	if n > cap(s) {
		return make([]T, n, n+2) // a reader of rounds may insert some
	}
	return s[:n]
}

// sane reports whether a program read from a file is valid.
func (p *program) sane(groups int) bool {
	ok := p.tokens >= 0
	p.eachPiece(func(pc *piece) { ok = ok && (pc.kind == work || int(pc.group) < groups) })
	return ok && !slices.ContainsFunc(p.lanes, func(l laneOp) bool { return l.lane != 1 && l.lane != Device })
}
