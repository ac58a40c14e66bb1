package straggler

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/columns"
)

// Binary format: the world size, whether steps were forgotten, whether steps are windows, the oldest step;
// then for each rank its info, groups, last step and blocks. Groups are numbered by name, and blocks hold the
// same number of steps regardless of their origin, so a State merged from others encodes to the same bytes as
// the State of the whole run.

// AppendBinary implements [encoding.BinaryAppender]. It encodes everything except the options. It packs the
// steps.
func (s *State) AppendBinary(dst []byte) ([]byte, error) {
	s.Pack()
	dst = binary.AppendVarint(dst, int64(s.opt.WorldSize))
	dst = columns.AppendBool(dst, s.forgot)
	dst = columns.AppendBool(dst, s.windowed)
	dst = binary.AppendVarint(dst, s.oldest)
	dst = binary.AppendUvarint(dst, uint64(len(s.ranks)))
	for _, r := range slices.Sorted(maps.Keys(s.ranks)) {
		rs := s.ranks[r].ordered()
		dst = binary.AppendUvarint(dst, uint64(r))
		dst = columns.AppendBytes(dst, rs.info.Host)
		dst = columns.AppendBytes(dst, rs.info.Role)
		dst = binary.AppendVarint(dst, rs.info.LastSeen)
		dst = columns.AppendBool(columns.AppendBool(columns.AppendBool(dst, rs.info.Ended), rs.info.Cut), rs.info.Sampled)
		dst = append(dst, byte(rs.info.Loader))
		for _, p := range rs.info.Pauses {
			dst = binary.AppendVarint(binary.AppendVarint(dst, p.Longest), p.Since)
		}
		dst = binary.AppendUvarint(dst, uint64(rs.disputed))
		dst = columns.AppendBool(dst, rs.any)
		dst = binary.AppendUvarint(dst, uint64(len(rs.groups)))
		for _, g := range rs.groups {
			dst = columns.AppendBytes(dst, g.name)
			for _, n := range [...]int64{int64(g.size), g.launched, g.ran} {
				dst = binary.AppendUvarint(dst, uint64(n))
			}
		}
		if rs.any {
			dst = rs.last.append(dst)
		}
		dst = binary.AppendVarint(dst, rs.device.step)
		dst = binary.AppendUvarint(dst, uint64(rs.device.n))
		dst = binary.AppendUvarint(dst, uint64(rs.steps.n))
		var steps, buf []byte
		for i := range rs.steps.blocks {
			steps = append(steps, rs.steps.blocks[i].data.Read(&buf)...)
		}
		dst = columns.AppendBytes(dst, steps)
	}
	return dst, s.opt.Spill.Err()
}

// ordered returns a copy whose groups are numbered by name and whose last step has an entry for each group.
func (rs *rankState) ordered() *rankState {
	out := *rs
	out.groups = slices.SortedFunc(slices.Values(rs.groups), func(a, b groupName) int { return cmp.Compare(a.name, b.name) })
	number := make([]uint16, len(rs.groups))
	for i, g := range rs.groups {
		number[i] = uint16(slices.IndexFunc(out.groups, func(o groupName) bool { return o.name == g.name }))
	}
	out.last, out.steps = rs.last.renumber(number), store{}
	for c := rs.steps.cursor(); c.ok; c.next() {
		c.p.renumber(number)
		out.steps.follow(&c.p)
	}
	out.steps.pack()
	return &out
}

func (t *tail) append(dst []byte) []byte {
	dst = binary.AppendVarint(dst, t.step)
	dst = binary.AppendVarint(dst, t.lastEnd)
	dst = columns.AppendBool(dst, t.done)
	dst = binary.AppendUvarint(dst, uint64(t.began))
	dst = binary.AppendUvarint(dst, uint64(len(t.open)))
	for _, o := range t.open {
		dst = append(dst, byte(o.phase), byte(o.meeting), byte(o.lane))
		dst = columns.AppendBytes(columns.AppendBytes(dst, o.group), o.op)
		dst = binary.AppendVarint(dst, o.start)
	}
	for _, n := range t.entered {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return dst
}

func (t *tail) read(r *columns.Reader, groups int) {
	t.step, t.lastEnd, t.done, t.began = r.Int(), r.Int(), r.Bool(), r.Small(1<<40)
	for n := r.Count(5); n > 0; n-- {
		o := openSpan{phase: Phase(r.Small(int(Other))), meeting: Meeting(r.Small(int(Launch))), lane: r.Small(127), group: r.String(), op: r.String()}
		o.start = r.Int()
		t.open = append(t.open, o)
	}
	for range groups {
		t.entered = append(t.entered, r.Small(1<<40))
	}
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. It keeps the options, except that the larger world
// size wins.
func (s *State) UnmarshalBinary(src []byte) error {
	r := columns.NewReader(src)
	out := State{opt: s.opt, ranks: map[int]*rankState{}}
	out.SetWorldSize(int(r.Int()))
	out.forgot, out.windowed, out.oldest = r.Bool(), r.Bool(), r.Int()
	for n := r.Count(8); n > 0; n-- {
		rs := &rankState{steps: store{spill: s.opt.Spill}}
		rank := r.Small(1 << 40)
		rs.info = Rank{Host: r.String(), Role: r.String(), LastSeen: r.Int(), Ended: r.Bool(), Cut: r.Bool(), Sampled: r.Bool(), Loader: Loader(r.Small(int(LoaderAhead)))}
		for k := range rs.info.Pauses {
			rs.info.Pauses[k] = Pause{Longest: r.Int(), Since: r.Int()}
		}
		rs.disputed = r.Small(1 << 60)
		rs.any = r.Bool()
		for k := r.Count(4); k > 0; k-- {
			rs.groups = append(rs.groups, groupName{name: r.String(), size: r.Small(1 << 40), launched: int64(r.Small(1 << 60)), ran: int64(r.Small(1 << 60))})
		}
		if rs.any {
			rs.last.read(r, len(rs.groups))
		}
		rs.device = progress{r.Int(), r.Small(1 << 40)}
		steps := r.Small(1 << 40)
		data := r.Bytes()
		if r.Err() != nil || out.ranks[rank] != nil || !rs.steps.fill(data, steps, len(rs.groups)) {
			return fmt.Errorf("straggler: the steps of a process: %w", columns.ErrDamaged)
		}
		out.ranks[rank] = rs
		if k := len(rs.steps.blocks); k > 0 {
			out.newest = max(out.newest, rs.steps.blocks[k-1].last)
		}
		out.cells += rs.steps.n
	}
	if r.Err() != nil || r.Len() != 0 {
		return fmt.Errorf("straggler: the steps of a process: %w", columns.ErrDamaged)
	}
	*s = out
	return nil
}

// fill loads n packed programs from data and reports whether they are valid.
func (st *store) fill(data []byte, n, groups int) bool {
	r := columns.NewReader(data)
	last, from := int64(math.MinInt64), 0
	var p program
	var before shape
	var b block
	for i := range n {
		held := i % blockSteps
		if held == 0 {
			before.reset()
		}
		p.read(r, &before)
		if r.Err() != nil || !p.sane(groups) || p.step <= last {
			return false
		}
		if last = p.step; b.n == 0 {
			b.first, b.goesOn = last, held > 0
		}
		b.last, b.n = last, b.n+1
		if at := len(data) - r.Len(); held == blockSteps-1 || at-from >= blockBytes || i == n-1 {
			b.data = st.spill.Put(data[from:at])
			st.blocks, st.n = append(st.blocks, b), st.n+int(b.n)
			b, from = block{}, at
		}
	}
	return r.Len() == 0
}
