package kineto

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Args is the raw text of an args object. Its methods parse members on demand
// and never fail: ok is false for a member that is absent or of another type.
type Args []byte

// Each calls fn with every member in file order, with the raw key and the raw
// JSON value, until fn returns false. It stops at the first byte that is not
// JSON.
func (a Args) Each(fn func(key, raw []byte) bool) {
	if len(a) < 2 {
		return
	}
	i := 1
	for {
		for i < len(a) && (isSpace(a[i]) || a[i] == ',') {
			i++
		}
		if i >= len(a) || a[i] != '"' {
			return
		}
		k := i + 1
		if i = skipString(a, i); i < 0 {
			return
		}
		key := a[k : i-1]
		if i = skipSpace(a, i); i >= len(a) || a[i] != ':' {
			return
		}
		i = skipSpace(a, i+1)
		v := i
		for i < len(a) && a[i]-'0' <= 9 {
			i++
		}
		// Other values than whole numbers take the slow path.
		if i == v || i >= len(a) || !endsNumber(a[i]) {
			if i = skipValue(a, v); i < 0 {
				return
			}
		}
		if !fn(key, a[v:i]) {
			return
		}
	}
}

// Raw returns the raw JSON of a member.
func (a Args) Raw(key string) (raw []byte, ok bool) {
	a.Each(func(k, v []byte) bool {
		if string(k) == key {
			raw, ok = v, true
			return false
		}
		return true
	})
	return raw, ok
}

// Int returns an integer member, in quotes or not.
func (a Args) Int(key string) (int64, bool) {
	raw, ok := a.Raw(key)
	if !ok {
		return 0, false
	}
	return parseInt(raw)
}

// Float returns a number member.
func (a Args) Float(key string) (float64, bool) {
	raw, ok := a.Raw(key)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil
}

// Text returns a string member with its escapes resolved.
func (a Args) Text(key string) (string, bool) {
	raw, ok := a.Raw(key)
	if !ok || len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	return UnquoteText(raw), true
}

// ParseInt reads a raw JSON value as an integer, in quotes or not.
func ParseInt(raw []byte) (int64, bool) { return parseInt(raw) }

// ParseNanos reads a raw JSON value as decimal microseconds and returns
// nanoseconds; fractions of a nanosecond are dropped.
func ParseNanos(raw []byte) (int64, bool) {
	ns, _, ok := parseNanos(raw)
	return ns, ok
}

// UnquoteText resolves a raw JSON string; other values are returned as written.
func UnquoteText(raw []byte) string {
	if len(raw) >= 2 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	return string(appendUnescaped(nil, raw))
}

// Elements calls fn with every element of a raw JSON array until fn returns
// false. Other values have no elements.
func Elements(raw []byte, fn func(elem []byte) bool) {
	if len(raw) < 2 || raw[0] != '[' {
		return
	}
	i := 1
	for {
		for i < len(raw) && (isSpace(raw[i]) || raw[i] == ',') {
			i++
		}
		if i >= len(raw) || raw[i] == ']' {
			return
		}
		v := i
		if i = skipValue(raw, i); i < 0 {
			return
		}
		if !fn(raw[v:i]) {
			return
		}
	}
}

// appendUnescaped resolves JSON escapes; an invalid escape (Windows paths) is
// kept as written.
func appendUnescaped(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' || i+1 == len(s) {
			dst = append(dst, c)
			continue
		}
		i++
		switch s[i] {
		case '"', '\\', '/':
			dst = append(dst, s[i])
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			r, n := unescapeRune(s[i+1:])
			if n == 0 {
				dst = append(dst, '\\', 'u')
				continue
			}
			dst = utf8.AppendRune(dst, r)
			i += n
		default:
			dst = append(dst, '\\', s[i])
		}
	}
	return dst
}

func unescapeRune(s []byte) (rune, int) {
	r, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 4
	}
	if len(s) >= 10 && s[4] == '\\' && s[5] == 'u' {
		if low, ok := hex4(s[6:]); ok {
			if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
				return full, 10
			}
		}
	}
	return utf8.RuneError, 4
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
