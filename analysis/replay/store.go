package replay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/trainspan/trainspan/internal/columns"
)

// store holds the programs of one rank by step, packed in blocks: a byte or two for
// each piece and two for its time. The newest, and those that came out of order,
// wait as they are, each packed by itself.
type store struct {
	blocks []block // by step; they do not overlap
	loose  []block // of one step each, by step
	n      int
}

type block struct {
	first, last int64
	n           int
	data        []byte
}

const (
	blockSteps = 64
	keepLoose  = 32 // ranks report a little out of order
)

// add adds a program and says whether another one was there that differs.
func (st *store) add(p *program) (disputed bool) {
	b := block{first: p.step, last: p.step, n: 1, data: appendProgram(nil, p)}
	i, found := slices.BinarySearchFunc(st.loose, p.step, func(b block, step int64) int { return cmp.Compare(b.first, step) })
	if found {
		return st.loose[i].settle(&b)
	}
	st.loose = slices.Insert(st.loose, i, b)
	st.n++
	if len(st.loose) < blockSteps+keepLoose {
		return false
	}
	if k := len(st.blocks); k == 0 || st.loose[0].first > st.blocks[k-1].last {
		st.blocks = append(st.blocks, joined(st.loose[:blockSteps]))
		st.loose = slices.Delete(st.loose, 0, blockSteps)
		return false
	}
	if len(st.loose) >= st.n/8 {
		return st.pack() > 0
	}
	return false
}

// settle keeps one of two versions of a step, whichever came first.
func (b *block) settle(o *block) bool {
	if bytes.Equal(b.data, o.data) {
		return false
	}
	if c := cmp.Or(cmp.Compare(len(o.data), len(b.data)), bytes.Compare(o.data, b.data)); c > 0 {
		*b = *o
	}
	return true
}

// joined makes one block of several in order.
func joined(list []block) block {
	out := block{first: list[0].first, last: list[len(list)-1].last}
	size := 0
	for _, b := range list {
		size += len(b.data)
	}
	out.data = make([]byte, 0, size)
	for _, b := range list {
		out.n += b.n
		out.data = append(out.data, b.data...)
	}
	return out
}

// pack packs all steps and returns how many were disputed. Then n is their number.
func (st *store) pack() (disputed int) {
	if len(st.loose) == 0 {
		return 0
	}
	all := st.loose
	if first := all[0].first; len(st.blocks) > 0 && first <= st.blocks[len(st.blocks)-1].last {
		from, _ := slices.BinarySearchFunc(st.blocks, first, func(b block, step int64) int { return cmp.Compare(b.last, step) })
		var old []block
		for _, b := range st.blocks[from:] {
			old = append(old, b.split()...)
		}
		st.blocks = st.blocks[:from]
		all = slices.Concat(old, all)
		slices.SortStableFunc(all, func(a, b block) int { return cmp.Compare(a.first, b.first) })
		out := all[:1]
		for i := 1; i < len(all); i++ {
			if last := &out[len(out)-1]; last.first == all[i].first {
				if last.settle(&all[i]) {
					disputed++
				}
				continue
			}
			out = append(out, all[i])
		}
		all = out
	}
	for part := range slices.Chunk(all, blockSteps) {
		st.blocks = append(st.blocks, joined(part))
	}
	st.loose, st.n = nil, 0
	for _, b := range st.blocks {
		st.n += b.n
	}
	return disputed
}

// split gives the steps of a block one by one.
func (b *block) split() (out []block) {
	var p program
	src := b.data
	for range b.n {
		rest := p.decode(src)
		out = append(out, block{first: p.step, last: p.step, n: 1, data: src[:len(src)-len(rest)]})
		src = rest
	}
	return out
}

// cut forgets the steps before one. The store is packed.
func (st *store) cut(step int64) {
	i, _ := slices.BinarySearchFunc(st.blocks, step, func(b block, step int64) int { return cmp.Compare(b.last, step) })
	st.blocks = slices.Delete(st.blocks, 0, i)
	if len(st.blocks) > 0 && st.blocks[0].first < step {
		one := st.blocks[0].split()
		k := slices.IndexFunc(one, func(b block) bool { return b.first >= step })
		st.blocks[0] = joined(one[k:])
	}
	st.n = 0
	for _, b := range st.blocks {
		st.n += b.n
	}
}

