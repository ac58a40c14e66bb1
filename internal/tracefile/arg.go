package tracefile

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
)

// Kind is the type of an Arg's value.
type Kind uint8

// The kinds of values.
const (
	KindInt    Kind = iota // int64
	KindUint               // uint64 above the range of int64, or made by Uint
	KindFloat              // float64
	KindString             // string
	KindRaw                // other JSON: object, array, true, false, null
	KindHash               // Hash: a bare number in V1, sixteen quoted hex digits otherwise
)

// Arg is one typed argument of an event: a key and a number or a string held
// by value, so that an event with numbers needs no allocation. The zero Arg is
// the integer 0 under an empty key.
type Arg struct {
	Key  string
	kind Kind
	num  uint64
	str  string
}

// Int returns an integer argument.
func Int(key string, v int64) Arg { return Arg{Key: key, kind: KindInt, num: uint64(v)} }

// Uint returns an unsigned integer argument; all 64 bits are exact.
func Uint(key string, v uint64) Arg { return Arg{Key: key, kind: KindUint, num: v} }

// Float returns a floating point argument. It is written in the shortest form
// that reads back as the same number, always with a point or an exponent, so
// that 3 stays a float (3.0). JSON has no NaN and no infinity: they are
// written as the strings "NaN", "Infinity" and "-Infinity".
func Float(key string, v float64) Arg {
	return Arg{Key: key, kind: KindFloat, num: math.Float64bits(v)}
}

// String returns a string argument.
func String(key, v string) Arg { return Arg{Key: key, kind: KindString, str: v} }

// Bool returns the integer 1 or 0, as DFTracer writes a Python bool: its
// readers do not accept JSON booleans.
func Bool(key string, v bool) Arg {
	if v {
		return Int(key, 1)
	}
	return Int(key, 0)
}

// Raw returns an argument that is written as the given JSON text without its
// line breaks. Text that is not valid JSON is written as a string instead.
func Raw(key, text string) Arg { return Arg{Key: key, kind: KindRaw, str: text} }

// HashArg returns an argument that refers to a hash record, such as fhash.
func HashArg(key string, h Hash) Arg { return Arg{Key: key, kind: KindHash, num: uint64(h)} }

// KindOf returns the type of the value.
func KindOf(a Arg) Kind { return a.kind }

// Int64 returns the value as an integer: floats are truncated and saturated,
// decimal strings are parsed (old producers quote all numbers), other values
// give 0.
func (a Arg) Int64() int64 {
	switch a.kind {
	case KindInt:
		return int64(a.num)
	case KindUint, KindHash:
		return int64(min(a.num, math.MaxInt64))
	case KindFloat:
		return clampInt64(math.Float64frombits(a.num))
	case KindString:
		n, err := strconv.ParseInt(a.str, 10, 64)
		if err != nil {
			f, _ := strconv.ParseFloat(a.str, 64)
			return clampInt64(f)
		}
		return n
	}
	return 0
}

// Whole returns the integer that a value stands for: an integer, a float
// without a fraction, or the text of either. ok is false for other values.
func Whole(a Arg) (n int64, ok bool) {
	switch a.kind {
	case KindInt:
		return int64(a.num), true
	case KindUint:
		return int64(a.num), a.num <= math.MaxInt64
	case KindString:
		text := strings.TrimSpace(a.str)
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, true
		}
		f, err := strconv.ParseFloat(text, 64)
		return int64(f), err == nil && math.Abs(f) < 1<<63 && math.Trunc(f) == f
	case KindFloat:
		f := math.Float64frombits(a.num)
		return int64(f), math.Abs(f) < 1<<63 && math.Trunc(f) == f
	}
	return 0, false
}

// Uint64 returns the value as an unsigned integer; negative values are 0.
func Uint64(a Arg) uint64 {
	switch a.kind {
	case KindUint, KindHash:
		return a.num
	case KindString:
		if n, err := strconv.ParseUint(a.str, 10, 64); err == nil {
			return n
		}
	}
	return uint64(max(a.Int64(), 0))
}

// Float64 returns the value as a float; strings are parsed, other values give
// 0.
func (a Arg) Float64() float64 {
	switch a.kind {
	case KindInt:
		return float64(int64(a.num))
	case KindUint, KindHash:
		return float64(a.num)
	case KindFloat:
		return math.Float64frombits(a.num)
	case KindString:
		f, _ := strconv.ParseFloat(a.str, 64)
		return f
	}
	return 0
}

// Str returns the string of KindString or the JSON text of KindRaw, and "" for numbers.
func Str(a Arg) string { return a.str }

// Text returns any value as text: strings as they are, numbers in decimal,
// raw values as JSON, hashes as hex digits.
func (a Arg) Text() string {
	switch a.kind {
	case KindString, KindRaw:
		return a.str
	case KindHash:
		return HashText(Hash(a.num), V2)
	}
	return string(AppendArg(a, nil, V2))
}

// AppendArg appends the value, without its key, as the dialect writes it.
func AppendArg(a Arg, dst []byte, d Dialect) []byte {
	switch a.kind {
	case KindInt:
		return jsontext.AppendInt(dst, int64(a.num))
	case KindUint:
		return jsontext.AppendUint(dst, a.num)
	case KindFloat:
		return jsontext.AppendFloat(dst, math.Float64frombits(a.num))
	case KindRaw:
		return appendRaw(dst, a.str)
	case KindHash:
		return AppendHash(Hash(a.num), dst, d)
	}
	return jsontext.AppendString(dst, a.str)
}

func clampInt64(f float64) int64 {
	switch {
	case f != f:
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

// appendRaw appends valid JSON without bytes below space. Valid JSON has them
// only between tokens, so the value stays the same and the line stays one line.
func appendRaw(dst []byte, s string) []byte {
	if !json.Valid([]byte(s)) {
		return jsontext.AppendString(dst, s)
	}
	for i := 0; i < len(s); i++ {
		if s[i] >= ' ' {
			dst = append(dst, s[i])
		}
	}
	return dst
}

// Plain reports whether an argument with this name is always written under it:
// the name is short, needs no escapes, and is not reserved by the format.
func Plain(key string) bool {
	if len(key) > 32 || owned(key) {
		return false
	}
	for i := range len(key) {
		if !jsontext.Plain[key[i]] {
			return false
		}
	}
	return true
}
