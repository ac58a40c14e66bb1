package kineto

import "math"

// parseNanos converts decimal microseconds ("4203669604595.407", "1.5e3",
// quoted or not) to nanoseconds. Fractions of a nanosecond are dropped, toward
// minus infinity, and reported as inexact.
func parseNanos(b []byte) (ns int64, inexact, ok bool) {
	if len(b) >= 2 && b[0] == '"' && b[len(b)-1] == '"' {
		b = b[1 : len(b)-1]
	}
	neg := false
	i := 0
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		neg = b[i] == '-'
		i++
	}
	start := i
	var v uint64
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		if v > math.MaxInt64/10 {
			return 0, false, false
		}
		v = v*10 + uint64(b[i]-'0')
	}
	digits := i - start
	frac := 0
	if i < len(b) && b[i] == '.' {
		i++
		for ; i < len(b) && b[i]-'0' <= 9; i++ {
			digits++
			if frac < 3 {
				if v > math.MaxInt64/10 {
					return 0, false, false
				}
				v = v*10 + uint64(b[i]-'0')
				frac++
			} else if b[i] != '0' {
				inexact = true
			}
		}
	}
	if digits == 0 {
		return 0, false, false
	}
	if i != len(b) {
		return parseNanosExponent(b[start:], neg)
	}
	for ; frac < 3; frac++ {
		if v > math.MaxInt64/10 {
			return 0, false, false
		}
		v *= 10
	}
	return signed(v, neg, inexact)
}

// parseNanosExponent handles the rare scientific form, on digits alone.
func parseNanosExponent(b []byte, neg bool) (int64, bool, bool) {
	digits := make([]byte, 0, 40)
	point := -1
	i := 0
	for ; i < len(b); i++ {
		c := b[i]
		if c == '.' && point < 0 {
			point = len(digits)
			continue
		}
		if c-'0' > 9 {
			break
		}
		if len(digits) == cap(digits) {
			return 0, false, false
		}
		digits = append(digits, c)
	}
	if point < 0 {
		point = len(digits)
	}
	if len(digits) == 0 || i >= len(b) || (b[i] != 'e' && b[i] != 'E') {
		return 0, false, false
	}
	i++
	expNeg := false
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		expNeg = b[i] == '-'
		i++
	}
	exp, n := 0, 0
	for ; i < len(b) && b[i]-'0' <= 9 && n < 4; i++ {
		exp = exp*10 + int(b[i]-'0')
		n++
	}
	if n == 0 || i != len(b) {
		return 0, false, false
	}
	if expNeg {
		exp = -exp
	}
	whole := point + exp + 3
	var v uint64
	inexact := false
	for k, d := range digits {
		if k >= whole {
			inexact = inexact || d != '0'
			continue
		}
		if v > math.MaxInt64/10 {
			return 0, false, false
		}
		v = v*10 + uint64(d-'0')
	}
	for k := len(digits); k < whole && v != 0; k++ {
		if v > math.MaxInt64/10 {
			return 0, false, false
		}
		v *= 10
	}
	return signed(v, neg, inexact)
}

func signed(v uint64, neg, inexact bool) (int64, bool, bool) {
	if v > math.MaxInt64-1 {
		return 0, false, false
	}
	if !neg {
		return int64(v), inexact, true
	}
	ns := -int64(v)
	if inexact {
		ns--
	}
	return ns, inexact, true
}

// parseInt reads a decimal integer, quoted or not, in the int64 range.
func parseInt(b []byte) (int64, bool) {
	if len(b) >= 2 && b[0] == '"' && b[len(b)-1] == '"' {
		b = b[1 : len(b)-1]
	}
	i, neg := 0, false
	if i < len(b) && b[i] == '-' {
		neg = true
		i++
	}
	if i == len(b) {
		return 0, false
	}
	var v uint64
	for ; i < len(b); i++ {
		d := uint64(b[i] - '0')
		if d > 9 || v > (math.MaxUint64-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	if neg {
		if v > 1<<63 {
			return 0, false
		}
		return -int64(v), true
	}
	if v > math.MaxInt64 {
		return 0, false
	}
	return int64(v), true
}