// cursor goes through the programs of a packed store in order.
type cursor struct {
	blocks []block
	src    []byte
	p      program
	ok     bool
}

func (st *store) open() *cursor {
	c := &cursor{blocks: st.blocks}
	c.next()
	return c
}

// next takes the next program; ok says that there is one.
func (c *cursor) next() {
	for len(c.src) == 0 {
		if len(c.blocks) == 0 {
			c.ok = false
			return
		}
		c.src, c.blocks = c.blocks[0].data, c.blocks[1:]
	}
	c.src, c.ok = c.p.decode(c.src), true
}

// A program is packed as its step, its start and length, tokens, the pieces of the
// host and those of lanes. A piece is one number for kind, phase and group, and one
// for its time.

func (pc *piece) code() uint64 {
	return (uint64(pc.group)*uint64(phases)+uint64(pc.phase))*uint64(pieceKinds) + uint64(pc.kind)
}

func (pc *piece) setCode(c uint64) {
	pc.kind = pieceKind(c % uint64(pieceKinds))
	c /= uint64(pieceKinds)
	pc.phase, pc.group = Phase(c%uint64(phases)), uint16(c/uint64(phases))
}

func appendProgram(dst []byte, p *program) []byte {
	for _, v := range [...]int64{p.step, p.start, p.end - p.start, p.tokens} {
		dst = binary.AppendVarint(dst, v)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.host)))
	for i := range p.host {
		dst = binary.AppendUvarint(dst, p.host[i].code())
		dst = binary.AppendUvarint(dst, uint64(p.host[i].dur))
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.lanes)))
	for i := range p.lanes {
		l := &p.lanes[i]
		dst = binary.AppendUvarint(dst, l.code())
		dst = append(dst, l.lane)
		dst = binary.AppendUvarint(dst, uint64(l.dur))
		dst = binary.AppendVarint(dst, l.start)
		dst = binary.AppendVarint(dst, l.start-l.launch)
	}
	return dst
}

// decode takes the next program. Blocks of a file were checked when they were read.
func (p *program) decode(src []byte) (rest []byte) {
	u := func() uint64 {
		v, n := binary.Uvarint(src)
		src = src[n:]
		return v
	}
	i := func() int64 {
		v, n := binary.Varint(src)
		src = src[n:]
		return v
	}
	p.step, p.start = i(), i()
	p.end = p.start + i()
	p.tokens = i()
	p.host, p.lanes = p.host[:0], p.lanes[:0]
	for n := u(); n > 0; n-- {
		var pc piece
		pc.setCode(u())
		pc.dur = int64(u())
		p.host = append(p.host, pc)
	}
	for n := u(); n > 0; n-- {
		var l laneOp
		l.setCode(u())
		l.lane, src = src[0], src[1:]
		l.dur = int64(u())
		l.start = i()
		l.launch = l.start - i()
		p.lanes = append(p.lanes, l)
	}
	return src
}

// checkProgram reads a program of a file, and says which step it is and whether it
// can be decoded.
func checkProgram(r *columns.Reader, groups int) (step int64, ok bool) {
	step = r.Int()
	r.Int()
	if length, tokens := r.Int(), r.Int(); length < 0 || tokens < 0 {
		return step, false
	}
	code := func() bool {
		var pc piece
		c := r.Uint()
		if c>>32 != 0 {
			return false
		}
		pc.setCode(c)
		return r.Err() == nil && (pc.kind == work || pc.kind == join || int(pc.group) < groups)
	}
	for n := r.Count(2); n > 0; n-- {
		if !code() || r.Uint() > 1<<50 {
			return step, false
		}
	}
	for n := r.Count(5); n > 0; n-- {
		if !code() || r.Small(Device) == 0 || r.Uint() > 1<<50 {
			return step, false
		}
		r.Int()
		r.Int()
	}
	return step, r.Err() == nil
}
