package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// duration writes nanoseconds for people: two units at most.
func duration(ns int64) string {
	if ns < 0 {
		return "-" + duration(-ns)
	}
	s := float64(ns) / 1e9
	switch {
	case ns == 0:
		return "0 s"
	case s < 1e-3:
		return fmt.Sprintf("%.0f µs", s*1e6)
	case s < 0.9995:
		return milliseconds(s * 1e3)
	case s < 59.95:
		return fmt.Sprintf("%.1f s", s)
	case s < 3599.5:
		n := int64(math.Round(s))
		return fmt.Sprintf("%dm %02ds", n/60, n%60)
	case s < 48*3600:
		n := int64(math.Round(s / 60))
		return fmt.Sprintf("%dh %02dm", n/60, n%60)
	}
	n := int64(math.Round(s / 3600))
	return fmt.Sprintf("%dd %02dh", n/24, n%24)
}

func milliseconds(ms float64) string {
	switch a := math.Abs(ms); {
	case a < 0.005:
		return "0 ms"
	case a >= 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case a >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case a >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

func percent(x float64) string {
	if x != 0 && math.Abs(x) < 0.0005 {
		return "< 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

// plural gives "1 rank" and "2 ranks".
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
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

// clean takes out what would move the cursor of a terminal: names come from
// files.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}
