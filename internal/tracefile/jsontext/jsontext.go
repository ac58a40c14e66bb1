// Package jsontext appends numbers and strings as JSON, in the form of trace
// files: without allocations, and with one form per value.
package jsontext

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// pairs holds the digit pairs from 00 to 99.
const pairs = "00010203040506070809" +
	"10111213141516171819" +
	"20212223242526272829" +
	"30313233343536373839" +
	"40414243444546474849" +
	"50515253545556575859" +
	"60616263646566676869" +
	"70717273747576777879" +
	"80818283848586878889" +
	"90919293949596979899"

// AppendUint appends an integer in decimal.
func AppendUint(dst []byte, v uint64) []byte {
	switch {
	case v < 10:
		return append(dst, byte('0'+v))
	case v < 100:
		return append(dst, pairs[2*v], pairs[2*v+1])
	case v < 1e4:
		hi := v / 100
		lo := 2 * (v - 100*hi)
		if hi < 10 {
			return append(dst, byte('0'+hi), pairs[lo], pairs[lo+1])
		}
		return append(dst, pairs[2*hi], pairs[2*hi+1], pairs[lo], pairs[lo+1])
	case v < 1e8:
		hi := v / 1e4
		return appendFour(AppendUint(dst, hi), uint32(v-hi*1e4))
	}
	hi := v / 1e8
	lo := uint32(v - hi*1e8)
	return appendFour(appendFour(AppendUint(dst, hi), lo/1e4), lo%1e4)
}

// appendFour appends the four digits of an integer below ten thousand.
func appendFour(dst []byte, v uint32) []byte {
	hi := v / 100
	lo := 2 * (v - 100*hi)
	return append(dst, pairs[2*hi], pairs[2*hi+1], pairs[lo], pairs[lo+1])
}

// AppendSix appends the six digits of an integer below a million.
func AppendSix(dst []byte, v uint32) []byte {
	hi, rest := v/10000, v%10000
	mid, lo := rest/100, rest%100
	return append(dst, pairs[2*hi], pairs[2*hi+1], pairs[2*mid], pairs[2*mid+1], pairs[2*lo], pairs[2*lo+1])
}

// AppendInt appends a signed integer in decimal.
func AppendInt(dst []byte, v int64) []byte {
	if v < 0 {
		return AppendUint(append(dst, '-'), -uint64(v))
	}
	return AppendUint(dst, uint64(v))
}

// Plain marks the bytes that need no escape in a JSON string.
var Plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// AppendString appends s as a JSON string. It escapes only what JSON requires,
// so a printable string has one form and can be searched for as bytes.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = AppendEscaped(dst, s)
	return append(dst, '"')
}

// AppendEscaped is AppendString without the quotes.
func AppendEscaped(dst []byte, s string) []byte {
	if n := PlainPrefix(s); n < len(s) {
		return escapeFrom(dst, s, n)
	}
	return append(dst, s...)
}

// PlainPrefix returns how many of the first bytes of s are ASCII and need no escape in a
// JSON string.
func PlainPrefix(s string) (i int) {
	// Eight bytes at a time: most strings need no escape.
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if !allPlain(w) {
			break
		}
	}
	for i < len(s) && Plain[s[i]] {
		i++
	}
	return i
}

// hexPairs holds the two digits of each byte.
var hexPairs = func() (t [256][2]byte) {
	for i := range t {
		t[i] = [2]byte{hexDigits[i>>4], hexDigits[i&15]}
	}
	return t
}()

// AppendHex appends bytes in hexadecimal.
func AppendHex(dst, src []byte) []byte {
	n := len(dst)
	dst = slices.Grow(dst, 2*len(src))[:n+2*len(src)]
	to := dst[n:]
	for i, b := range src {
		pair := hexPairs[b]
		to[2*i], to[2*i+1] = pair[0], pair[1]
	}
	return dst
}

// allPlain reports whether eight bytes need no escape in a JSON string.
func allPlain(w uint64) bool { return NotPlain(w) == 0 }

// NotPlain sets the top bit of the first byte that needs an escape. Later bytes
// are undefined.
func NotPlain(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return (w | (w - ones*' ') | (quote - ones) | (slash - ones)) & tops
}

// escapeFrom appends s, whose first i bytes need no escape.
func escapeFrom(dst []byte, s string, i int) []byte {
	start := 0
	for i < len(s) {
		c := s[i]
		if Plain[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\uFFFD"...)
			i++
			start = i
			continue
		}
		i += size
	}
	return append(dst, s[start:]...)
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// AppendFloat appends a number in the shortest form that reads back as the same one,
// always with a point or an exponent. NaN and the infinities are strings.
func AppendFloat(dst []byte, f float64) []byte {
	if short, ok := appendShort(dst, f); ok {
		return short
	}
	switch {
	case f != f:
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	n := len(dst)
	abs := math.Abs(f)
	form := byte('f')
	if abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		form = 'e'
	}
	dst = strconv.AppendFloat(dst, f, form, -1, 64)
	for _, c := range dst[n:] {
		if c == '.' || c == 'e' {
			return dst
		}
	}
	return append(dst, '.', '0')
}

// appendShort appends a number with at most four decimals, the most frequent
// kind. Two decimals of up to fifteen digits never stand for the same float, so
// the decimal found is the shortest.
func appendShort(dst []byte, f float64) ([]byte, bool) {
	const limit = 1e14
	scaled := math.Abs(f) * 1e4
	if !(scaled < limit) || f == 0 && math.Signbit(f) {
		return dst, false
	}
	v := uint64(scaled + 0.5)
	if float64(v)/1e4 != math.Abs(f) {
		return dst, false
	}
	if f < 0 {
		dst = append(dst, '-')
	}
	whole := v / 1e4
	rest := uint32(v - whole*1e4)
	if rest == 0 {
		return append(AppendUint(dst, whole), '.', '0'), true
	}
	dst = append(AppendUint(dst, whole), '.')
	hi, lo := rest/100, rest%100
	dst = append(dst, pairs[2*hi], pairs[2*hi+1], pairs[2*lo], pairs[2*lo+1])
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst, true
}

// AppendKey appends a comma and the start of a member. ok is false if the key
// was not valid UTF-8 and was repaired.
func AppendKey(dst []byte, key string) (named []byte, ok bool) {
	n := len(dst)
	if cap(dst)-n < len(key)+12 || len(key) > 32 {
		dst = append(dst, ',', '"')
		dst = AppendEscaped(dst, key)
		return append(dst, '"', ':'), utf8.ValidString(key)
	}
	// Eight bytes at a time without a call: keys are short.
	b := dst[n : n+len(key)+12]
	b[0], b[1] = ',', '"'
	i := 0
	for ; i+8 <= len(key); i += 8 {
		w := uint64(key[i]) | uint64(key[i+1])<<8 | uint64(key[i+2])<<16 | uint64(key[i+3])<<24 |
			uint64(key[i+4])<<32 | uint64(key[i+5])<<40 | uint64(key[i+6])<<48 | uint64(key[i+7])<<56
		if !allPlain(w) {
			break
		}
		binary.LittleEndian.PutUint64(b[i+2:], w)
	}
	for ; i < len(key); i++ {
		if !Plain[key[i]] {
			dst = escapeFrom(dst[:n+2], key, i)
			return append(dst, '"', ':'), utf8.ValidString(key)
		}
		b[i+2] = key[i]
	}
	b[i+2], b[i+3] = '"', ':'
	return dst[:n+len(key)+4], true
}
