package kineto

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// The scan functions work on a window of the file. Each returns the index after
// what it read; scanShort means that the window ended first and the caller has
// to read more and start again, scanBad that the bytes are not valid.
const (
	scanShort = -1
	scanBad   = -2
)

// byteClass marks the bytes that matter when skipping a container.
var byteClass = func() (t [256]uint8) {
	t['"'] = 1
	t['{'], t['['] = 2, 2
	t['}'], t[']'] = 3, 3
	return t
}()

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && isSpace(b[i]) {
		i++
	}
	return i
}

// skipString returns the index after the string whose opening quote is b[i].
func skipString(b []byte, i int) int {
	i++
	// Most strings are keys and short words: a few steps of eight bytes are faster
	// than a call.
	for end := min(i+24, len(b)); i+8 <= end; i += 8 {
		const ones, tops = 0x0101010101010101, 0x8080808080808080
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^ones*'"', w^ones*'\\'
		if m := ((quote-ones)&^quote | (slash-ones)&^slash) & tops; m != 0 { // its lowest bit is right
			if i += bits.TrailingZeros64(m) / 8; b[i] == '"' {
				return i + 1
			}
			break
		}
	}
	for {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return scanShort
		}
		j += i
		if b[j-1] != '\\' {
			return j + 1
		}
		n := 0
		for k := j - 1; k >= i && b[k] == '\\'; k-- {
			n++
		}
		if n%2 == 0 {
			return j + 1
		}
		i = j + 1
	}
}

// skipValue returns the index after the value that starts at b[i]. Bare words
// such as N/A and NaN count as values; containers are matched by depth only.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return scanShort
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipContainer(b, i)
	case ',', '}', ']', ':':
		return scanBad
	}
	start := i
	for i < len(b) {
		switch c := b[i]; c {
		case ',', '}', ']', '\n', '\r', '\t', ' ':
			if i == start {
				return scanBad
			}
			return i
		case '"', '{', '[', ':':
			return scanBad
		}
		i++
	}
	return scanShort
}

// skipContainer returns the index after the array or object that starts at
// b[i]. Nearly all args have no object and no escape, and then end at the first
// brace with an even number of quotes before it.
func skipContainer(b []byte, i int) int {
	if b[i] != '{' {
		return skipNested(b, i)
	}
	n := bytes.IndexByte(b[i:], '}')
	if n < 0 {
		return skipNested(b, i)
	}
	in := b[i+1 : i+n]
	if bytes.Count(in, quoteByte)&1 != 0 || bytes.IndexByte(in, '{') >= 0 || bytes.IndexByte(in, '\\') >= 0 {
		return skipNested(b, i)
	}
	if open := bytes.Count(in, openByte); open > 0 && open != bytes.Count(in, closeByte) {
		return skipNested(b, i)
	}
	return i + n + 1
}

var quoteByte, openByte, closeByte = []byte{'"'}, []byte{'['}, []byte{']'}

func skipNested(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch byteClass[b[i]] {
		case 0:
			i++
		case 1:
			if i = skipString(b, i); i < 0 {
				return i
			}
		case 2:
			depth++
			i++
		case 3:
			depth--
			i++
			if depth == 0 {
				return i
			}
		}
	}
	return scanShort
}

func endsNumber(c byte) bool { return c == ',' || c == '}' || c <= ' ' && isSpace(c) }

func unquote(v []byte) []byte {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}
