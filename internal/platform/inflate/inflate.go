// Package inflate decompresses whole gzip members in memory, about twice as fast
// as a reader of streams can.
//
// It has no errors: what is not a complete, correct member of the usual form is
// left to a general reader, which knows what is wrong with it. The checksum
// decides, so a mistake in this package cannot change the text.
package inflate

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// Decoder decompresses members. The zero value is ready for use, and reuses its
// memory.
type Decoder struct {
	in  []byte
	pos int    // the next byte of in
	acc uint64 // bits of in before pos that were not used
	n   uint   // how many

	out   []byte
	size  int // bytes of out in use
	limit int // of out

	literals, distances huffman
	lengths             [maxLiterals + maxDistances]uint8
}

const (
	headerSize  = 10 // without optional fields
	trailerSize = 8  // checksum and size

	maxLiterals, maxDistances = 288, 32

	longest = 258 // bytes of a match
	slack   = 16  // bytes that a copy may write after its end
)

// Member decompresses the gzip member at the beginning of in and returns its
// text, valid until the next call, and its length in in. It reports false if
// the member is not complete, is damaged, has optional fields in its header, or
// has more than limit bytes of text.
func (d *Decoder) Member(in []byte, limit int) (text []byte, length int, ok bool) {
	if len(in) < headerSize+trailerSize || in[0] != 0x1f || in[1] != 0x8b || in[2] != 8 || in[3] != 0 {
		return nil, 0, false
	}
	d.in, d.pos, d.acc, d.n, d.size, d.limit = in, headerSize, 0, 0, 0, limit
	defer func() { d.in = nil }()
	for final := false; !final; {
		if !d.refill() {
			return nil, 0, false
		}
		final = d.take(1) == 1
		switch d.take(2) {
		case 0:
			ok = d.stored()
		case 1:
			ok = d.fixed() && d.block()
		case 2:
			ok = d.dynamic() && d.block()
		default:
			ok = false
		}
		if !ok {
			return nil, 0, false
		}
	}
	end := d.pos - int(d.n/8)
	if end+trailerSize > len(in) || d.size > d.limit {
		return nil, 0, false
	}
	text = d.out[:d.size]
	ok = binary.LittleEndian.Uint32(in[end:]) == crc32.ChecksumIEEE(text) && binary.LittleEndian.Uint32(in[end+4:]) == uint32(len(text))
	return text, end + trailerSize, ok
}

// enough is how many bits are there after refill: a length and a distance with
// their extra bits take 48.
const enough = 56

// refill makes enough bits available. It fails in the trailer of a member: the
// trailer has more bits, so that there are always enough before it.
func (d *Decoder) refill() bool {
	if d.pos+8 <= len(d.in) {
		d.acc |= binary.LittleEndian.Uint64(d.in[d.pos:]) << d.n
		d.pos += int((63 - d.n) >> 3)
		d.n |= enough
		return true
	}
	for d.n < enough {
		if d.pos == len(d.in) {
			return false
		}
		d.acc |= uint64(d.in[d.pos]) << d.n
		d.pos++
		d.n += 8
	}
	return true
}

func (d *Decoder) take(n uint) uint {
	v := uint(d.acc & (1<<n - 1))
	d.acc >>= n
	d.n -= n
	return v
}

// room makes place for n bytes of text. It fails if there is more text than the
// limit.
func (d *Decoder) room(n int) bool {
	if need := d.size + n + slack; need > len(d.out) {
		if d.size > d.limit {
			return false
		}
		out := make([]byte, max(need, 2*len(d.out), 64<<10))
		copy(out, d.out[:d.size])
		d.out = out
	}
	return true
}

// stored copies a block that is not compressed.
func (d *Decoder) stored() bool {
	at := d.pos - int(d.n/8)
	d.acc, d.n = 0, 0
	if at+4 > len(d.in) {
		return false
	}
	n := int(binary.LittleEndian.Uint16(d.in[at:]))
	if at += 4; binary.LittleEndian.Uint16(d.in[at-2:]) != ^uint16(n) || at+n > len(d.in) || !d.room(n) {
		return false
	}
	d.size += copy(d.out[d.size:], d.in[at:at+n])
	d.pos = at + n
	return true
}

