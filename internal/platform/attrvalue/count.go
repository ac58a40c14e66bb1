package attrvalue

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// Count is an unsigned counter of 128 bits. Floating-point operations of a
// real run pass int64 within minutes (2048 samples of 3.4e15 FLOPs are 7e18
// for one iteration), so the counters that add them up are Counts. It
// saturates at 2^128-1, about 3.4e38. The zero value is zero.
type Count struct{ hi, lo uint64 }

// CountOfUint returns the Count of v.
func CountOfUint(v uint64) Count { return Count{lo: v} }

// Product returns a*b as a Count; a negative factor counts as zero.
func Product(a, b int64) Count {
	if a <= 0 || b <= 0 {
		return Count{}
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return Count{hi, lo}
}

// Add returns c+d, saturating.
func (c Count) Add(d Count) Count {
	lo, carry := bits.Add64(c.lo, d.lo, 0)
	hi, carry := bits.Add64(c.hi, d.hi, carry)
	if carry != 0 {
		return Count{math.MaxUint64, math.MaxUint64}
	}
	return Count{hi, lo}
}

// Times returns c*n, saturating; a negative n counts as zero.
func (c Count) Times(n int64) Count {
	if n <= 0 {
		return Count{}
	}
	hi, lo := bits.Mul64(c.lo, uint64(n))
	over, high := bits.Mul64(c.hi, uint64(n))
	high, carry := bits.Add64(high, hi, 0)
	if over != 0 || carry != 0 {
		return Count{math.MaxUint64, math.MaxUint64}
	}
	return Count{high, lo}
}

// IsZero reports whether the count is zero.
func (c Count) IsZero() bool { return c.hi == 0 && c.lo == 0 }

// Int64 returns the count as an int64, and whether it fits.
func (c Count) Int64() (int64, bool) {
	if c.hi != 0 || c.lo > math.MaxInt64 {
		return 0, false
	}
	return int64(c.lo), true
}

// Float64 returns the nearest float64, ties to even.
func (c Count) Float64() float64 {
	if c.hi == 0 {
		return float64(c.lo)
	}
	// Keep the top 64 bits. The bits below only matter for rounding; a sticky
	// lowest bit stands for them.
	shift := 64 - bits.LeadingZeros64(c.hi)
	top := c.hi<<(64-shift) | c.lo>>shift
	if c.lo<<(64-shift) != 0 {
		top |= 1
	}
	return float64(top) * math.Float64frombits(uint64(1023+shift)<<52) // 2^shift
}

// Append appends the decimal digits to dst.
func (c Count) Append(dst []byte) []byte {
	const chunk = 1e19
	if c.hi == 0 {
		return strconv.AppendUint(dst, c.lo, 10)
	}
	// Two divisions by 10^19 give at most three chunks of 19 digits.
	hiQuo, hiRem := c.hi/chunk, c.hi%chunk
	quo, low := bits.Div64(hiRem, c.lo, chunk)
	if hiQuo != 0 {
		high, mid := bits.Div64(hiQuo, quo, chunk)
		dst = strconv.AppendUint(dst, high, 10)
		dst = appendPadded(dst, mid)
		return appendPadded(dst, low)
	}
	dst = strconv.AppendUint(dst, quo, 10)
	return appendPadded(dst, low)
}

func appendPadded(dst []byte, v uint64) []byte {
	var digits [19]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + v%10)
		v /= 10
	}
	return append(dst, digits[:]...)
}

// String returns the count in decimal.
func (c Count) String() string { return string(c.Append(nil)) }

// Big returns the count as a new big.Int.
func (c Count) Big() *big.Int {
	b := new(big.Int).SetUint64(c.hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(c.lo))
}
