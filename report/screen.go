package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/visible"
)

// screen gathers the lines.
type screen struct {
	columns int
	lines   []string
}

// line adds one row of a table.
func (s *screen) line(format string, args ...any) {
	text := strings.TrimRight(visible.Text(fmt.Sprintf(format, args...)), " ")
	s.lines = append(s.lines, clip(text, s.columns))
}

// say adds a sentence, below a head. It is cut to one line where there is room
// for most, and takes several where there is not.
func (s *screen) say(format string, args ...any) {
	text := visible.Text(fmt.Sprintf(format, args...))
	if s.columns == maxColumns {
		s.lines = append(s.lines, clip("  "+text, maxColumns))
		return
	}
	for _, l := range fold(text, s.columns-2) {
		s.lines = append(s.lines, "  "+l)
	}
}

// room is the width of a column: wide on the full screen, narrow on a smaller one.
func (s *screen) room(wide, narrow int) int {
	if s.columns < maxColumns {
		return narrow
	}
	return wide
}

func (s *screen) head(title string) {
	s.lines = append(s.lines, "")
	if s.columns == maxColumns {
		s.line("%s", title)
		return
	}
	for i, l := range fold(visible.Text(title), s.columns-2) {
		s.lines = append(s.lines, strings.Repeat("  ", min(i, 1))+l)
	}
}

// heads adds the names of the columns of a table.
func (s *screen) heads(format string, args ...any) {
	s.lines = append(s.lines, "")
	s.line(format, args...)
}

// more says how many entries are not shown.
func (s *screen) more(n int, what string) {
	if n > 0 {
		s.line("  … %s, see --json or --html", human.Plural(n, "more "+what))
	}
}

// bar draws a share in eighths of letters; a small one is still seen.
func bar(share float64, width int) string {
	eighths := int(share*float64(width)*8 + 0.5)
	if share > 0 {
		eighths = max(eighths, 1)
	}
	out := strings.Repeat("█", eighths/8)
	if n := eighths % 8; n > 0 {
		out += string([]rune(" ▏▎▍▌▋▊▉")[n])
	}
	return out + strings.Repeat(" ", max(width-utf8.RuneCountInString(out), 0))
}

// part adds a row with a bar for a share of something, which took so long.
func (s *screen) part(name string, share float64, ns int64) {
	width := s.room(22, 17)
	s.line("  %-*s %s %8s %11s", width, clip(visible.Text(name), width), bar(share, max(s.columns-width-30, 2)), human.Percent(share), human.Duration(ns))
}

// labelled adds a text behind a word, on as many lines as it takes.
func (s *screen) labelled(label, text string) {
	if text == "" {
		return
	}
	width := 0
	if label != "" {
		width = labelWidth
	}
	for i, l := range fold(visible.Text(text), s.columns-width) {
		if i > 0 {
			label = ""
		}
		s.lines = append(s.lines, strings.TrimRight(fmt.Sprintf("%-*s%s", width, label, l), " "))
	}
}