// fixed prepares for a block with the codes of the format.
func (d *Decoder) fixed() bool {
	lengths := d.lengths[:maxLiterals+30]
	for i := range lengths {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		case i < maxLiterals:
			lengths[i] = 8
		default:
			lengths[i] = 5
		}
	}
	return d.literals.init(lengths[:maxLiterals], &literalEntries, literalBits) && d.distances.init(append(lengths[maxLiterals:], 5, 5), &distanceEntries, distanceBits)
}

// dynamic reads the codes of a block.
func (d *Decoder) dynamic() bool {
	literals, distances, codes := int(d.take(5))+257, int(d.take(5))+1, int(d.take(4))+4
	var short [19]uint8
	for i := range codes {
		if i%16 == 0 && !d.refill() {
			return false
		}
		short[lengthOrder[i]] = uint8(d.take(3))
	}
	if literals > 286 || distances > 30 || !d.distances.init(short[:], &lengthEntries, distanceBits) {
		return false
	}
	all := d.lengths[:literals+distances]
	for i := 0; i < len(all); {
		if !d.refill() {
			return false
		}
		e := d.distances.table[d.acc&(1<<distanceBits-1)] // these codes have 7 bits at most
		d.take(uint(e & totalMask))
		v := e >> valueShift
		if e >= kindEnd {
			return false
		}
		if v < 16 {
			all[i] = uint8(v)
			i++
			continue
		}
		again, repeat := uint8(0), 0
		switch v {
		case 16:
			if i == 0 {
				return false
			}
			again, repeat = all[i-1], 3+int(d.take(2))
		case 17:
			repeat = 3 + int(d.take(3))
		default:
			repeat = 11 + int(d.take(7))
		}
		if i+repeat > len(all) {
			return false
		}
		for range repeat {
			all[i] = again
			i++
		}
	}
	return d.literals.init(all[:literals], &literalEntries, literalBits) && d.distances.init(all[literals:], &distanceEntries, distanceBits)
}

var lengthOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// block decompresses a block to its end.
func (d *Decoder) block() bool {
	var (
		in, pos, acc, n = d.in, d.pos, d.acc, d.n
		out, size       = d.out, d.size
		literals        = &d.literals.table
		distances       = &d.distances.table
	)
	for {
		if size+longest+slack > len(out) {
			d.size = size
			if !d.room(longest) {
				return false
			}
			out = d.out
		}
		if pos+8 <= len(in) {
			acc |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
			pos += int((63 - n) >> 3)
			n |= enough
		} else {
			d.pos, d.acc, d.n = pos, acc, n
			if !d.refill() {
				return false
			}
			pos, acc, n = d.pos, d.acc, d.n
		}
		e := literals[acc&(1<<literalBits-1)]
		if e < kindMatch {
			acc >>= e & totalMask
			n -= uint(e & totalMask)
			out[size] = byte(e >> valueShift)
			size++
			if e = literals[acc&(1<<literalBits-1)]; e < kindMatch {
				acc >>= e & totalMask
				n -= uint(e & totalMask)
				out[size] = byte(e >> valueShift)
				size++
				continue
			}
		}
		// There are at least 46 bits: enough for the extra bits of a match of this
		// table and for a distance.
		if e >= kindLong {
			if e < kindEnd {
				d.pos, d.acc, d.n = pos, acc, n
				if !d.refill() {
					return false
				}
				pos, acc, n = d.pos, d.acc, d.n
				e = d.literals.long(acc)
			}
			if e < kindMatch {
				acc >>= e & totalMask
				n -= uint(e & totalMask)
				out[size] = byte(e >> valueShift)
				size++
				continue
			}
			if e >= kindEnd {
				d.pos, d.acc, d.n, d.size = pos, acc>>(e&totalMask), n-uint(e&totalMask), size
				return e>>valueShift&valueMask != 0
			}
		}
		length := int(e>>valueShift&valueMask) + int(acc&(1<<(e&totalMask)-1)>>(e>>lengthShift&lengthMask))
		acc >>= e & totalMask
		n -= uint(e & totalMask)

		e = distances[acc&(1<<distanceBits-1)]
		if e >= kindLong {
			e = d.distances.long(acc)
		}
		distance := int(e>>valueShift&valueMask) + int(acc&(1<<(e&totalMask)-1)>>(e>>lengthShift&lengthMask))
		acc >>= e & totalMask
		n -= uint(e & totalMask)
		if e >= kindEnd || distance > size {
			return false
		}
		from, to := out[size-distance:], out[size:size+length+slack]
		switch {
		case distance >= 16:
			for i := 0; i < length; i += 16 {
				*(*[16]byte)(to[i:]) = *(*[16]byte)(from[i:])
			}
		default:
			for i := range length {
				to[i] = from[i]
			}
		}
		size += length
	}
}

