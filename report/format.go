package report

import (
	"strings"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/human"
)

// known is percent, and a word where there is no number.
func known(x *float64) string {
	if x == nil {
		return "unknown"
	}
	return human.Percent(*x)
}

// fold breaks text into lines of at most width letters.
func fold(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		word = clip(word, width)
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// clip shortens text to width letters.
func clip(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
