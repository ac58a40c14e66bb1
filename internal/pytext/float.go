// Package pytext writes values as Python does, for records that Python
// programs compare with their own.
package pytext

import (
	"math"
	"strconv"
)

// AppendFloat appends f as Python's repr does: the shortest text that reads
// back as f, always with a point or an exponent, the exponent form below 1e-4
// and from 1e16 on, and nan, inf and -inf.
func AppendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 0):
		if f < 0 {
			dst = append(dst, '-')
		}
		return append(dst, "inf"...)
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64) // two exponent digits, as in Python
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	for _, c := range dst[start:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}
