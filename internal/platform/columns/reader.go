package columns

import (
	"encoding/binary"
	"math"
)

// Reader takes what was appended from a slice, in order. After the first error
// it gives zeros. It trusts no length: nothing is larger than the bytes that
// are there.
type Reader struct {
	src []byte
	err error
}

// NewReader reads src, which must not change.
func NewReader(src []byte) *Reader { return &Reader{src: src} }

// Err is the first error.
func (r *Reader) Err() error { return r.err }

// Len returns how many bytes are left.
func (r *Reader) Len() int { return len(r.src) }

// Fail makes ErrDamaged the error, unless there is one.
func (r *Reader) Fail() {
	if r.err == nil {
		r.err = ErrDamaged
	}
	r.src = nil
}

// Int takes a signed varint.
func (r *Reader) Int() int64 {
	v := r.Uint()
	return int64(v>>1) ^ -int64(v&1)
}

// Uint takes an unsigned varint.
func (r *Reader) Uint() (v uint64) {
	for i, b := range r.src { // as binary.Uvarint, which is a call more
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

// Small takes a number from 0 to most.
func (r *Reader) Small(most int) int {
	v := r.Uint()
	if v > uint64(most) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Count takes the number of things that follow, of at least so many bytes each.
func (r *Reader) Count(least int) int {
	v := r.Uint()
	if v > uint64(len(r.src)/max(least, 1)) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Bytes takes a slice with its length. It is a part of what is read.
func (r *Reader) Bytes() []byte {
	n := r.Count(1)
	out := r.src[:n:n]
	r.src = r.src[n:]
	return out
}

// String takes a text with its length.
func (r *Reader) String() string { return string(r.Bytes()) }

// Float takes the bits of a number.
func (r *Reader) Float() float64 { return math.Float64frombits(r.Uint()) }

// Bool takes a truth value.
func (r *Reader) Bool() bool { return r.Small(1) == 1 }

// Rest takes all that is left.
func (r *Reader) Rest() []byte {
	rest := r.src
	r.src = nil
	return rest
}

// Column takes len(values) packed values.
func (r *Reader) Column(values []int64) {
	rest, err := Decode(r.src, values)
	if err != nil {
		r.Fail()
		clear(values)
		return
	}
	r.src = rest
}

// AppendBytes adds a slice with its length.
func AppendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// AppendBool adds a truth value.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// Fixed takes eight bytes, the lowest first.
func (r *Reader) Fixed() uint64 {
	if len(r.src) < 8 {
		r.Fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.src)
	r.src = r.src[8:]
	return v
}
