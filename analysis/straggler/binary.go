package straggler

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/trainspan/trainspan/internal/columns"
)

// AppendBinary implements [encoding.BinaryAppender]: all that the State holds
// but its options. It packs the steps.
func (s *State) AppendBinary(dst []byte) ([]byte, error) {
	s.Pack()
	dst = columns.AppendBool(columns.AppendBool(dst, s.windowed), s.forgot)
	dst = binary.AppendVarint(dst, s.oldest)
	dst = binary.AppendUvarint(dst, uint64(s.opt.WorldSize))
	dst = binary.AppendUvarint(dst, uint64(len(s.ranks)))
	for _, r := range slices.Sorted(maps.Keys(s.ranks)) {
		dst = binary.AppendUvarint(dst, uint64(r))
		dst = s.ranks[r].append(dst)
	}
	return dst, nil
}

func (rs *rankState) append(dst []byte) []byte {
	dst = columns.AppendBytes(columns.AppendBytes(dst, rs.info.Host), rs.info.Role)
	dst = binary.AppendVarint(dst, rs.info.LastSeen)
	dst = binary.AppendUvarint(dst, uint64(rs.disputed))
	dst = columns.AppendBool(dst, rs.any)
	if t := &rs.last; rs.any {
		dst = binary.AppendVarint(dst, t.step)
		for _, v := range [...]bool{t.done, t.waiting, t.openSpan} {
			dst = columns.AppendBool(dst, v)
		}
		dst = binary.AppendUvarint(dst, uint64(t.started))
		dst = binary.AppendUvarint(dst, uint64(t.open))
		dst = binary.AppendVarint(dst, t.lastEnd)
	}
	dst = binary.AppendUvarint(dst, uint64(len(rs.names)))
	for _, name := range rs.names {
		dst = columns.AppendBytes(dst, name)
	}
	dst = binary.AppendUvarint(dst, uint64(len(rs.steps.blocks)))
	for i := range rs.steps.blocks {
		b := &rs.steps.blocks[i]
		dst = columns.AppendBytes(binary.AppendUvarint(dst, uint64(b.n)), b.data)
	}
	w := &rs.windows
	dst = binary.AppendUvarint(dst, uint64(w.n))
	if w.n > 0 {
		dst = columns.AppendBool(binary.AppendUvarint(dst, uint64(w.barrier)), w.devices)
		for _, name := range w.groups {
			dst = columns.AppendBytes(dst, name)
		}
		dst = columns.AppendBytes(dst, w.data)
	}
	return dst
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. The options stay,
// but for the world size, of which the larger one counts.
func (s *State) UnmarshalBinary(src []byte) error {
	r := columns.NewReader(src)
	out := New(&s.opt)
	out.windowed, out.forgot, out.oldest = r.Bool(), r.Bool(), r.Int()
	const most = 1<<31 - 1
	out.SetWorldSize(r.Small(most))
	p := takePacking()
	defer p.giveBack()
	for range r.Count(8) {
		rank := r.Small(most)
		if rs := out.rank(rank); !rs.read(r, p) {
			return fmt.Errorf("straggler: a state: %w", columns.ErrDamaged)
		} else if n := len(rs.steps.blocks); n > 0 {
			out.cells += rs.steps.n
			out.newest = max(out.newest, rs.steps.blocks[n-1].last)
		}
	}
	if r.Err() != nil || r.Len() != 0 {
		return fmt.Errorf("straggler: a state: %w", columns.ErrDamaged)
	}
	*s = *out
	return nil
}

func (rs *rankState) read(r *columns.Reader, p *packing) bool {
	rs.info.Host, rs.info.Role, rs.info.LastSeen = r.String(), r.String(), r.Int()
	rs.disputed = r.Small(1<<31 - 1)
	if rs.any = r.Bool(); rs.any {
		t := &rs.last
		t.step, t.done, t.waiting, t.openSpan = r.Int(), r.Bool(), r.Bool(), r.Bool()
		t.started, t.open, t.lastEnd = r.Small(1<<31-1), Phase(r.Small(int(Other))), r.Int()
	}
	for range r.Count(1) {
		rs.names = append(rs.names, r.String())
	}
	for range r.Count(2) {
		b := block{n: r.Small(blockCells)}
		b.data = append([]byte(nil), r.Bytes()...)
		if r.Err() != nil || b.n == 0 || !p.check(&b, len(rs.names)) {
			return false
		}
		if n := len(rs.steps.blocks); n > 0 && b.first <= rs.steps.blocks[n-1].last {
			return false
		}
		rs.steps.blocks = append(rs.steps.blocks, b)
		rs.steps.n += b.n
	}
	return rs.windows.read(r) && r.Err() == nil
}

func (w *windows) read(r *columns.Reader) bool {
	if w.n = r.Small(blockCells * max(r.Len(), 1)); w.n == 0 {
		return true
	}
	w.barrier, w.devices = barrier(r.Small(int(barriers)-1)), r.Bool()
	for g := range w.groups {
		w.groups[g] = r.String()
	}
	w.data = append([]byte(nil), r.Bytes()...)
	// A block of windows has two bytes for each column at least.
	if r.Err() != nil || w.n > blockCells*(len(w.data)/(2*windowColumns)+1) {
		return false
	}
	list := w.open()
	for i := range list {
		const most = 1 << 50 // far beyond any step, far from the end of an int64
		if id := list[i][wID]; id < 0 || id > most || i > 0 && id <= list[i-1][wID] || list[i][wCount] < 1 {
			return false
		}
	}
	return list != nil
}

// check opens a block of a file and completes it.
func (p *packing) check(b *block, names int) bool {
	src := columns.NewReader(b.data)
	for k := range p.cols {
		src.Column(p.cols[k][:b.n])
	}
	if src.Err() != nil || src.Len() != 0 {
		return false
	}
	cells := p.open(b)
	for i := range cells {
		c := &cells[i]
		if i > 0 && c.step <= cells[i-1].step {
			return false
		}
		for _, g := range c.groups {
			if int(g.id) > names {
				return false
			}
		}
	}
	b.first, b.last = cells[0].step, cells[b.n-1].step
	return true
}
