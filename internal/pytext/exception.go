package pytext

import (
	"strings"
	"unicode/utf8"
)

// longestLine bounds what ExceptionLine gives, in bytes.
const longestLine = 300

// ExceptionLine is the line that says what was wrong, of a text that an exception or an
// interpreter has printed: that behind the last traceback in it, else the first one. It
// has at most 300 bytes.
func ExceptionLine(text string) string {
	const mark = "Traceback (most recent call last)"
	if i := strings.LastIndex(text, mark); i >= 0 {
		_, text, _ = strings.Cut(text[i+len(mark):], "\n")
		for text != "" && (text[0] == ' ' || text[0] == '\t' || text[0] == '\n') { // frames
			_, text, _ = strings.Cut(text, "\n")
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.TrimSpace(line)
	if len(line) > longestLine {
		at := longestLine
		for at > 0 && !utf8.RuneStart(line[at]) {
			at--
		}
		line = line[:at] + "…"
	}
	return line
}