// An entry of a table has, from its lowest bits on, the number of the bits of
// the code and of the extra bits after it, the length of the code, the value,
// and the kind, by which entries are compared.
const (
	totalMask   = 31
	lengthShift = 5
	lengthMask  = 15
	valueShift  = 9
	valueMask   = 1<<17 - 1
	kindLiteral = 0 << 30
	kindMatch   = 1 << 30 // the value is the smallest length or distance
	kindLong    = 2 << 30 // the code is longer than the index of the table
	kindEnd     = 3 << 30 // the end of the block, or no code if the value is 0

	// The number of the bits that are the index of a table.
	literalBits  = 10
	distanceBits = 8
)

// huffman is a set of codes.
type huffman struct {
	table   [1 << literalBits]uint32 // by the next bits
	count   [16]uint16               // of the codes, by their length
	symbols [maxLiterals]uint16
	entries *[maxLiterals]uint32
}

// init sets the lengths of the codes. The table gets an index of so many bits;
// entries has what the symbols mean. init fails if the codes are not complete,
// except for a single one.
func (h *huffman) init(lengths []uint8, entries *[maxLiterals]uint32, index uint8) bool {
	h.entries, h.count = entries, [16]uint16{}
	for _, n := range lengths {
		h.count[n&15]++
	}
	used := len(lengths) - int(h.count[0])
	h.count[0] = 0
	var at, code [16]uint16 // of the next symbol of a length
	sum, left, longer := uint16(0), 1, false
	for n := 1; n < 16; n++ {
		left = 2*left - int(h.count[n])
		if left < 0 {
			return false
		}
		at[n] = sum
		code[n] = (code[n-1] + h.count[n-1]) << 1
		sum += h.count[n]
		longer = longer || n > int(index) && h.count[n] > 0
	}
	if left > 0 && (used > 1 || used == 1 && h.count[1] != 1) {
		return false
	}
	table := h.table[:1<<index]
	if left > 0 || longer {
		fill := uint32(kindEnd)
		if longer {
			fill = kindLong
		}
		for i := range table {
			table[i] = fill
		}
	}
	for symbol, n := range lengths {
		n &= 15
		if n == 0 {
			continue
		}
		h.symbols[at[n]] = uint16(symbol)
		at[n]++
		c := code[n]
		code[n]++
		if n > index {
			continue
		}
		e := entryOf(entries[symbol], uint32(n))
		for i := int(bits.Reverse16(c) >> (16 - n)); i < len(table); i += 1 << n {
			table[i] = e
		}
	}
	return true
}

// entryOf completes the entry of a symbol by the length of its code.
func entryOf(symbol, length uint32) uint32 { return symbol + length + length<<lengthShift }

// long returns the entry of a code of any length.
func (h *huffman) long(acc uint64) uint32 {
	code, first, index := 0, 0, 0
	for n := uint32(1); n < 16; n++ {
		code |= int(acc & 1)
		acc >>= 1
		count := int(h.count[n])
		if code-count < first {
			return entryOf(h.entries[h.symbols[index+code-first]], n)
		}
		index += count
		first = (first + count) << 1
		code <<= 1
	}
	return kindEnd
}

// literalEntries, distanceEntries and lengthEntries have the meaning of the
// symbols, without the lengths of the codes.
var literalEntries, distanceEntries, lengthEntries = func() (literals, distances, lengths [maxLiterals]uint32) {
	for i := range literals {
		literals[i], distances[i], lengths[i] = kindEnd, kindEnd, uint32(i)<<valueShift
		if i < 256 {
			literals[i] = uint32(i) << valueShift
		}
	}
	literals[256] |= 1 << valueShift
	match := func(base, extra uint32) uint32 { return kindMatch | base<<valueShift | extra }
	base := uint32(3)
	for i := range uint32(28) {
		extra := max(i/4, 1) - 1
		literals[257+i] = match(base, extra)
		base += 1 << extra
	}
	literals[285] = match(longest, 0)
	base = 1
	for i := range uint32(30) {
		extra := max(i/2, 1) - 1
		distances[i] = match(base, extra)
		base += 1 << extra
	}
	return literals, distances, lengths
}()
