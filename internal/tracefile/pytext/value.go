package pytext

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// AppendStr appends v in the form of Python's str().
func AppendStr(dst []byte, v any) []byte {
	if _, number := v.(json.Number); !number && reflect.ValueOf(v).Kind() == reflect.String {
		return append(dst, reflect.ValueOf(v).String()...)
	}
	return AppendRepr(dst, v)
}

// AppendRepr appends v in the form of Python's repr(), which is also the form
// of items in a list.
func AppendRepr(dst []byte, v any) []byte {
	switch x := v.(type) {
	case nil:
		return append(dst, "None"...)
	case string:
		return appendQuoted(dst, x)
	case json.Number:
		return appendNumber(dst, string(x))
	case fmt.Stringer:
		return append(dst, x.String()...)
	}
	rv := reflect.ValueOf(v)
	if entries := reflect.TypeFor[[]entry](); rv.Type().ConvertibleTo(entries) {
		return appendDict(dst, rv.Convert(entries).Interface().([]entry))
	}
	switch rv.Kind() {
	case reflect.Bool:
		if rv.Bool() {
			return append(dst, "True"...)
		}
		return append(dst, "False"...)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, rv.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.AppendUint(dst, rv.Uint(), 10)
	case reflect.Float32:
		// Python only has doubles: the text is that of the widened value.
		return AppendFloat(dst, rv.Float())
	case reflect.Float64:
		return AppendFloat(dst, rv.Float())
	case reflect.String:
		return appendQuoted(dst, rv.String())
	case reflect.Slice, reflect.Array:
		dst = append(dst, '[')
		for i := range rv.Len() {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = AppendRepr(dst, rv.Index(i).Interface())
		}
		return append(dst, ']')
	}
	return fmt.Append(dst, v)
}

// entry is an item of an ordered dict.
type entry = struct {
	Key   string
	Value any
}

func appendDict(dst []byte, m []entry) []byte {
	dst = append(dst, '{')
	for i, e := range m {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(appendQuoted(dst, e.Key), ": "...)
		dst = AppendRepr(dst, e.Value)
	}
	return append(dst, '}')
}

// appendNumber appends a JSON number: an integer of any size digit for digit, a
// number with a point or an exponent as a float.
func appendNumber(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, ".eE") {
		return append(dst, s...)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return append(dst, s...)
	}
	return AppendFloat(dst, f)
}

// appendQuoted appends s in the form of a string in a Python list: in single
// quotes, unless s has these and no double quotes, and with escapes for
// characters that cannot be printed.
func appendQuoted(dst []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	dst = append(dst, quote)
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			// Python keeps a byte that is not valid UTF-8 as a lone surrogate.
			dst = fmt.Appendf(dst, `\udc%02x`, s[0])
		case r == rune(quote) || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xad:
			dst = fmt.Appendf(dst, `\x%02x`, r)
		case unicode.IsPrint(r):
			dst = append(dst, s[:size]...)
		case r < 0x100:
			dst = fmt.Appendf(dst, `\x%02x`, r)
		case r < 0x10000:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = fmt.Appendf(dst, `\U%08x`, r)
		}
		s = s[size:]
	}
	return append(dst, quote)
}
