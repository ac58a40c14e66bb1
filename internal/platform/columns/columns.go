// Package columns packs integers column by column: each value takes as many
// bits as the range of its block needs, and a constant column takes three
// bytes. Steps of a training job are alike, so a 64-bit time takes ten to
// twenty bits, and a column of zeros almost nothing.
package columns

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// ErrDamaged is returned when bytes are not a packed column.
var ErrDamaged = errors.New("columns: packed values are damaged")

const (
	widthMask = 0x7f
	deltas    = 0x80 // the first value, then differences
)

// Append appends values to dst. The caller stores their number.
//
// A column consists of a byte with the width in bits and, as its highest bit,
// whether differences are stored; in that case the first value as a varint; the
// least value as a varint; if the width is not zero, the unit as an unsigned
// varint; and (value-least)/unit in that many bits each, the lowest bits first.
func Append(dst []byte, values []int64) []byte {
	if len(values) == 0 {
		return dst
	}
	plain := frameOf(values[0], values, false)
	if plain.width == 0 {
		return binary.AppendVarint(append(dst, 0), plain.least)
	}
	var steps frame
	if len(values) > 1 {
		steps = frameOf(values[1]-values[0], values, true)
	}
	if len(values) == 1 || steps.width >= plain.width {
		dst = plain.header(append(dst, byte(plain.width)))
		return plain.pack(dst, values, false)
	}
	dst = binary.AppendVarint(append(dst, byte(steps.width)|deltas), values[0])
	return steps.pack(steps.header(dst), values, true)
}

// frame holds what the values of a column have in common.
type frame struct {
	least int64
	unit  uint64
	width int
}

func frameOf(first int64, values []int64, delta bool) frame {
	least, most := first, first
	before := values[0]
	rest := values
	if delta {
		rest = values[1:]
	}
	for _, v := range rest {
		x := v
		if delta {
			x, before = v-before, v
		}
		least, most = min(least, x), max(most, x)
	}
	f := frame{least: least, unit: 1}
	spread := uint64(most - least)
	if spread == 0 {
		return f
	}
	// Many files have microseconds or whole milliseconds: find this unit.
	unit := spread
	before = values[0]
	for _, v := range rest {
		x := v
		if delta {
			x, before = v-before, v
		}
		if d := uint64(x - least); d%unit != 0 {
			if unit = gcd(unit, d); unit == 1 {
				break
			}
		}
	}
	f.unit, f.width = unit, bits.Len64(spread/unit)
	return f
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (f *frame) header(dst []byte) []byte {
	dst = binary.AppendVarint(dst, f.least)
	if f.width > 0 {
		dst = binary.AppendUvarint(dst, f.unit)
	}
	return dst
}

func (f *frame) pack(dst []byte, values []int64, delta bool) []byte {
	if f.width == 0 {
		return dst
	}
	var acc uint64
	held := 0
	before := values[0]
	rest := values
	if delta {
		rest = values[1:]
	}
	for _, v := range rest {
		x := v
		if delta {
			x, before = v-before, v
		}
		d := uint64(x - f.least)
		if f.unit != 1 {
			d /= f.unit
		}
		acc |= d << held
		if held+f.width < 64 {
			held += f.width
			continue
		}
		dst = binary.LittleEndian.AppendUint64(dst, acc)
		acc = 0
		if used := 64 - held; used < f.width {
			acc = d >> used
		}
		held += f.width - 64
	}
	for ; held > 0; held -= 8 {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

// Decode reads len(values) values and returns the remaining bytes. src may be
// any bytes: missing or wrong ones are an error.
func Decode(src []byte, values []int64) (rest []byte, err error) {
	if len(values) == 0 {
		return src, nil
	}
	if len(src) == 0 {
		return nil, ErrDamaged
	}
	width, delta := int(src[0]&widthMask), src[0]&deltas != 0
	src = src[1:]
	if width > 64 {
		return nil, ErrDamaged
	}
	into := values
	if delta {
		if values[0], src, err = varint(src); err != nil {
			return nil, err
		}
		into = values[1:]
	}
	least, src, err := varint(src)
	if err != nil {
		return nil, err
	}
	if width == 0 {
		for i := range into {
			into[i] = least
		}
	} else {
		unit, n := binary.Uvarint(src)
		if n <= 0 {
			return nil, ErrDamaged
		}
		src = src[n:]
		size := (len(into)*width + 7) / 8
		if size > len(src) {
			return nil, ErrDamaged
		}
		unpack(src[:size], into, width, unit, least)
		src = src[size:]
	}
	if delta {
		for i := 1; i < len(values); i++ {
			values[i] += values[i-1]
		}
	}
	return src, nil
}

func unpack(src []byte, into []int64, width int, unit uint64, least int64) {
	mask := ^uint64(0) >> (64 - width)
	at := 0 // in bits
	for i := range into {
		byteAt, shift := at>>3, at&7
		var x uint64
		if byteAt+8 <= len(src) {
			x = binary.LittleEndian.Uint64(src[byteAt:]) >> shift
		} else {
			var end [8]byte
			copy(end[:], src[byteAt:])
			x = binary.LittleEndian.Uint64(end[:]) >> shift
		}
		if shift+width > 64 { // the rest is in a ninth byte
			x |= uint64(src[byteAt+8]) << (64 - shift)
		}
		into[i] = least + int64((x&mask)*unit)
		at += width
	}
}

func varint(src []byte) (int64, []byte, error) {
	v, n := binary.Varint(src)
	if n <= 0 {
		return 0, nil, ErrDamaged
	}
	return v, src[n:], nil
}
