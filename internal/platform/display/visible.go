// Package display sanitizes untrusted text. A name in a trace can have bytes
// that move the cursor of a terminal, change its title, change the direction of
// the following text, or begin a line. Here each of them becomes a dot.
//
// [Writer] sanitizes everything that is written to it. [Fprintf] sanitizes its
// arguments, which stay on one line, except for an [Own]. [JSON] escapes such
// characters.
package display

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Dot replaces a character that is not shown.
const Dot = "·"

// Text returns a text on one line without effects on a terminal: control
// characters (including line breaks and tabs), invisible format characters such
// as those for text direction, and invalid UTF-8 become a [Dot] each.
func Text(s string) string {
	if first(s, false) < 0 {
		return s
	}
	return string(Append(make([]byte, 0, len(s)+8), s))
}

// Append appends the result of [Text].
func Append[T string | []byte](dst []byte, s T) []byte { return appendClean(dst, s, false, dot) }

// markdown escapes characters with a meaning in Markdown or in a table cell.
var markdown = strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "[", `\[`, "<", "&lt;", "&", "&amp;")

// Markdown returns the result of [Text] for a table cell or a sentence in
// Markdown.
func Markdown(s string) string { return markdown.Replace(Text(s)) }

// first returns the index of the first character that is not shown, or a
// negative number.
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

// appendClean appends a text and calls replace for each character that is not
// shown. With layout, line feeds and tabs are kept.
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

// decode returns the first character and its size. Invalid and ASCII characters
// have size one.
func decode[T string | []byte](s T) (rune, int) {
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s)])
}

// isHidden reports whether Unicode calls a character a control, a format
// character or a line separator, except visible format characters.
func isHidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}
