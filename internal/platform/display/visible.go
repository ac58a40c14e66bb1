// Package display makes text of others something that is only seen. A name in a
// trace can hold the bytes that move the cursor of a terminal, change its title,
// turn the direction of what follows, or begin a line of their own. Here each of
// them becomes a dot.
//
// [Writer] does that to all that is written, whoever writes it. [Fprintf] knows
// what of it comes from elsewhere: its arguments stay on one line, and an [Own]
// passes as it is. In JSON such characters become escapes, by [JSON].
package display

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Dot stands for a character that is not shown.
const Dot = "·"

// Text returns a text that stays on one line and does nothing but be seen:
// control characters, line breaks and tabs among them, characters that format
// their neighbours without being seen, as those of direction do, and bytes that
// are no UTF-8 become a [Dot] each.
func Text(s string) string {
	if first(s, false) < 0 {
		return s
	}
	return string(Append(make([]byte, 0, len(s)+8), s))
}

// Append appends what [Text] returns.
func Append[T string | []byte](dst []byte, s T) []byte { return appendClean(dst, s, false, dot) }

// markdown escapes what begins something in Markdown, or ends a cell of a table.
var markdown = strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "[", `\[`, "<", "&lt;", "&", "&amp;")

// Markdown returns a [Text] for a cell of a table or a sentence in Markdown.
func Markdown(s string) string { return markdown.Replace(Text(s)) }

// first returns where the first character is that is not shown, negative without one.
func first[T string | []byte](s T, layout bool) int {
	for i := 0; i < len(s); {
		for i < len(s) && s[i] >= ' ' && s[i] < 0x7f {
			i++
		}
		if i == len(s) {
			return -1
		}
		if c := s[i]; c < utf8.RuneSelf {
			if !layout || c != '\n' && c != '\t' {
				return i
			}
			i++
			continue
		}
		r, n := decode(s[i:])
		if n == 1 || isHidden(r) {
			return i
		}
		i += n
	}
	return -1
}

// appendClean appends a text in which replace puts something in the place of each
// character that is not shown. Layout leaves line feeds and tabs.
func appendClean[T string | []byte](dst []byte, s T, layout bool, replace func(dst []byte, r rune) []byte) []byte {
	for len(s) > 0 {
		i := first(s, layout)
		if i < 0 {
			return append(dst, s...)
		}
		r, n := decode(s[i:])
		dst = replace(append(dst, s[:i]...), r)
		s = s[i+n:]
	}
	return dst
}

func dot(dst []byte, _ rune) []byte { return append(dst, Dot...) }

// decode returns the first character; one byte long if it is none or ASCII.
func decode[T string | []byte](s T) (rune, int) {
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s)])
}

// isHidden reports all that Unicode calls a control, a format or a separator of lines,
// but signs that format what follows and are seen.
func isHidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}
