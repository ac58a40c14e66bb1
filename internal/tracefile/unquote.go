package tracefile

import (
	"unicode/utf16"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
)

// unquote appends the JSON string whose first byte after the quote is b[i] and
// returns the index after its closing quote, or -1 if it is invalid. Like
// encoding/json it replaces invalid UTF-8 and lone surrogates by U+FFFD.
func unquote(dst, b []byte, i int) ([]byte, int) {
	for i < len(b) {
		switch c := b[i]; {
		case jsontext.Plain[c]:
			dst = append(dst, c)
			i++
		case c == '"':
			return dst, i + 1
		case c == '\\':
			if i+1 >= len(b) {
				return dst, -1
			}
			if b[i+1] == 'u' {
				r := hex4(b, i+2)
				if r < 0 {
					return dst, -1
				}
				i += 6
				if utf16.IsSurrogate(r) {
					low := rune(-1)
					if i+1 < len(b) && b[i] == '\\' && b[i+1] == 'u' {
						low = hex4(b, i+2)
					}
					if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
						r = both
						i += 6
					} else {
						r = utf8.RuneError
					}
				}
				dst = utf8.AppendRune(dst, r)
				continue
			}
			e := unescaped(b[i+1])
			if e == 0 {
				return dst, -1
			}
			dst = append(dst, e)
			i += 2
		case c < ' ':
			return dst, -1
		default:
			r, size := utf8.DecodeRune(b[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
		}
	}
	return dst, -1
}

func unescaped(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	}
	return 0
}

func hex4(b []byte, i int) rune {
	if i+4 > len(b) {
		return -1
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
