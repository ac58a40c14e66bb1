package columns

import (
	"encoding/binary"
	"math"
)

// Reader reads appended values from a slice, in order. After the first error it
// returns zeros. It checks every length: no result is larger than the input.
type Reader struct {
	src []byte
	err error
}

// NewReader returns a Reader of src, which must not change.
func NewReader(src []byte) *Reader { return &Reader{src: src} }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Len returns how many bytes are left.
func (r *Reader) Len() int { return len(r.src) }

// Fail sets the error to ErrDamaged, unless there is one.
func (r *Reader) Fail() {
	if r.err == nil {
		r.err = ErrDamaged
	}
	r.src = nil
}

// Int reads a signed varint.
func (r *Reader) Int() int64 {
	v := r.Uint()
	return int64(v>>1) ^ -int64(v&1)
}

// Uint reads an unsigned varint.
func (r *Reader) Uint() (v uint64) {
	for i, b := range r.src { // like binary.Uvarint, without the call
		if b < 0x80 {
			if i > 9 || i == 9 && b > 1 {
				break
			}
			r.src = r.src[i+1:]
			return v | uint64(b)<<(7*i)
		}
		v |= uint64(b&0x7f) << (7 * i)
	}
	r.Fail()
	return 0
}

// Small reads a number from 0 to most.
func (r *Reader) Small(most int) int {
	v := r.Uint()
	if v > uint64(most) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Count reads a number of items, each of which takes at least least bytes.
func (r *Reader) Count(least int) int {
	v := r.Uint()
	if v > uint64(len(r.src)/max(least, 1)) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Bytes reads a slice with its length. The result shares the memory of the
// input.
func (r *Reader) Bytes() []byte {
	n := r.Count(1)
	out := r.src[:n:n]
	r.src = r.src[n:]
	return out
}

// String reads a string with its length.
func (r *Reader) String() string { return string(r.Bytes()) }

// Float reads a float64.
func (r *Reader) Float() float64 { return math.Float64frombits(r.Uint()) }

// Bool reads a boolean.
func (r *Reader) Bool() bool { return r.Small(1) == 1 }

// Rest returns all remaining bytes.
func (r *Reader) Rest() []byte {
	rest := r.src
	r.src = nil
	return rest
}

// Column reads len(values) packed values.
func (r *Reader) Column(values []int64) {
	rest, err := Decode(r.src, values)
	if err != nil {
		r.Fail()
		clear(values)
		return
	}
	r.src = rest
}

// AppendBytes appends a slice with its length.
func AppendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// AppendBool appends a boolean.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// Fixed reads eight bytes, the lowest first.
func (r *Reader) Fixed() uint64 {
	if len(r.src) < 8 {
		r.Fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.src)
	r.src = r.src[8:]
	return v
}
