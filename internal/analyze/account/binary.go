package account

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// AppendBinary implements [encoding.BinaryAppender]. It appends the timeline of
// the process, without its spans. No spans may be added afterwards.
func (b *Builder) AppendBinary(dst []byte) ([]byte, error) {
	if err := b.finish(); err != nil {
		return dst, err
	}
	a := b.done
	flags := uint64(0)
	for i, v := range [...]bool{a.Heartbeats, a.local, a.standard, a.means} {
		if v {
			flags |= 1 << i
		}
	}
	dst = binary.AppendUvarint(dst, flags)
	for _, v := range [...]int64{a.Start, a.End, a.LastSeen, a.Dropped, a.stop, int64(a.missingEnds), int64(a.unnumbered)} {
		dst = binary.AppendVarint(dst, v)
	}
	dst = columns.AppendBytes(binary.LittleEndian.AppendUint64(dst, a.digest), a.role)
	dst = binary.AppendUvarint(dst, uint64(len(a.names)-int(kindCount)))
	for _, name := range a.names[kindCount:] {
		dst = columns.AppendBytes(dst, string(name))
	}
	dst = binary.AppendUvarint(dst, uint64(len(a.loops)))
	for _, l := range a.loops {
		dst = columns.AppendBool(columns.AppendBool(columns.AppendBool(dst, l.given), l.inferred), l.again)
		dst = binary.AppendVarint(binary.AppendVarint(dst, l.start), l.from)
	}
	dst = binary.AppendUvarint(dst, uint64(len(a.saves)))
	for _, s := range a.saves {
		dst = binary.AppendVarint(binary.AppendVarint(dst, s.time), s.through)
	}
	dst = binary.AppendUvarint(dst, uint64(len(a.meets)))
	for _, m := range a.meets {
		dst = columns.AppendBytes(columns.AppendBytes(dst, m.group), m.op)
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(m.size)), uint64(m.peer))
	}
	for _, r := range a.packed.all() {
		dst = r.append(dst)
	}
	return dst, b.spill.Err()
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. No spans may be added
// afterwards.
func (b *Builder) UnmarshalBinary(src []byte) error {
	r := columns.NewReader(src)
	a := &attempt{}
	flags := r.Uint()
	for i, to := range [...]*bool{&a.Heartbeats, &a.local, &a.standard, &a.means} {
		*to = flags>>i&1 == 1
	}
	a.Start, a.End, a.LastSeen, a.Dropped, a.stop = r.Int(), r.Int(), r.Int(), r.Int(), r.Int()
	a.missingEnds, a.unnumbered = int(r.Int()), int(r.Int())
	a.digest = r.Fixed()
	a.role = r.String()
	for k := range kindCount {
		a.names = append(a.names, fixed[k])
	}
	for range r.Count(1) {
		a.names = append(a.names, Category(r.String()))
	}
	for range r.Count(5) {
		l := loop{given: r.Bool(), inferred: r.Bool(), again: r.Bool()}
		l.start, l.from = r.Int(), r.Int()
		a.loops = append(a.loops, l)
	}
	for range r.Count(2) {
		a.saves = append(a.saves, save{r.Int(), r.Int()})
	}
	for range r.Count(4) {
		m := meetKind{group: r.String(), op: r.String()}
		m.size, m.peer = r.Small(math.MaxInt32), r.Small(job.MaxRanks)
		a.meets = append(a.meets, m)
	}
	for _, to := range a.packed.all() {
		to.n = r.Small(packBlock * max(r.Len(), 1))
		data := r.Bytes()
		if len(data) > 0 {
			to.parts = []extsort.Block{b.spill.Put(data)}
		}
		// A block of 256 takes at least two bytes for each of three columns.
		if to.n > packBlock*(len(data)/(2*segColumns)+1) {
			r.Fail()
		}
	}
	if r.Err() == nil && r.Len() == 0 && a.stop >= a.Start && a.Start >= 0 && len(a.names) <= int(kindCount)+maxNamed && len(a.meets) <= maxMeetKinds {
		if a.packed.sound(len(a.names), len(a.loops), len(a.meets)) {
			*b = Builder{done: a, spill: b.spill}
			return nil
		}
	}
	return fmt.Errorf("goodput: a timeline: %w", columns.ErrDamaged)
}
