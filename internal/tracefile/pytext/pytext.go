// Package pytext writes values in Python's notation, for records that Python
// programs compare with their own.
package pytext

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// longestLine bounds the result of ExceptionLine, in bytes.
const longestLine = 300

// ExceptionLine returns the line with the error message from text that an
// exception or an interpreter printed: the line after the last traceback, or
// else the first line. If the line ends with a colon, for example a type whose
// message begins on a line of its own, the next line is added. The result has
// at most 300 bytes.
func ExceptionLine(text string) string {
	const mark = "Traceback (most recent call last)"
	if i := strings.LastIndex(text, mark); i >= 0 {
		_, text, _ = strings.Cut(text[i+len(mark):], "\n")
		for text != "" && (text[0] == ' ' || text[0] == '\t' || text[0] == '\n') { // stack frames
			_, text, _ = strings.Cut(text, "\n")
		}
	}
	line, more, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.TrimSpace(line)
	for strings.HasSuffix(line, ":") && more != "" {
		var next string
		next, more, _ = strings.Cut(strings.TrimSpace(more), "\n")
		line += " " + strings.TrimSpace(next)
	}
	if len(line) > longestLine {
		at := longestLine
		for at > 0 && !utf8.RuneStart(line[at]) {
			at--
		}
		line = line[:at] + "…"
	}
	return line
}

// AppendFloat appends f in the form of Python's repr: the shortest text that
// reads back as f, always with a point or an exponent, the exponent form below
// 1e-4 and from 1e16 on, and nan, inf and -inf.
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
