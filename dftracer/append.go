package dftracer

import (
	"math/bits"
	"slices"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// pairs holds the decimal digits of 00 to 99.
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

func appendUint(dst []byte, v uint64) []byte {
	if v < 10 {
		return append(dst, byte('0'+v))
	}
	if v < 100 {
		return append(dst, pairs[2*v], pairs[2*v+1])
	}
	if v < 10000 {
		hi := v / 100
		lo := 2 * (v - 100*hi)
		if hi < 10 {
			return append(dst, byte('0'+hi), pairs[lo], pairs[lo+1])
		}
		return append(dst, pairs[2*hi], pairs[2*hi+1], pairs[lo], pairs[lo+1])
	}
	n := decimals(v)
	end := len(dst) + n
	dst = slices.Grow(dst, n)[:end]
	for i := end; v > 0; {
		if v < 10 {
			dst[i-1] = byte('0' + v)
			break
		}
		q := v / 100
		r := 2 * (v - 100*q)
		i -= 2
		dst[i], dst[i+1] = pairs[r], pairs[r+1]
		v = q
	}
	return dst
}

// decimals is how many digits v has.
func decimals(v uint64) int {
	n := bits.Len64(v) * 1233 >> 12 // log10(2) is 1233/4096
	if v >= powers[n] {
		n++
	}
	return n
}

// powers of ten; the first stands in for zero, which has a digit as well.
var powers = [20]uint64{0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19}

func appendInt(dst []byte, v int64) []byte {
	if v < 0 {
		return appendUint(append(dst, '-'), -uint64(v))
	}
	return appendUint(dst, uint64(v))
}

// clock appends timestamps. Neighbouring events share their seconds, so those
// digits are made once and copied. The same goes for their process and lane.
type clock struct {
	sec  int64
	n    int
	text [20]byte

	tid  int64
	lane []byte // `,"pid":1,"tid":2,"ts":`
}

const microsPerSecond = 1_000_000

func (c *clock) append(dst []byte, ts int64) []byte {
	if ts < microsPerSecond {
		return appendInt(dst, ts)
	}
	sec := ts / microsPerSecond
	us := uint32(ts - sec*microsPerSecond)
	if sec != c.sec {
		c.sec = sec
		c.n = len(appendInt(c.text[:0], sec))
	}
	dst = append(dst, c.text[:c.n]...)
	hi, rest := us/10000, us%10000
	mid, lo := rest/100, rest%100
	return append(dst, pairs[2*hi], pairs[2*hi+1], pairs[2*mid], pairs[2*mid+1], pairs[2*lo], pairs[2*lo+1])
}

// plain marks the bytes that stand for themselves inside a JSON string.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendString appends s as a JSON string. Only what JSON demands is escaped,
// so that a printable string has one spelling and can be searched for as bytes.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

func appendEscaped(dst []byte, s string) []byte {
	i := 0
	// Eight bytes at a time: most strings are plain to the end.
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if !allPlain(w) {
			break
		}
	}
	for ; i < len(s); i++ {
		if !plain[s[i]] {
			return escapeFrom(dst, s, i)
		}
	}
	return append(dst, s...)
}

// allPlain reports whether each of eight bytes stands for itself inside a JSON
// string.
func allPlain(w uint64) bool { return notPlain(w) == 0 }

// notPlain sets the top bit of the first byte that does not; the bytes after it say
// nothing.
func notPlain(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return (w | (w - ones*' ') | (quote - ones) | (slash - ones)) & tops
}

// escapeFrom appends s, of which the first i bytes are known to be plain.
func escapeFrom(dst []byte, s string, i int) []byte {
	start := 0
	for i < len(s) {
		c := s[i]
		if plain[c] {
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
