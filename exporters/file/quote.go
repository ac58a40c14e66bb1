package file

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// plain are the bytes that stand for themselves in a JSON string in ASCII.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendString appends a JSON string in ASCII, as the reference does: escapes
// for quotes, backslashes and control characters, \u for everything beyond
// ASCII. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for {
		n := 0
		for n < len(s) && plain[s[n]] {
			n++
		}
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		s = s[n:]
		size := 1
		switch c := s[0]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\b':
			dst = append(dst, `\b`...)
		case c == '\f':
			dst = append(dst, `\f`...)
		case c < ' ':
			dst = appendEscape(dst, rune(c))
		default:
			var r rune
			r, size = utf8.DecodeRuneInString(s)
			dst = appendRune(dst, r)
		}
		s = s[size:]
	}
}

// appendRune appends a character beyond ASCII, as a surrogate pair if need be.
func appendRune(dst []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		dst = appendEscape(dst, 0xd800+r>>10)
		r = 0xdc00 + r&0x3ff
	}
	return appendEscape(dst, r)
}

func appendEscape(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendRaw appends JSON that was made elsewhere, on one line and in ASCII.
// What is not JSON becomes a string.
func appendRaw(dst []byte, raw json.RawMessage) []byte {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return appendString(dst, string(raw))
	}
	for _, r := range compact.String() { // beyond ASCII there are strings only
		if r < utf8.RuneSelf {
			dst = append(dst, byte(r))
		} else {
			dst = appendRune(dst, r)
		}
	}
	return dst
}
