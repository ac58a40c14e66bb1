package replay

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/columns"
)

// The format is the world size, what was forgotten, whether steps are windows and, by rank, its groups, what is
// known of it, its last step and its blocks. Groups are numbered by name, and blocks
// are of as many steps wherever these came from, so that a State that was merged of
// others gives the bytes of the whole.

// AppendBinary implements [encoding.BinaryAppender]: all that the State holds but
// its options. It packs the steps.
func (s *State) AppendBinary(dst []byte) ([]byte, error) {
	s.Pack()
	dst = binary.AppendVarint(dst, int64(s.opt.WorldSize))
	dst = columns.AppendBool(dst, s.forgot)
	dst = columns.AppendBool(dst, s.windowed)
	dst = binary.AppendVarint(dst, s.oldest)
	dst = binary.AppendUvarint(dst, uint64(len(s.ranks)))
	for _, r := range slices.Sorted(maps.Keys(s.ranks)) {
		rs := s.ranks[r]
		dst = binary.AppendUvarint(dst, uint64(r))
		dst = columns.AppendBytes(dst, []byte(rs.info.Host))
		dst = columns.AppendBytes(dst, []byte(rs.info.Role))
		dst = binary.AppendVarint(dst, rs.info.LastSeen)
		dst = columns.AppendBool(dst, rs.info.Ended)
		for _, p := range rs.info.Pauses {
			dst = binary.AppendVarint(binary.AppendVarint(dst, p.Longest), p.Since)
		}
		dst = binary.AppendUvarint(dst, uint64(rs.disputed))
		dst = columns.AppendBool(dst, rs.any)
		order, number := rs.order()
		dst = rs.appendGroups(dst, order)
		if rs.any {
			dst = rs.last.append(dst, order)
		}
		dst = binary.AppendVarint(dst, rs.device.step)
		dst = binary.AppendUvarint(dst, uint64(rs.device.n))
		dst = rs.appendSteps(dst, number)
	}
	return dst, nil
}

// order returns the groups by name, and the number of each in that order.
func (rs *rankState) order() (order []int, number []uint16) {
	order = make([]int, len(rs.groups))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(rs.groups[a].name, rs.groups[b].name) })
	number = make([]uint16, len(order))
	for k, i := range order {
		number[i] = uint16(k)
	}
	return order, number
}

func (rs *rankState) appendGroups(dst []byte, order []int) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(order)))
	for _, i := range order {
		g := &rs.groups[i]
		dst = columns.AppendBytes(dst, []byte(g.name))
		for _, n := range [...]int64{int64(g.size), g.launched, g.ran} {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
	}
	return dst
}

// appendSteps packs the steps with other numbers of groups.
func (rs *rankState) appendSteps(dst []byte, number []uint16) []byte {
	dst = binary.AppendUvarint(dst, uint64(rs.steps.n))
	var all store
	for c := rs.steps.open(); c.ok; c.next() {
		c.p.renumber(number)
		all.follow(&c.p)
	}
	var out []byte
	for _, b := range all.blocks {
		out = append(out, b.data...)
	}
	return columns.AppendBytes(dst, out)
}

// append packs it with groups in an order.
func (t *tail) append(dst []byte, order []int) []byte {
	dst = binary.AppendVarint(dst, t.step)
	dst = binary.AppendVarint(dst, t.lastEnd)
	dst = columns.AppendBool(dst, t.done)
	dst = binary.AppendUvarint(dst, uint64(t.began))
	dst = binary.AppendUvarint(dst, uint64(len(t.open)))
	for _, o := range t.open {
		dst = append(dst, byte(o.phase), byte(o.meeting), byte(o.lane))
		dst = columns.AppendBytes(dst, []byte(o.group))
		dst = columns.AppendBytes(dst, []byte(o.op))
		dst = binary.AppendVarint(dst, o.start)
	}
	for _, i := range order {
		n := 0
		if i < len(t.entered) {
			n = t.entered[i]
		}
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

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. The options stay, but for
// the world size, of which the larger one counts.
func (s *State) UnmarshalBinary(src []byte) error {
	r := columns.NewReader(src)
	out := State{opt: s.opt, ranks: map[int]*rankState{}}
	out.SetWorldSize(int(r.Int()))
	out.forgot, out.windowed, out.oldest = r.Bool(), r.Bool(), r.Int()
	for n := r.Count(8); n > 0; n-- {
		rs := &rankState{}
		rank := r.Small(1 << 40)
		rs.info = Rank{Host: r.String(), Role: r.String(), LastSeen: r.Int(), Ended: r.Bool()}
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
		rs.steps.n = r.Small(1 << 40)
		data := r.Bytes()
		if r.Err() != nil || out.ranks[rank] != nil || !rs.steps.fill(data, len(rs.groups)) {
			return fmt.Errorf("replay: the steps of a process: %w", columns.ErrDamaged)
		}
		out.ranks[rank] = rs
		if k := len(rs.steps.blocks); k > 0 {
			out.newest = max(out.newest, rs.steps.blocks[k-1].last)
		}
		out.cells += rs.steps.n
	}
	if r.Err() != nil || r.Len() != 0 {
		return fmt.Errorf("replay: the steps of a process: %w", columns.ErrDamaged)
	}
	*s = out
	return nil
}

// fill takes so many packed programs, in blocks, and reports whether they are whole.
func (st *store) fill(data []byte, groups int) bool {
	data = slices.Clone(data)
	r := columns.NewReader(data)
	last := int64(math.MinInt64)
	for left := st.n; left > 0; {
		b, from := block{n: min(left, blockSteps)}, len(data)-r.Len()
		var p program
		for k := range b.n {
			p.read(r)
			if r.Err() != nil || !p.sane(groups) || p.step <= last {
				return false
			}
			if last = p.step; k == 0 {
				b.first = p.step
			}
		}
		b.last, b.data = last, slices.Clip(data[from:len(data)-r.Len()])
		st.blocks = append(st.blocks, b)
		left -= b.n
	}
	return r.Len() == 0
}
